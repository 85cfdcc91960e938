"""A slow file system to measure on: a read-only mirror of a folder with latencies and one bandwidth for all its readers.

    with slowfs.mounted(data, bytes_per_s=50e6, read_latency_s=0.004) as folder:
        …                                        # `folder` shows the files of `data`, slowly, and never from the cache

`slowfs.c` beside this file is compiled on first use. Needs Linux with FUSE 3 (Debian: `apt-get install fuse3 libfuse3-dev gcc
pkg-config`) and the right to mount, which `fusermount3` gives to every user who may open /dev/fuse.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.compiled import compiled

SOURCE = Path(__file__).with_name("slowfs.c")
PACKAGES = "fuse3 libfuse3-dev gcc pkg-config"
MOUNT_PATIENCE_S = 10.0
END_PATIENCE_S = 1.0


def missing() -> str | None:
    """Return the reason why this machine cannot mount, in one sentence; None if it can (as far as one can tell without trying)."""
    tools = [tool for tool in ("gcc", "pkg-config", "fusermount3") if shutil.which(tool) is None]
    if tools:
        return f"not installed: {', '.join(tools)} (apt-get install {PACKAGES})"
    if subprocess.run(["pkg-config", "--exists", "fuse3"], check=False).returncode != 0:
        return f"the headers of FUSE 3 are not installed (apt-get install {PACKAGES})"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse cannot be opened: the kernel has no FUSE, or this container hides it"
    return None


@contextlib.contextmanager
def mounted(
    source: str | os.PathLike[str],
    *,
    bytes_per_s: float | None = None,
    open_latency_s: float = 0.0,
    read_latency_s: float = 0.0,
    subtype: str = "slowfs",
    uncached: bool = False,
) -> Iterator[Path]:
    """Mount a mirror of the folder `source` in a private place, yield that place, and unmount it in any case.

    Each open and each read request waits for its latency. The kernel reads 128 KiB by default. Latencies overlap;
    `bytes_per_s` is shared by all readers. `subtype` is the name for the kernel: `nfs4` shows up as `fuse.nfs4`. `uncached` reads
    bypass the page cache, like reads of several nodes. The file system ends with the thread that mounted it.

    Raises:
        RuntimeError: something is missing; the message names it.
    """
    program = build()
    folder = Path(tempfile.mkdtemp(prefix="slowfs_"))
    latencies_us = [str(round(seconds * 1e6)) for seconds in (open_latency_s, read_latency_s)]
    numbers = [*latencies_us, repr(float(bytes_per_s or 0)), subtype, str(int(uncached))]
    command = [str(program), os.path.abspath(source), str(folder), *numbers]
    with tempfile.TemporaryFile() as said:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            if not _is_mounted_soon(folder, server):
                said.seek(0)
                raise RuntimeError(f"mounting {source} failed: {said.read().decode(errors='replace').strip() or 'no answer'}")
            yield folder
        finally:
            _unmount(folder, server)


def build() -> Path:
    """Return the compiled program. Raise RuntimeError."""
    if (reason := missing()) is not None:
        raise RuntimeError(reason)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], check=True, capture_output=True, text=True).stdout.split()
    return compiled(SOURCE, ["gcc", "-O2", "-Wall", "-Wextra"], [*flags, "-lpthread"])


def _is_mounted_soon(folder: Path, server: subprocess.Popen[bytes]) -> bool:
    deadline_s = time.monotonic() + MOUNT_PATIENCE_S
    while server.poll() is None and time.monotonic() < deadline_s:
        if os.path.ismount(folder):
            return True
        time.sleep(0.005)
    return False


def _unmount(folder: Path, server: subprocess.Popen[bytes]) -> None:
    """Politely; lazily where a file is still open; and by ending the server, after which nothing can be read there."""
    for flags in ("-u", "-uz"):
        if os.path.ismount(folder):
            subprocess.run(["fusermount3", flags, str(folder)], check=False, capture_output=True)
    try:
        server.wait(END_PATIENCE_S if not os.path.ismount(folder) else 0.1)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
        subprocess.run(["fusermount3", "-uz", str(folder)], check=False, capture_output=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
