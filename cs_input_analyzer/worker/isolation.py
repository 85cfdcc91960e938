"""Runs what follows in this process on private copies of all files: what it writes is gone when it ends, and nobody else sees it.

A mount namespace of the process's own (unshare(2)), in a user namespace where that is what the kernel allows, and over each
writable directory an overlay whose upper layer lies in memory. Must be called while the process has one thread. Left as they are:
`/proc`, `/sys`, `/dev`, `/run` (devices and sockets do not work through an overlay), what is mounted read-only, and the folders
that the caller keeps. A file system that cannot lie below an overlay becomes read-only, unless it holds the working directory: then
nothing is isolated, and the caller is told so.
"""

from __future__ import annotations

import collections
import ctypes
import importlib
import os
import re
import stat
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from cs_input_analyzer.machines.mounts import is_below, is_shared

# Of linux/sched.h and linux/mount.h.
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE = 0x1, 0x20, 0x1000, 0x4000, 0x80000
MNT_DETACH = 2
PR_SET_DUMPABLE = 4  # of linux/prctl.h
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "ppc64le": 203}
# Where devices, sockets and the kernel's own files are.
AS_THEY_ARE = ("/proc", "/sys", "/dev", "/run")
# Automounted folders appear below this when somebody looks: only the kernel can pass them on.
AUTOMOUNTER = "autofs"
# A user's directory service answers through a socket here.
SOCKETS = ("/var/lib/sss/pipes",)
# A folder with a mount somewhere below it is made anew, entry by entry; one with more entries becomes read-only.
MOST_ENTRIES = 2000
# Where no user has a folder of their own.
SYSTEMS_OWN = ("/bin", "/boot", "/etc", "/lib", "/lib64", "/opt", "/sbin", "/usr", "/var")
# So deep below a mount, and for so long, are folders of others looked for.
DEPTH = 3
FOLDERS_S = 0.3
# Of the free memory, what the upper layers may take.
MEMORY_RATIO = 0.25


def main(arguments: Sequence[str]) -> None:
    """`FOLDER MODULE ARGS…`: isolates this process, but for FOLDER, before it imports MODULE, whose libraries may start threads,
    and calls its `main` with ARGS and, last, why nothing is isolated (empty where it is)."""
    folder, module, *rest = arguments
    not_isolated = why_not(Path(folder))  # first: a process with threads gets no user namespace
    importlib.import_module(module).main([*rest, not_isolated])


def why_not(folder: Path) -> str:
    """From now on this process, and all that it starts, writes to layers in memory; only `folder` is written for real. Empty, or
    the reason why that cannot be had: what the kernel, or a container, does not allow."""
    place = folder / "files"
    place.mkdir()
    try:
        _unshare()
        working = os.getcwd()
        _mount(None, "/", flags=MS_REC | MS_SLAVE)
        _mount("tmpfs", str(place), "tmpfs", data=f"mode=755,size={int(psutil.virtual_memory().available * MEMORY_RATIO)}")
        tree = _Tree(place, working)
        tree.build("/")
        for path in _of_others(working, os.path.expanduser("~"), tempfile.gettempdir()):
            if not tree.mounts_below(path):  # one that has some was made anew, and is ours
                tree.overlay(path)
        if any(is_below(tree.folder, path) for path in AS_THEY_ARE) and not any(
            is_below(tree.folder, other) for other in tree.overlaid
        ):
            tree.overlay(tree.folder)
        for path in [path for path in (str(folder), *SOCKETS) if os.path.isdir(path)]:
            tree.bind(os.path.realpath(path), flags=0)  # without what is mounted below: that is the new tree itself
        _enter(tree.root, working)
    except OSError as error:
        return error.strerror or str(error)
    return ""


class _Tree:
    """The new tree of files, beside the layers of its overlays."""

    def __init__(self, place: Path, folder: str) -> None:
        self.root = str(place / "root")
        self._layers = place / "layers"
        # Of several mounts at one path, the last is the one that is seen.
        self._mounts = {mount.mountpoint: mount for mount in psutil.disk_partitions(all=True)}
        self.folder = os.path.realpath(folder)
        self._count = 0
        self.overlaid: list[str] = []
        # Trusted attributes, in which an overlay keeps what was removed, are not for user namespaces.
        self._is_superusers = _is_first_user_namespace()
        self._options = "" if self._is_superusers else ",userxattr"
        for made in (self.root, self._layers):
            os.mkdir(made)
        _mount(self.root, self.root, flags=MS_BIND)

    def build(self, path: str) -> None:
        """`path` and all below it, in the new tree; there it exists already, as a folder."""
        below = self.mounts_below(path)
        mount = self._mounts.get(path)
        if path in AS_THEY_ARE or (mount is not None and mount.fstype == AUTOMOUNTER):
            self.bind(path)
            for other in below:
                if self._holds_data(other):
                    self.overlay(other)
        elif not below:
            self.overlay(path)
        else:
            self._each_entry(path)

    def bind(self, path: str, flags: int = MS_REC) -> None:
        """As it is, with all that is mounted below."""
        _mount(path, self.root + path, flags=MS_BIND | flags)

    def mounts_below(self, path: str) -> list[str]:
        """An overlay would hide them, and in a user namespace the kernel refuses it."""
        return [other for other in self._mounts if other != path and is_below(other, path)]

    def _holds_data(self, path: str) -> bool:
        """Whether a mount among those of devices, sockets or an automounter holds files that people write: /dev/shm, /home/me."""
        is_kernels = path.startswith(("/proc/", "/sys/")) or self._mounts[path].fstype == "devtmpfs"
        is_data = not (is_kernels or self.mounts_below(path)) and is_shared(self._mounts[path].fstype) is not None
        return is_data and os.path.isdir(path)

    def overlay(self, path: str) -> None:
        """`path` with an upper layer of its own."""
        mount = self._mounts.get(path)
        if mount is not None and "ro" in mount.opts.split(","):
            return self.bind(path)
        layers = self._layers / str(self._count)
        self._count += 1
        upper, work = layers / "upper", layers / "work"
        upper.mkdir(parents=True)
        work.mkdir()
        upper.chmod(stat.S_IMODE(os.stat(path).st_mode))
        if not self._is_superusers and path not in SYSTEMS_OWN:
            _fill_with_folders_of_others(path, upper)
        quoted = re.sub(r"([\\,:])", r"\\\1", path)
        data = f"lowerdir={quoted},upperdir={upper},workdir={work}{self._options}"
        try:
            _mount("overlay", self.root + path, "overlay", data=data)
            self.overlaid.append(path)
        except OSError:
            if is_below(self.folder, path):
                raise
            self._read_only(path)
        return None

    def _read_only(self, path: str) -> None:
        self.bind(path)
        _mount(None, self.root + path, flags=MS_REMOUNT | MS_BIND | MS_RDONLY)

    def _each_entry(self, path: str) -> None:
        entries = list(os.scandir(path))
        if len(entries) > MOST_ENTRIES:
            return self._read_only(path)
        os.chmod(self.root + path, stat.S_IMODE(os.stat(path).st_mode))
        for entry in entries:
            try:
                self._entry(entry)
            except FileNotFoundError:  # others remove theirs meanwhile, in /tmp all the time: what was made of it stays empty
                if os.path.lexists(entry.path) or is_below(self.folder, entry.path):
                    raise
        return None

    def _entry(self, entry: os.DirEntry[str]) -> None:
        made = self.root + entry.path
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), made)
        elif entry.is_dir():
            os.mkdir(made)
            try:
                self.build(entry.path)
            except PermissionError:  # a folder of others: it stays as empty as it looks to us
                if is_below(self.folder, entry.path):
                    raise
        else:
            os.close(os.open(made, os.O_CREAT | os.O_WRONLY))
            self._read_only(entry.path)


def _of_others(*paths: str) -> list[str]:
    """The folders on the way to `paths` that belong to others, outermost first: in a user namespace an overlay cannot copy those up
    (EOVERFLOW), unless they are the top of an overlay of their own."""
    if _is_first_user_namespace():
        return []
    ways = {str(folder) for path in paths for folder in (Path(path), *Path(path).resolve().parents)}
    folders = [way for way in sorted(ways) if os.path.isdir(way) and way.count("/") > 1 and not way.startswith(AS_THEY_ARE)]
    return [way for way in folders if os.stat(way).st_uid != os.getuid()]


def _fill_with_folders_of_others(path: str, upper: Path) -> None:
    """Makes the folders of others below `path` in the upper layer, for the same reason: a user's own folder is often below one of
    others, as /scratch/users/me is."""
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
            if depth + 1 < DEPTH:
                queued.append((name, depth + 1))


def _enter(root: str, folder: str) -> None:
    """Makes `root` the root of this process, and lets go of the old one."""
    old = f"{root}/.old"
    os.mkdir(old)
    number = SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(f"pivot_root is not known on {os.uname().machine}")
    _checked(_libc().syscall(ctypes.c_long(number), root.encode(), old.encode()), "pivot_root")
    os.chdir("/")
    _checked(_libc().umount2(b"/.old", MNT_DETACH), "umount of the old root")
    os.rmdir("/.old")
    os.chdir(folder)


def _unshare() -> None:
    """A mount namespace, for the superuser as it is, for others in a user namespace in which they are who they were."""
    if _libc().unshare(CLONE_NEWNS) == 0:
        return
    user, group = os.getuid(), os.getgid()
    _checked(_libc().unshare(CLONE_NEWUSER | CLONE_NEWNS), "a user namespace")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path("/proc/self", name).write_text(text)
    _libc().prctl(PR_SET_DUMPABLE, 1)  # else the kernel hides /proc/PID from ourselves and from who started us


def _is_first_user_namespace() -> bool:
    return Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]


def _mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    given = [text.encode() if text is not None else None for text in (source, target, kind, data)]
    _checked(_libc().mount(*given[:3], ctypes.c_ulong(flags), given[3]), f"mount of {kind or source} on {target}")


def _checked(status: int, what: str) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
