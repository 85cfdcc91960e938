/*
 * slowfs: a read-only mirror of a folder that is as slow as it is told, in the way a busy file server is.
 *
 *   slowfs SOURCE MOUNTPOINT OPEN_US READ_US BYTES_PER_S SUBTYPE
 *
 * Every open waits OPEN_US and every read request READ_US; such waits of several requests overlap, as round trips do. All data then
 * pass one gate of BYTES_PER_S (0: none), in order of arrival, as through one network link. The kernel's cache of a file is dropped
 * whenever it is opened, so each pass over the data is a cold one. It stays in the foreground, and ends when its parent does.
 */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 31

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_US = 1000, NS_PER_S = 1000000000, MOST_THREADS = 128 };

static int source_fd;
static int64_t open_ns, read_ns;
static double bytes_per_s;
static int is_uncached;

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t gate_free_ns; /* when the link will have sent all that was given to it so far */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void sleep_until(int64_t when_ns)
{
    struct timespec when = {.tv_sec = when_ns / NS_PER_S, .tv_nsec = when_ns % NS_PER_S};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR) {
    }
}

static void wait_ns(int64_t duration_ns)
{
    if (duration_ns > 0)
        sleep_until(now_ns() + duration_ns);
}

static void pass_gate(size_t bytes)
{
    if (bytes_per_s <= 0)
        return;
    pthread_mutex_lock(&gate_lock);
    int64_t begins_ns = now_ns();
    if (gate_free_ns > begins_ns)
        begins_ns = gate_free_ns;
    gate_free_ns = begins_ns + (int64_t)((double)bytes / bytes_per_s * NS_PER_S);
    int64_t ends_ns = gate_free_ns;
    pthread_mutex_unlock(&gate_lock);
    sleep_until(ends_ns);
}

/* FUSE gives paths from the root of the mount; the *at calls want them relative to the source. */
static const char *below_source(const char *path)
{
    return path[1] ? path + 1 : ".";
}

static int mirror_getattr(const char *path, struct stat *status, struct fuse_file_info *file)
{
    int failed = file ? fstat((int)file->fh, status) : fstatat(source_fd, below_source(path), status, AT_SYMLINK_NOFOLLOW);
    return failed ? -errno : 0;
}

static int mirror_readlink(const char *path, char *target, size_t size)
{
    ssize_t length = readlinkat(source_fd, below_source(path), target, size - 1);
    if (length < 0)
        return -errno;
    target[length] = '\0';
    return 0;
}

static int mirror_readdir(const char *path, void *entries, fuse_fill_dir_t add, off_t offset, struct fuse_file_info *file,
                          enum fuse_readdir_flags flags)
{
    (void)offset, (void)file, (void)flags;
    int fd = openat(source_fd, below_source(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return -error;
    }
    for (struct dirent *entry; (entry = readdir(folder));)
        add(entries, entry->d_name, NULL, 0, 0);
    closedir(folder);
    return 0;
}

static int mirror_open(const char *path, struct fuse_file_info *file)
{
    if ((file->flags & O_ACCMODE) != O_RDONLY)
        return -EROFS;
    wait_ns(open_ns);
    int fd = openat(source_fd, below_source(path), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    file->fh = (uint64_t)fd;
    file->keep_cache = 0;
    file->direct_io = is_uncached; /* nodes that read the same file do not share one page cache */
    return 0;
}

static int mirror_read(const char *path, char *data, size_t size, off_t offset, struct fuse_file_info *file)
{
    (void)path;
    wait_ns(read_ns);
    ssize_t count = pread((int)file->fh, data, size, offset);
    if (count < 0)
        return -errno;
    pass_gate((size_t)count);
    return (int)count;
}

static int mirror_release(const char *path, struct fuse_file_info *file)
{
    (void)path;
    close((int)file->fh);
    return 0;
}

static int mirror_statfs(const char *path, struct statvfs *status)
{
    (void)path;
    return fstatvfs(source_fd, status) ? -errno : 0;
}

static const struct fuse_operations mirror = {
    .getattr = mirror_getattr,
    .readlink = mirror_readlink,
    .readdir = mirror_readdir,
    .open = mirror_open,
    .read = mirror_read,
    .release = mirror_release,
    .statfs = mirror_statfs,
};

int main(int count, char **words)
{
    if (count != 8) {
        fprintf(stderr, "usage: slowfs SOURCE MOUNTPOINT OPEN_US READ_US BYTES_PER_S SUBTYPE UNCACHED\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    source_fd = open(words[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (source_fd < 0) {
        perror(words[1]);
        return 1;
    }
    open_ns = atoll(words[3]) * NS_PER_US;
    read_ns = atoll(words[4]) * NS_PER_US;
    bytes_per_s = atof(words[5]);
    is_uncached = atoi(words[7]);

    char options[256];
    /* The library keeps ten threads unless told otherwise; each request that waits holds one. Versions before 3.12 know no limit. */
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 12)
    snprintf(options, sizeof options, "ro,fsname=slowfs,subtype=%s,max_threads=%d", words[6], MOST_THREADS);
#else
    snprintf(options, sizeof options, "ro,fsname=slowfs,subtype=%s", words[6]);
#endif
    char *arguments[] = {words[0], words[2], "-f", "-o", options, NULL};
    return fuse_main(5, arguments, &mirror, NULL);
}
