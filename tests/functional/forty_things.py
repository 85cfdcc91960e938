"""An input function that does forty things to files, processes and the kernel's objects, and tells which it could do.

The network is real, so a socket is the one way to tell. Used as a target, and as a script that trains in a loop.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

HERE, HOME = Path.cwd(), Path.home()
OUTSIDE = ("/tmp", "/var/tmp", "/dev/shm", "/run", str(HOME))
SENTINEL = os.environ.get("SENTINEL", "")  # names files, and is a word in the command line of a process
PID, SEGMENT, PORT = (int(os.environ.get(name, "0")) for name in ("SENTINEL_PID", "SENTINEL_SEGMENT", "SENTINEL_PORT"))


def shell(line: str) -> None:
    subprocess.run(line, shell=True, check=True, capture_output=True)


def mapped() -> None:
    with open("mapped", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[:4] = b"gone"


def through_link() -> None:
    os.link("linked", "hard")
    Path("hard").write_text("gone")


def in_sqlite() -> None:
    with contextlib.closing(sqlite3.connect("base")) as base:
        base.execute("pragma journal_mode=wal")
        base.execute("create table if not exists more (number)")
        base.commit()


def records() -> None:
    with tf.io.TFRecordWriter("records") as writer:
        writer.write(b"gone")


def summary() -> None:
    with tf.summary.create_file_writer("summary").as_default():
        tf.summary.scalar("loss", 1.0, step=1)


def forked() -> None:
    child = os.fork()
    if child == 0:
        Path("forked").write_text("gone")
        os._exit(0)
    os.waitpid(child, 0)


def in_a_thread() -> None:
    thread = threading.Thread(target=lambda: Path("thread").write_text("gone"))
    thread.start()
    thread.join()


def by_descriptor() -> None:
    folder = os.open(".", os.O_RDONLY)
    os.unlink("descriptor", dir_fd=folder)
    os.close(folder)


def daemon() -> None:
    """A process of a session of its own that writes later, without any mark in its environment."""
    subprocess.Popen(
        ["env", "-i", "sh", "-c", f"trap '' HUP TERM; (sleep 1; echo gone > {HERE}/daemon; sleep 60) &"], start_new_session=True
    )


def segment() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.shmctl(SEGMENT, 0, None) != 0:
        raise OSError(ctypes.get_errno(), "shmctl")


def queue() -> None:
    libc = ctypes.CDLL("librt.so.1", use_errno=True)
    if libc.mq_unlink(f"/{SENTINEL}".encode()) != 0:
        raise OSError(ctypes.get_errno(), "mq_unlink")


def kernels() -> None:
    Path("/proc/sys/kernel/domainname").write_text("gone")


def memory_map() -> None:
    array = np.memmap("array", dtype=np.uint8, mode="r+")
    array[:4] = 1
    array.flush()


THINGS: dict[str, Callable[[], object]] = {
    "write": lambda: Path("written").write_text("gone"),
    "append": lambda: os.write(os.open("appended", os.O_WRONLY | os.O_APPEND), b"gone"),
    "truncate": lambda: os.truncate("truncated", 1),
    "mmap": mapped,
    "memmap": memory_map,
    "unlink": lambda: Path("unlinked").unlink(),
    "descriptor": by_descriptor,
    "rename": lambda: Path("renamed").rename("other"),
    "replace": lambda: os.replace("replaced", "written"),
    "mkdir": lambda: Path("made").mkdir(),
    "rmdir": lambda: Path("empty").rmdir(),
    "rmtree": lambda: shutil.rmtree("folder"),
    "chmod": lambda: Path("mode").chmod(0),
    "utime": lambda: os.utime("times", (1, 1)),
    "symlink": lambda: Path("symlink").symlink_to("written"),
    "hard link": through_link,
    "fifo": lambda: os.mkfifo("fifo"),
    "sqlite": in_sqlite,
    "write_file": lambda: tf.io.write_file("tensorflow", "gone"),
    "records": records,
    "gfile.remove": lambda: tf.io.gfile.remove("gfile"),
    "gfile.rmtree": lambda: tf.io.gfile.rmtree("gfolder"),
    "summary": summary,
    "print": lambda: tf.print("gone", output_stream=f"file://{HERE}/printed"),
    "save": lambda: np.save("saved", np.zeros(3)),
    "move": lambda: shutil.move("moved", "away"),
    "copy": lambda: shutil.copy("source", "copied"),
    "temporary": lambda: tempfile.mkstemp(dir="."),
    "shell writes": lambda: shell("echo gone > shell"),
    "shell removes": lambda: shell("rm -r child"),
    "sed": lambda: shell("sed -i s/precious/gone/ edited"),
    "fork": forked,
    "thread": in_a_thread,
    "daemon": daemon,
    "xattr": lambda: os.setxattr("attributed", "user.mark", b"gone"),
    **{f"write {folder}": lambda folder=folder: Path(folder, SENTINEL).write_text("gone") for folder in OUTSIDE},
    **{f"new in {folder}": lambda folder=folder: Path(folder, f"{SENTINEL}-new").write_text("gone") for folder in OUTSIDE},
    "pkill": lambda: shell(f"pkill -f {SENTINEL}-process"),
    "kill": lambda: os.kill(PID, signal.SIGKILL),
    "segment": segment,
    "queue": queue,
    "parent's root": lambda: Path(f"/proc/{os.getppid() or 1}/root{HERE}/written").write_text("gone"),
    "first's root": lambda: Path(f"/proc/1/root{HERE}/written").write_text("gone"),
    "parent's folder": lambda: Path(f"/proc/{os.getppid() or 1}/cwd/written").write_text("gone"),
    "sentinel's folder": lambda: Path(f"/proc/{PID}/cwd/written").write_text("gone"),
    "nsenter": lambda: shell(f"nsenter -t 1 -m -- rm {HERE}/written"),
    "mount": lambda: shell(f"mount --bind / /mnt && echo gone > /mnt{HERE}/written"),
    "kernel": kernels,
}


def input_fn() -> tf.data.Dataset:
    done = []
    for name, thing in THINGS.items():
        try:
            thing()
            done.append(name)
        except Exception:
            pass
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", PORT)) as connection:
        connection.sendall(json.dumps(done).encode() + b"\n")

    def printing(number: tf.Tensor) -> tf.Tensor:
        tf.print(number, output_stream=f"file://{HERE}/printed_in_the_graph")
        return number

    return tf.data.Dataset.range(10**9).map(printing).batch(4)


if __name__ == "__main__":
    for _ in input_fn():
        pass
    print("trained", file=sys.stderr)
