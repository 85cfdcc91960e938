"""Run one input worker: its own process, CPUs and TF_CONFIG, with orders over stdin.

User code runs here, so every stage is guarded. The worker leaves by `os._exit`: interpreters with Python functions in their
pipelines are known to hang at shutdown.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn, TextIO

from cs_input_analyzer.worker.isolation import kernel
from cs_input_analyzer.worker.journal import EXIT_UNWRITTEN, UNWRITTEN, JournalError, JournalWriter, Order

# The longest wait for killed processes to be gone.
CHILDREN_S = 1.0
EXIT_FAILED = 70


def main(arguments: Sequence[str]) -> NoReturn:
    """Run a worker: `FOLDER CPU,CPU,… PARENT_PID`."""
    run(arguments[0], [int(cpu) for cpu in arguments[1].split(",")], int(arguments[2]))


class Inherited(NamedTuple):
    """Describe the process that a worker was forked from: the seconds of its import, and its memory that workers share."""

    import_s: float
    shared_bytes: int


def run(folder: str, cpus: Sequence[int], parent_pid: int, inherited: Inherited | None = None) -> NoReturn:
    """Live as a worker."""
    began_s = time.monotonic()
    os.sched_setaffinity(0, cpus)  # before TensorFlow makes its thread pools: it sizes them by what it may run on
    die_with(parent_pid)
    orders = os.fdopen(os.dup(0), "r", encoding="utf-8")  # a descriptor of our own
    hide_stdin()
    # For Python alone: AutoGraph's files would outlive a killed process, and TMPDIR may hold the user's data.
    tempfile.tempdir = folder
    _live(Path(folder), lambda journal: _begin(journal, orders, Path(folder), began_s, inherited))


def _live(folder: Path, work: Callable[[JournalWriter], None]) -> NoReturn:
    """Do the work, and end the process."""
    own_pid, status = os.getpid(), 0
    try:
        journal = JournalWriter(folder)
        try:
            work(journal)
        except JournalError:
            raise
        except BaseException as error:  # SystemExit and KeyboardInterrupt of user code too: this is the end of the process
            status = EXIT_FAILED
            if os.getpid() == own_pid:
                from cs_input_analyzer.worker.failures import report_failure

                report_failure(journal, "worker", error)
    except JournalError as error:  # what we print is all that still reaches the parent
        status = EXIT_UNWRITTEN
        os.write(2, f"\n{UNWRITTEN}{error}\n".encode())
    leave(status, own_pid)


def _begin(journal: JournalWriter, orders: TextIO, folder: Path, began_s: float, inherited: Inherited | None) -> None:
    """Import TensorFlow and follow the orders."""
    import tensorflow as tf

    from cs_input_analyzer.worker.capture import beside_scripts, is_script
    from cs_input_analyzer.worker.stages import follow_order

    tf.get_logger().setLevel("ERROR")
    import_s = inherited.import_s if inherited else time.monotonic() - began_s
    journal.event("imported", import_s=import_s)
    if inherited:
        import threadpoolctl

        # As many threads for BLAS as a process that loads it here would have; the fork server held it to one.
        threadpoolctl.threadpool_limits(len(os.sched_getaffinity(0)))
    line = orders.readline()
    if not line:  # the parent needs this worker no more
        return
    order, shared_bytes = Order.from_line(line), inherited.shared_bytes if inherited else 0

    def follow(journal: JournalWriter) -> None:
        follow_order(journal, order, orders, folder, shared_bytes)

    if is_script(order.plan.target):  # it runs in the main thread, beside the worker's own life
        beside_scripts(lambda: _live(folder, follow))
    follow(journal)


def end_forked_child(own_pid: int) -> None:
    """End this process if user code forked it: it must not go on as a second worker, or run a second script."""
    if os.getpid() != own_pid:
        os._exit(0)


def end_children() -> None:
    """End all descendants of this process, and wait for that, so that none is left after our end."""
    import psutil

    try:
        children = psutil.Process().children(recursive=True)
    except (psutil.Error, OSError):  # a /proc that cannot be read; the parent ends the whole group
        return
    for child in children:
        with suppress(psutil.Error):
            child.kill()
    psutil.wait_procs(children, timeout=CHILDREN_S)


def hide_stdin() -> None:
    """Make standard input empty: user code must not read the parent's orders."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - lives as long as the process


def die_with(parent_pid: int) -> None:
    """Ask Linux to kill this process when its parent dies, and to give it the orphans of user code.

    So the orphans can be found and ended too.
    """
    try:
        kernel.reap_orphans()
        kernel.die_with(parent_pid)
    except (OSError, AttributeError):
        return


def leave(status: int, own_pid: int) -> NoReturn:
    """End this process and the processes of user code, without the exit handlers of user code."""
    if os.getpid() == own_pid:
        end_children()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
    os._exit(status)
