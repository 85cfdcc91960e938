"""Import TensorFlow once and fork workers: each then starts in milliseconds, not seconds.

The server stays single-threaded, so that a fork copies all of it. BLAS is held to one thread until after the fork. If the import
leaves other threads, the server reports it and forks nothing. A forked worker is as good as a fresh one (docs/measurements.md):
TensorFlow makes its thread pools and reads its CPU set when a pipeline first runs. The server gets {"folder", "cpus",
"isolated", "variables"} with stdin and stdout, and sends {"ready"}, {"pid", "folder"} and {"pid", "returncode"}.
"""

from __future__ import annotations

import gc
import json
import os
import random
import selectors
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from cs_input_analyzer.host.counters import read_memory
from cs_input_analyzer.worker import isolation
from cs_input_analyzer.worker import process as worker

MESSAGE_BYTES = 1 << 16


def main(arguments: Sequence[str]) -> NoReturn:
    """Be the server of `DESCRIPTOR PARENT_PID NAME,…`. Never return.

    DESCRIPTOR is a connected socket of whole messages (SOCK_SEQPACKET). The variables NAME hold libraries to one thread while they
    are loaded; a worker is not to see them.
    """
    began_s = time.monotonic()
    parent = socket.socket(fileno=int(arguments[0]))
    worker.die_with(int(arguments[1]))
    # The objects of the import stay. Python's collector would visit all of them here and in each worker, and so copy their pages.
    gc.disable()
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    gc.freeze()
    gc.enable()
    for name in filter(None, arguments[2].split(",")):
        del os.environ[name]
    import_s = time.monotonic() - began_s
    threads = len(os.listdir("/proc/self/task"))
    _tell(parent, ready=threads == 1)
    if threads == 1:
        shared_bytes = read_memory().shared_bytes or 0
        _serve(parent, worker.Inherited(import_s=import_s, shared_bytes=shared_bytes))
    os._exit(0)


def _serve(parent: socket.socket, inherited: worker.Inherited) -> None:
    """Fork a worker for every message and report each end, until the parent closes the connection."""
    wake_reader, wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
    with selectors.DefaultSelector() as selector:
        selector.register(parent, selectors.EVENT_READ)
        selector.register(wake_reader, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if wake_reader in ready:
                os.read(wake_reader, 1 << 12)
                _reap(parent)
            if parent.fileno() not in ready:
                continue
            message, descriptors, _, _ = socket.recv_fds(parent, MESSAGE_BYTES, 2)
            if not message:
                return
            wanted = json.loads(message)
            server_pid = os.getpid()
            pid = os.fork()
            if pid == 0:
                selector.close()
                os.close(wake_reader)
                os.close(wake_writer)
                _become_worker(parent, wanted, descriptors, inherited, server_pid)
            for descriptor in descriptors:
                os.close(descriptor)
            _tell(parent, pid=pid, folder=wanted["folder"])


def _reap(parent: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _tell(parent, pid=pid, returncode=os.waitstatus_to_exitcode(status))


def _become_worker(
    parent: socket.socket, wanted: dict[str, Any], descriptors: Sequence[int], inherited: worker.Inherited, server_pid: int
) -> NoReturn:
    """Drop the server's socket, signals, session, random numbers and CPUs, and live as a worker."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    parent.close()
    os.setsid()
    stdin, output = descriptors
    for source, target in ((stdin, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    for descriptor in set(descriptors):
        os.close(descriptor)
    os.environ |= wanted["variables"]
    import numpy as np

    random.seed()  # else all would draw the same numbers; hashing of strings stays alike, which only sets and dicts' order shows
    np.random.seed()

    def life() -> NoReturn:
        worker.run(wanted["folder"], wanted["cpus"], server_pid, inherited)

    isolated = wanted["isolated"]
    if isolated is None:
        life()
    place = Path(isolated["place"]) if isolated["place"] else None
    isolation.run_inside(
        isolation.Wanted(launch=Path(isolated["launch"]), place=place, has_network=isolated["has_network"]), server_pid, life
    )


def _tell(parent: socket.socket, **message: Any) -> None:
    try:
        parent.send(json.dumps(message).encode())
    except OSError:  # it is gone, and we soon are
        sys.exit(0)
