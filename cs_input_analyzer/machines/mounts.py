"""Which file system a file is on, and whether other hosts share it: from the kernel's own list of mounts."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTINFO = Path("/proc/self/mountinfo")

# As the kernel names them (`Documentation/filesystems`, and the vendors' own modules).
SHARED = frozenset(
    {
        "9p",
        "acfs",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "cvfs",
        "daos",
        "dvs",
        "fhgfs",
        "gfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "mmfs",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "panfs",
        "prl_fs",
        "pvfs2",
        "smb3",
        "smbfs",
        "vboxsf",
        "weka",
        "wekafs",
    }
)
# What follows `fuse.` for clients of file servers and object stores.
SHARED_FUSE = frozenset(
    {
        "alluxio",
        "alluxio-fuse",
        "blobfuse",
        "blobfuse2",
        "ceph-fuse",
        "curlftpfs",
        "cvmfs2",
        "davfs",
        "dfuse",
        "fuse_dfs",
        "gcsfuse",
        "goofys",
        "hdfs",
        "juicefs",
        "lizardfs",
        "mfs",
        "mfsmount",
        "moosefs",
        "mount-s3",
        "mountpoint-s3",
        "quobyte",
        "rclone",
        "s3fs",
        "s3ql",
        "seaweedfs",
        "sshfs",
        "weed",
    }
)
LOCAL = frozenset(
    {
        "bcachefs",
        "btrfs",
        "devtmpfs",
        "erofs",
        "exfat",
        "ext2",
        "ext3",
        "ext4",
        "f2fs",
        "fuseblk",
        "hfsplus",
        "iso9660",
        "jfs",
        "msdos",
        "nilfs2",
        "ntfs",
        "ntfs3",
        "ramfs",
        "reiserfs",
        "rootfs",
        "squashfs",
        "tmpfs",
        "udf",
        "ufs",
        "vfat",
        "xfs",
        "zfs",
    }
)
LOCAL_FUSE = frozenset(
    {"ext2", "fuse2fs", "gvfsd-fuse", "lxcfs", "ntfs", "ntfs-3g", "portal", "squashfuse", "squashfuse_ll", "zfs-fuse"}
)

_ESCAPE = re.compile(r"\\([0-7]{3})")


def file_system_of(path: str, mountinfo: Path = MOUNTINFO) -> tuple[str | None, bool | None]:
    """The type of the file system that holds `path`, links resolved, and whether it is a network or cluster file system.

    (None, None) where the list of mounts cannot be read. Sharing is None for types that may be either: layers (`overlay`), unknown
    FUSE programs, folders of a virtual machine's host.
    """
    real = os.path.realpath(path)
    best: tuple[int, str] | None = None
    try:
        lines = mountinfo.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None, None
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if len(fields) < 5 or not kinds[0]:
            continue
        point = _unescaped(fields[4])
        # At the same point the later mount lies over the earlier one, as a triggered automount does.
        if is_below(real, point) and (best is None or len(point) >= best[0]):
            best = len(point), _unescaped(kinds[0])
    return (best[1], is_shared(best[1])) if best else (None, None)


def is_shared(kind: str) -> bool | None:
    """Whether files of this type of file system are served to several hosts; None where the type does not tell."""
    is_fuse = kind.startswith("fuse.")
    name = kind.removeprefix("fuse.").lower()
    if name in SHARED or (is_fuse and name in SHARED_FUSE):
        return True
    if (is_fuse and name in LOCAL_FUSE) or (not is_fuse and name in LOCAL):
        return False
    return None


def is_below(path: str, point: str) -> bool:
    """Whether `path` is the folder `point`, or in it."""
    return path == point or path.startswith(point.rstrip("/") + "/")


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 8)), text)
