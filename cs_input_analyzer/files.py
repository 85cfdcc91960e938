"""Put a file on disk whole or not at all, and find the folder for what runs leave behind."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from cs_input_analyzer.errors import LaunchError, UsageError

# The disk, not the user's choice of path: no space, quota, I/O error, read-only remount under us.
STORAGE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG}


PRIVATE, USUAL = 0o600, 0o666


def cache_folder() -> Path:
    """Return the user's cache folder of this tool.

    If it cannot be written to, as in a container without a home, return a temporary folder that only this user can
    write to.
    """
    import platformdirs

    try:
        folder = Path(platformdirs.user_cache_dir("cs_input_analyzer"))
    except RuntimeError:  # a container's user, who has no name and no home
        folder = Path("/nonexistent/cs_input_analyzer")
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    own = Path(tempfile.gettempdir()) / f"cs_input_analyzer-{os.getuid()}"
    with suppress(OSError):
        own.mkdir(mode=0o700, exist_ok=True)
        status = own.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return own
    return folder


def write_text_atomically(path: Path | str, text: str, *, is_private: bool = False) -> None:
    """Write UTF-8 `text` beside `path` and rename it into place: a reader sees the old file or the whole new one.

    A symbolic link keeps pointing at the file that is replaced. What is no regular file (`/dev/null`, a pipe) is written directly.
    A file that is replaced gives its mode to the new one. Else `is_private` makes one that only its owner reads, without it the
    umask decides.

    Raises:
        UsageError: the path is a folder, its folder does not exist, or it may not be written.
        LaunchError: the storage failed (full, over quota, I/O error); the old file is untouched.
    """
    target = check_writable(path)
    try:
        if _is_stream(target):  # a half-written pipe is no file that somebody finds later
            target.write_text(text, encoding="utf-8", errors="backslashreplace")
        else:
            _write_and_rename(target, text, PRIVATE if is_private else USUAL)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.errno in STORAGE_ERRORS:
            advice = "nothing was replaced; free some space or give another path"
            raise LaunchError(f"cannot write {path}: {reason}; {advice}") from None
        raise UsageError(f"cannot write {path}: {reason}") from None


def check_writable(path: Path | str) -> Path:
    """Return the file that `path` leads to. Cheap enough to ask before measuring for a minute. Raise UsageError as writing does."""
    try:
        if _is_stream(Path(path)):
            return Path(path)
        if (owner := _foreign_link(Path(path))) is not None:
            raise UsageError(
                f"cannot write {path}: it is a symbolic link that user {owner} has made in a folder where everybody may; "
                "give another path"
            )
        target = Path(os.path.realpath(path))
        if target.is_dir():
            raise UsageError(f"cannot write {path}: it is a folder; give the name of a file in it")
        if not target.parent.is_dir():
            raise UsageError(f"cannot write {path}: there is no folder {target.parent}; create it first")
        if not os.access(target.parent, os.W_OK) or (target.exists() and not os.access(target, os.W_OK)):
            raise UsageError(f"cannot write {path}: permission denied")
    except (OSError, ValueError, TypeError) as error:  # of a type: what was given is no path
        raise UsageError(f"cannot write {path}: {error}") from None
    return target


def _foreign_link(path: Path) -> int | None:
    """Return the user who made this link, if its target may be that user's trap. Return None otherwise.

    A link is suspect if its maker is neither this user nor the owner of the folder, and everybody may make links there,
    as in /tmp. (This is the rule of Linux' `protected_symlinks`.)
    """
    if not path.is_symlink():
        return None
    folder, owner = path.parent.stat(), path.lstat().st_uid
    if not folder.st_mode & stat.S_ISVTX or not folder.st_mode & stat.S_IWOTH:
        return None
    return None if owner in (os.geteuid(), folder.st_uid) else owner


def _is_stream(path: Path) -> bool:
    """Return whether a path is a device, a pipe, or an open file of this process (`/dev/stdout`).

    A rename would take it away from its reader.
    """
    is_open_file = str(path).startswith(("/dev/fd/", "/dev/std", "/proc/self/fd/"))
    return is_open_file or (path.exists() and not path.is_file() and not path.is_dir())


def _write_and_rename(target: Path, text: str, mode: int) -> None:
    # The name is short and fixed in length, so that a target of the longest legal name still works.
    name = target.parent / f".csia-{secrets.token_hex(8)}.part"
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
            file.flush()
            # Rename is atomic, data is not: without this a crash can leave a complete name on an empty file.
            os.fsync(file.fileno())
        if target.exists():
            name.chmod(stat.S_IMODE(target.stat().st_mode))
        name.replace(target)
    except BaseException:
        name.unlink(missing_ok=True)
        raise
