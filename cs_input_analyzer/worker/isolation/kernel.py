"""Call functions of Linux that Python does not offer: namespaces, mounts, capabilities. All raise OSError with the reason."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct
from pathlib import Path

# Of linux/sched.h.
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
# Of linux/mount.h.
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE = 0x1, 0x20, 0x1000, 0x4000, 0x80000
OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC, AT_RECURSIVE, MOVE_MOUNT_F_EMPTY_PATH = 0x1, 0o2000000, 0x8000, 0x4
MNT_DETACH = 2
_AT_FDCWD = -100
# Flags of a mount that a remount in a user namespace must keep: ST_NOSUID, ST_NODEV, ST_NOEXEC of statvfs are those of mount(2).
_KEPT_FLAGS = 0x2 | 0x4 | 0x8
# Flags of statvfs(3) and of mount(2) for access times: noatime, nodiratime, relatime.
_ATIME_FLAGS = ((1024, 0x400), (2048, 0x800), (4096, 0x200000))
# Of linux/prctl.h.
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 4, 24, 47, 4
_CAPABILITY_VERSION = 0x20080522
_MOST_CAPABILITIES = 64
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "ppc64le": 203}
# The same on all machines since Linux 5.2.
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT = 428, 429
# Of linux/sockios.h and linux/if.h.
_SIOCSIFFLAGS, _IFF_UP, _IFF_RUNNING = 0x8914, 0x1, 0x40


class _Capabilities(ctypes.Structure):
    """Sets of capabilities, in two halves of 32 bits each, as capget(2) has them."""

    _fields_ = [(f"{name}_{half}", ctypes.c_uint32) for half in (0, 1) for name in ("effective", "permitted", "inheritable")]


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


def libc() -> ctypes.CDLL:
    """Return the C library, with `errno` kept."""
    return ctypes.CDLL(None, use_errno=True)


def checked(status: int, what: str) -> int:
    """Return `status`. Raise OSError if a call failed."""
    if status < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return status


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    checked(libc().unshare(flags), "a namespace")


def join(namespace: int) -> None:
    """Enter the namespace of this descriptor."""
    checked(libc().setns(namespace, 0), "entering a namespace")


def die_with(parent_pid: int) -> None:
    """Have the kernel end this process when its parent dies. `parent_pid` 0: the present parent."""
    libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent_pid and os.getppid() not in (
        parent_pid,
        0,
    ):  # it died before; a parent outside of the process namespace has no number
        os._exit(1)


def reap_orphans() -> None:
    """Become the parent of descendants that lose theirs."""
    libc().prctl(_PR_SET_CHILD_SUBREAPER, 1)


def map_own_user(user: int, group: int) -> None:
    """Keep the same user and group inside a new user namespace."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path("/proc/self", name).write_text(text)


def be_seen() -> None:
    """Keep /proc/PID open to this user: new capabilities make the kernel hide it."""
    libc().prctl(_PR_SET_DUMPABLE, 1)


def is_first_user_namespace() -> bool:
    """Return whether this process is in the host's own user namespace."""
    return Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]


def capabilities() -> int:
    """Return this process's permitted capabilities as bits."""
    header, found = _Header(_CAPABILITY_VERSION, 0), _Capabilities()
    checked(libc().capget(ctypes.byref(header), ctypes.byref(found)), "capget")
    return int(found.permitted_0) | int(found.permitted_1) << 32


def drop_capabilities(kept: int) -> None:
    """Give up all capabilities but these bits, also for programs that are started."""
    for number in range(_MOST_CAPABILITIES):
        if not kept >> number & 1:
            libc().prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # fails for numbers that this kernel does not know
    libc().prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    halves = (kept & 0xFFFFFFFF, kept >> 32)
    left = _Capabilities(**{f"{name}_{half}": halves[half] for half in (0, 1) for name in ("effective", "permitted")})
    header = _Header(_CAPABILITY_VERSION, 0)
    checked(libc().capset(ctypes.byref(header), ctypes.byref(left)), "capset")


def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    """Mount a file system, or change a mount."""
    given = [os.fsencode(text) if text is not None else None for text in (source, target, kind, data)]
    checked(libc().mount(*given[:3], ctypes.c_ulong(flags), given[3]), f"mount of {kind or source} on {target}")


def make_read_only(target: str) -> None:
    """Make one mount read-only, with the other flags that it has."""
    found = os.statvfs(target).f_flag
    flags = found & _KEPT_FLAGS
    for seen, flag in _ATIME_FLAGS:
        flags |= flag if found & seen else 0
    mount(None, target, flags=MS_REMOUNT | MS_BIND | MS_RDONLY | flags)


def open_tree(path: str) -> int:
    """Return a descriptor of a copy of the mount at `path`, not yet attached. Needs Linux 5.2."""
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE
    return checked(
        int(libc().syscall(ctypes.c_long(_SYS_OPEN_TREE), _AT_FDCWD, os.fsencode(path), ctypes.c_uint(flags))), f"a copy of {path}"
    )


def move_mount(tree: int, target: str) -> None:
    """Attach the mount of `open_tree` to `target`."""
    number = ctypes.c_long(_SYS_MOVE_MOUNT)
    done = libc().syscall(number, tree, b"", _AT_FDCWD, os.fsencode(target), ctypes.c_uint(MOVE_MOUNT_F_EMPTY_PATH))
    checked(int(done), f"mount on {target}")


def enter_root(root: str) -> None:
    """Make the mount `root` the root of this process, and unmount the old one, which lies over it for a moment."""
    number = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(f"pivot_root is not known on {os.uname().machine}")
    os.chdir(root)
    checked(libc().syscall(ctypes.c_long(number), b".", b"."), "pivot_root")
    checked(libc().umount2(b".", MNT_DETACH), "umount of the old root")
    os.chdir("/")


def start_loopback() -> None:
    """Bring up `lo` in a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        fcntl.ioctl(one, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP | _IFF_RUNNING))
