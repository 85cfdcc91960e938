"""A process of its own that runs a user's script once, to find every place where it would take data.

It writes to private copies of all files. It reports as workers do, through a journal: `not_isolated` where such copies cannot be
had, `candidate`, `stand_in`, `refused`, `wrote`, and in the end `ended` or `failed`.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from cs_input_analyzer.worker import process as worker
from cs_input_analyzer.worker.journal import JournalError, JournalWriter

__all__ = ["HUNG", "main"]

# Where the stacks of a script go that takes too long.
HUNG = "hung"


def main(arguments: Sequence[str]) -> NoReturn:
    """`FOLDER PARENT_PID SECONDS TARGET LAST [PACKAGE…] NOT_ISOLATED`. Never returns.

    The journal's folder, who started us, how long it may take, the script, the number of the place at which it ends (0: as late as
    is harmless), what to stand in for where it is not installed, and why its files are no private copies (empty where they are).
    """
    folder = Path(arguments[0])
    worker.die_with(int(arguments[1]))
    own_pid = os.getpid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # the parent's end of the pipe is not the script's to read
    try:
        journal = JournalWriter(folder)
        packages, not_isolated = arguments[5:-1], arguments[-1]
        if not_isolated:
            journal.event("not_isolated", why=not_isolated)
        with (folder / HUNG).open("w") as hung:
            faulthandler.dump_traceback_later(float(arguments[2]), file=hung)
            _run(journal, folder, arguments[3], int(arguments[4]) or None, packages, not not_isolated, own_pid)
    except JournalError as error:
        os.write(2, f"\n{error}\n".encode())
    _leave()


def _run(
    journal: JournalWriter,
    folder: Path,
    target: str,
    last: int | None,
    packages: Sequence[str],
    is_isolated: bool,
    own_pid: int,
) -> None:
    import tensorflow as tf

    from cs_input_analyzer.worker.capture import Gate, parse_script, run_script, setting_up, standing_in
    from cs_input_analyzer.worker.load import plain_message, user_traceback
    from cs_input_analyzer.worker.redirect import redirected_writes

    tf.get_logger().setLevel("ERROR")

    def tell(candidate: Any) -> None:
        if not is_isolated:
            journal.event("wrote", paths=list(gate.written))
        journal.event("candidate", **asdict(candidate))

    def close(event: str, **fields: object) -> NoReturn:
        if os.getpid() != own_pid:  # a child that the script forked
            os._exit(0)
        try:
            for text in gate.refused:
                journal.event("refused", text=text)
            journal.event(event, **fields)
        except JournalError as error:
            os.write(2, f"\n{error}\n".encode())
        _leave()

    def end(why: str) -> NoReturn:
        close("ended", why=why if gate.taken is None else "")

    gate = Gate(end, last, told=tell, is_isolated=is_isolated)
    try:
        script = parse_script(target)
        stand_ins = standing_in((*packages, *script.stand_ins), lambda name: journal.event("stand_in", name=name))
        with redirected_writes(folder), stand_ins, setting_up(), ExitStack() as undone:
            run_script(script, gate, undone)
    except JournalError:
        raise
    except SystemExit as exit:
        end(f"it called sys.exit({exit.code!r})" if exit.code not in (None, 0) else "")
    except BaseException as error:
        kind, message = type(error).__name__, plain_message(error)[: worker.MESSAGE_LIMIT]
        close("failed", stage="script", kind=kind, message=message, details=user_traceback(error)[-8000:])
    end("")


def _leave() -> NoReturn:
    """Without what the script has registered for its end, and without what it has started: that goes with it."""
    worker.end_children()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(0)
