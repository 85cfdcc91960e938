"""Build the tree of files that a launch sees: private copies of all writable files, or a read-only view.

The list of mounts is read before anything is mounted, so that it holds none of ours. A user namespace may not show a folder without
the mounts below it (mount_namespaces(7)). Such a folder is built anew, entry by entry.
"""

from __future__ import annotations

import collections
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from cs_input_analyzer.host.machine import memory_here
from cs_input_analyzer.host.mounts import is_below
from cs_input_analyzer.records import UserFiles
from cs_input_analyzer.worker.isolation import kernel

# File systems of the kernel's own, and of an automounter (only the kernel can pass on what appears below one).
KERNELS = frozenset(
    [
        "autofs",
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "debugfs",
        "devpts",
        "devtmpfs",
        "efivarfs",
        "fusectl",
        "hugetlbfs",
        "mqueue",
        "nsfs",
        "proc",
        "pstore",
        "rpc_pipefs",
        "securityfs",
        "selinuxfs",
        "sysfs",
        "tracefs",
    ]
)
# The folders of devices and of the kernel.
PROC, SYS, DEV, RUN = "/proc", "/sys", "/dev", "/run"
# Files by which root changes the kernel for all.
KERNELS_SWITCHES = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
# Below /run, services that resolve names, users and jobs; sockets cannot be connected to through an overlay.
RESOLVING = ("systemd/resolve", "systemd/userdb", "nscd", "nslcd", "sssd", "munge", "avahi-daemon", "slurm")
SSS = "/var/lib/sss/pipes"
LISTENING, LISTENED_SOCKETS = "00010000", "/proc/net/unix"
# A folder that is made anew: one with more entries becomes read-only; files and folders up to this size, all together, are copied.
MOST_ENTRIES = 2000
COPIED_BYTES = 64 << 20
# Where no user has a folder of their own.
SYSTEMS_OWN = ("/bin", "/boot", "/etc", "/lib", "/lib64", "/opt", "/sbin", "/usr", "/var")
# Folders of others are looked for this deep below a mount, and this long.
DEPTH = 3
FOLDERS_S = 0.3
# Where the upper layers can only lie in memory, they take at most this part of the free memory.
MEMORY_RATIO = 0.25
# Places for temporary files: writable also where the rest is read-only.
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/run")


class Tree:
    """Build the new tree of files, below `place`, a folder that only this launch uses.

    Args:
        place: holds the new root and the upper layers. A layer lies in memory, up to a bound, if the kernel does not take one from
            this place: from a network's file system, or from a folder below the one that it covers.
        kept: folders that stay real and writable.
        working: the working directory.
        level: private copies, or read-only.
        has_own_processes: whether the process has its own process namespace, whose /proc is shown.
    """

    def __init__(self, place: Path, kept: Sequence[str], working: str, level: UserFiles, *, has_own_processes: bool) -> None:
        # Of several mounts at one path, the last is seen. One below a path that was mounted over is not.
        self._mounts = {found.mountpoint: found for found in psutil.disk_partitions(all=True) if not _is_hidden(found.mountpoint)}
        self._sockets = _listened_sockets()
        self._level = level
        self._has_own_processes = has_own_processes
        self._kept = [os.path.realpath(path) for path in kept]
        self.working = os.path.realpath(working)
        # Folder -> a descriptor of its upper layer: one in memory has no path outside of the tree.
        self._uppers: dict[str, int] = {}
        self._filled: set[str] = set()  # real folders that we made in layers
        # Trusted attributes, in which an overlay keeps what was removed, are not for user namespaces.
        self._is_superusers = kernel.is_first_user_namespace()
        self._options = "" if self._is_superusers else ",userxattr"
        kernel.mount(None, "/", flags=kernel.MS_REC | kernel.MS_SLAVE)
        self._place_of_layers = place
        self.root = self._made_in_memory("root", "")
        self._disk = self._layers_on_disk() if level == "private copies" else None
        self._memory: Path | None = None

    def build(self) -> None:
        """Build the tree. Raise OSError if the working directory cannot be in it at this level."""
        self._place("/")
        self._kernels_own()
        if self._level == "private copies":
            for path in (*_of_others(self.working, os.path.expanduser("~")), *self._hidden_working()):
                if not self._mounts_below(path):  # one that has some was made anew, and is ours
                    self._overlay(path)
        else:
            temporary = {os.path.realpath(path) for path in (*TEMPORARY, os.environ.get("TMPDIR", "")) if os.path.isdir(path)}
            for path in sorted(temporary - {"/"}):
                self._each_entry(path)
        for path in [path for path in (*(f"{RUN}/{name}" for name in RESOLVING), SSS) if os.path.isdir(path)]:
            os.makedirs(self.root + os.path.realpath(path), exist_ok=True)
            self._read_only(os.path.realpath(path))
        for path in self._sockets:
            with suppress(OSError):
                kernel.mount(path, self.root + path, flags=kernel.MS_BIND)
        for path in self._kept:
            kernel.mount(path, self.root + path, flags=kernel.MS_BIND)  # without what is mounted below: that is the new tree itself

    def _made_in_memory(self, name: str, size: str) -> str:
        made = self._place_of_layers / name
        made.mkdir()
        kernel.mount("tmpfs", str(made), "tmpfs", data=f"mode=755{size}")
        return str(made)

    def _layers_on_disk(self) -> Path | None:
        """Return the folder for upper layers; None if its file system, a network's or an overlay, cannot hold any."""
        layers = self._place_of_layers / "layers"
        for name in ("lower", "upper", "work", "seen"):
            (layers / name).mkdir(parents=True)
        options = ",".join(f"{name}dir={_quoted(str(layers / name))}" for name in ("lower", "upper", "work"))
        try:
            kernel.mount("overlay", str(layers / "seen"), "overlay", data=options + self._options)
        except OSError:
            return None
        kernel.checked(kernel.libc().umount2(os.fsencode(layers / "seen"), kernel.MNT_DETACH), "umount")
        return layers

    def _new_layer(self, path: str) -> Path:
        """Return a new folder for the upper layer of `path`. A layer below the folder that it covers is refused (ELOOP)."""
        layers, mount = self._disk, self._mounts.get(path)
        is_memory = mount is not None and mount.fstype == "tmpfs"  # shared memory stays memory
        if layers is None or is_memory or is_below(str(layers), path):
            if self._memory is None:
                size = int(memory_here().free_bytes * MEMORY_RATIO)
                self._memory = Path(self._made_in_memory("memory", f",size={size}"))
            layers = self._memory
        return Path(tempfile.mkdtemp(dir=layers))

    # --- any path -------------------------------------------------------------------------------------------------------------

    def _place(self, path: str) -> None:
        """Put `path` and all below it into the new tree, where it exists already."""
        mount = self._mounts.get(path)
        if path in (PROC, SYS, DEV) or (mount is not None and mount.fstype in KERNELS):
            self._bind(path)
            for other in self._next_below(path):  # files that people write: /dev/shm, /home/me of an automounter
                if self._mounts[other].fstype not in KERNELS:
                    self._place(other)
        elif self._level == "read-only" or not os.path.isdir(path):  # a mount may be of one file: a container's /etc/resolv.conf
            self._read_only(path)
        elif path == "/" or (self._mounts_below(path) and not self._is_superusers):
            self._each_entry(path)
        else:
            self._overlay(path)
            for other in self._next_below(path):
                self._place(other)

    def _mounts_below(self, path: str) -> list[str]:
        return [other for other in self._mounts if other != path and is_below(other, path)]

    def _next_below(self, path: str) -> list[str]:
        """Return the mounts below `path` that lie below no other of them."""
        below = self._mounts_below(path)
        return [one for one in below if not any(other != one and is_below(one, other) for other in below)]

    def _bind(self, path: str) -> None:
        """Show `path` as it is, with all mounts below."""
        kernel.mount(path, self.root + path, flags=kernel.MS_BIND | kernel.MS_REC)

    def _read_only(self, path: str) -> None:
        self._bind(path)
        for other in (path, *self._mounts_below(path)):
            if self._mounts.get(other) is None or self._mounts[other].fstype not in KERNELS - {"sysfs", "cgroup", "cgroup2"}:
                with suppress(FileNotFoundError):
                    kernel.make_read_only(self.root + other)

    def _overlay(self, path: str) -> None:
        """Show `path` with its own upper layer."""
        mount = self._mounts.get(path)
        if mount is not None and "ro" in mount.opts.split(","):
            return self._bind(path)
        layers = self._new_layer(path)
        upper, work = layers / "upper", layers / "work"
        upper.mkdir()
        work.mkdir()
        upper.chmod(stat.S_IMODE(os.stat(path).st_mode))
        if not self._is_superusers and path not in SYSTEMS_OWN:
            self._filled |= _fill_with_folders_of_others(path, upper)
        data = f"lowerdir={_quoted(path)},upperdir={_quoted(str(upper))},workdir={_quoted(str(work))}{self._options}"
        try:
            kernel.mount("overlay", self.root + path, "overlay", data=data)
            self._uppers[path] = os.open(upper, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            if is_below(self.working, path):
                raise
            self._read_only(path)
        return None

    def _hidden_working(self) -> list[str]:
        """Return the working directory if it lies in a folder of devices or sockets that is no copy."""
        is_kernels = any(is_below(self.working, path) for path in (PROC, SYS, DEV))
        is_copied = any(is_below(self.working, path) for path in self._uppers)
        return [self.working] if is_kernels and not is_copied else []

    def is_as_it_was(self, path: str) -> bool:
        """Return whether a real folder is seen through a layer without changes: nobody has written there."""
        above = max((folder for folder in self._uppers if is_below(path, folder)), key=len, default=None)
        if above is None or any(is_below(other, path) for other in (self.working, *self._kept)):
            return False
        layer = f"/proc/self/fd/{self._uppers[above]}"
        for name in os.path.relpath(path, above).split("/"):
            layer = os.path.join(layer, name)
            if os.path.lexists(layer) and (not os.path.isdir(layer) or any(n.endswith(".opaque") for n in os.listxattr(layer))):
                return False  # it was removed, and perhaps made again
        return not os.path.lexists(layer) or (path in self._filled and not any(names for _, _, names in os.walk(layer)))

    # --- a folder that is made anew -------------------------------------------------------------------------------------------

    def _each_entry(self, path: str) -> None:
        entries = list(os.scandir(path))
        if len(entries) > MOST_ENTRIES:
            return self._read_only(path)
        if path != "/":
            made = self._new_layer(path)
            made.chmod(stat.S_IMODE(os.stat(path).st_mode))
            kernel.mount(str(made), self.root + path, flags=kernel.MS_BIND)
        left_bytes = COPIED_BYTES if self._is_users(path) else 0
        for entry in entries:
            try:
                left_bytes -= self._entry(entry, left_bytes)
            except FileNotFoundError:  # others remove theirs meanwhile, in /tmp all the time: what was made of it stays empty
                if os.path.lexists(entry.path) or is_below(self.working, entry.path):
                    raise
        return None

    def _is_users(self, path: str) -> bool:
        """Return whether the user may expect to replace the entries of this folder."""
        return self._level == "private copies" and os.access(path, os.W_OK) and path != "/"

    def _is_plain(self, path: str) -> bool:
        """Return whether a folder may be copied: it holds no mount, no place of ours, and not the working directory."""
        ours = (self.working, str(self._place_of_layers), *self._kept, *self._mounts)
        return not any(is_below(other, path) for other in ours)

    def _entry(self, entry: os.DirEntry[str], left_bytes: int) -> int:
        """Put one entry of a folder into the tree. Return the bytes that were copied."""
        made = self.root + entry.path
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), made)
        elif entry.is_dir():
            copied = _small_bytes(entry.path, left_bytes) if left_bytes > 0 and self._is_plain(entry.path) else None
            if copied is not None:
                shutil.copytree(entry.path, made, symlinks=True)
                return copied
            os.mkdir(made)
            try:
                self._place(entry.path)
            except PermissionError:  # a folder of others: it stays as empty as it looks to us
                if is_below(self.working, entry.path):
                    raise
        elif entry.is_file() and entry.stat().st_size <= left_bytes and os.access(entry.path, os.R_OK):
            shutil.copy2(entry.path, made)
            return entry.stat().st_size
        elif entry.is_file() or not is_below(entry.path, RUN):  # a service below /run acts for real
            os.close(os.open(made, os.O_CREAT | os.O_WRONLY))
            self._read_only(entry.path)
        return 0

    # --- the kernel's folders -------------------------------------------------------------------------------------------------

    def _kernels_own(self) -> None:
        """Show only the processes of the launch, and hide the switches by which root changes the kernel for all."""
        if self._has_own_processes:
            kernel.mount("proc", self.root + PROC, "proc")
            for path in self._next_below(PROC):  # what a container shows of itself, as the memory that it may use
                with suppress(OSError):
                    self._bind(path)
        for path in KERNELS_SWITCHES:
            with suppress(OSError):
                kernel.mount(self.root + path, self.root + path, flags=kernel.MS_BIND)
                kernel.make_read_only(self.root + path)
        with suppress(OSError):
            self._read_only(SYS)
        with suppress(OSError):  # the queues of the launch's own IPC namespace
            kernel.mount("mqueue", self.root + "/dev/mqueue", "mqueue")


def _is_hidden(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # the mount of a server that does not answer is there
        return False
    return False


def _quoted(path: str) -> str:
    return re.sub(r"([\\,:])", r"\\\1", path)


def _listened_sockets() -> list[str]:
    """Return the sockets outside /run that somebody listens on and this user may connect to: a database, another munge."""
    found = []
    with suppress(OSError):
        for line in Path(LISTENED_SOCKETS).read_text(errors="surrogateescape").splitlines()[1:]:
            fields = line.split(None, 7)
            if len(fields) == 8 and fields[3] == LISTENING and fields[7].startswith("/") and not is_below(fields[7], RUN):
                found.append(fields[7])
    return [path for path in dict.fromkeys(found) if _is_open_socket(path)]


def _is_open_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode) and os.access(path, os.W_OK) and not os.path.realpath(path).startswith(RUN)
    except OSError:
        return False


def _small_bytes(path: str, limit_bytes: int) -> int | None:
    """Return the size of all files below a folder; None if they are more than `limit_bytes`, many, or unreadable."""
    total, count = 0, 0
    try:
        for place, _, names in os.walk(path, onerror=_raised):
            count += 1 + len(names)
            for name in names:
                one = os.path.join(place, name)
                found = os.lstat(one)
                total += found.st_size
                if not (stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and os.access(one, os.R_OK))):
                    return None
            if total > limit_bytes or count > MOST_ENTRIES:
                return None
    except OSError:
        return None
    return total


def _raised(error: OSError) -> None:
    raise error


def _of_others(*paths: str) -> list[str]:
    """Return the folders on the way to `paths` that belong to others, outermost first.

    In a user namespace an overlay cannot copy those up (EOVERFLOW), unless they are the top of an overlay of their own.
    """
    if kernel.is_first_user_namespace():
        return []
    ways = {str(folder) for path in paths for folder in (Path(path), *Path(path).resolve().parents)}
    folders = [way for way in sorted(ways) if os.path.isdir(way) and way.count("/") > 1 and not way.startswith((PROC, SYS, DEV))]
    return [way for way in folders if os.stat(way).st_uid != os.getuid()]


def _fill_with_folders_of_others(path: str, upper: Path) -> set[str]:
    """Make the folders of others below `path` in the upper layer, for the same reason. Return them.

    A user's own folder is often below a folder of others, such as /scratch/users/me.
    """
    made = set[str]()
    deadline_s = time.monotonic() + FOLDERS_S
    queued = collections.deque([("", 0)])
    while queued and time.monotonic() < deadline_s:
        inside, depth = queued.popleft()
        try:
            entries = list(os.scandir(os.path.join(path, inside)))
        except OSError:
            continue
        for entry in entries[:MOST_ENTRIES]:
            if not entry.is_dir(follow_symlinks=False) or not os.access(entry.path, os.R_OK | os.X_OK):
                continue
            status = entry.stat(follow_symlinks=False)
            if status.st_uid == os.getuid():
                continue
            name = os.path.join(inside, entry.name)
            (upper / name).mkdir()
            (upper / name).chmod(stat.S_IMODE(status.st_mode))
            made.add(entry.path)
            if depth + 1 < DEPTH:
                queued.append((name, depth + 1))
    return made
