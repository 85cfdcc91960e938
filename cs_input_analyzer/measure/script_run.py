"""A process of its own that runs a user's script once, to find every place where it would take data.

It reports as workers do, through a journal: `candidate`, `stand_in`, `refused`, and in the end `ended` or `failed`.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

from cs_input_analyzer.measure import worker
from cs_input_analyzer.measure.journal import JournalError, JournalWriter

__all__ = ["HUNG", "main"]

# Where the stacks of a script go that takes too long.
HUNG = "hung"


def main(arguments: Sequence[str]) -> NoReturn:
    """`FOLDER PARENT_PID SECONDS TARGET`: the journal's folder, who started us, how long it may take, the script. Never returns."""
    folder = Path(arguments[0])
    worker.die_with(int(arguments[1]))
    own_pid = os.getpid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # the parent's end of the pipe is not the script's to read
    try:
        journal = JournalWriter(folder)
        with (folder / HUNG).open("w") as hung:
            faulthandler.dump_traceback_later(float(arguments[2]), file=hung)
            _run(journal, folder, arguments[3], own_pid)
            faulthandler.cancel_dump_traceback_later()
    except JournalError as error:
        os.write(2, f"\n{error}\n".encode())
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(0)  # what the script has registered for its end is not run


def _run(journal: JournalWriter, folder: Path, target: str, own_pid: int) -> None:
    import tensorflow as tf

    from cs_input_analyzer.capture import Gate, parse_script, run_script
    from cs_input_analyzer.load import plain_message, user_traceback
    from cs_input_analyzer.measure.redirect import redirected_writes

    tf.get_logger().setLevel("ERROR")
    gate = Gate(told=lambda candidate: journal.event("candidate", **asdict(candidate)))
    why, failure = "", None
    try:
        with redirected_writes(folder):
            run_script(parse_script(target), gate, lambda name: journal.event("stand_in", name=name))
        why = gate.why
    except JournalError:
        raise
    except SystemExit as end:
        why = f"it called sys.exit({end.code!r})" if end.code not in (None, 0) else ""
    except BaseException as error:
        failure = error
    if os.getpid() != own_pid:  # a child that the script forked
        os._exit(0)
    for text in gate.refused:
        journal.event("refused", text=text)
    if failure is None:
        journal.event("ended", why=why)
    else:
        kind, message = type(failure).__name__, plain_message(failure)[: worker.MESSAGE_LIMIT]
        journal.event("failed", stage="script", kind=kind, message=message, details=user_traceback(failure)[-8000:])
