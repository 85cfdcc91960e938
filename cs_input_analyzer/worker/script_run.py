"""Run a user's script once, in its own process, to find every place where it would take data.

It runs on private copies of all files. It reports through a journal: `own_files`, `candidate`, `stand_in`, `refused`, and in the
end `ended` or `failed`.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from cs_input_analyzer.worker import isolation
from cs_input_analyzer.worker import process as worker
from cs_input_analyzer.worker.journal import JournalError, JournalWriter

# The file for the stacks of a script that takes too long.
HUNG = "hung"


def main(arguments: Sequence[str]) -> NoReturn:
    """Run `FOLDER PARENT_PID SECONDS TARGET LAST [PACKAGE…]`, and never return.

    LAST: number of the place at which the script ends (0: as late as is harmless).
    """
    folder = Path(arguments[0])
    worker.die_with(int(arguments[1]))
    own_pid = os.getpid()
    worker.hide_stdin()
    worker.keep_temporary_files(arguments[0])
    try:
        journal = JournalWriter(folder)
        is_isolated = isolation.here().level != "own files"
        if why := isolation.refusal():
            journal.event("failed", stage=isolation.NOT_ISOLATED, kind="NotIsolated", message=why, details="")
            worker.leave(0, own_pid)
        if not is_isolated:
            journal.event("own_files")
        with (folder / HUNG).open("w") as hung:
            faulthandler.dump_traceback_later(float(arguments[2]), file=hung)
            _run(journal, folder, arguments[3], int(arguments[4]) or None, arguments[5:], is_isolated, own_pid)
    except JournalError as error:
        os.write(2, f"\n{error}\n".encode())
    worker.leave(0, own_pid)


def _run(
    journal: JournalWriter, folder: Path, target: str, last: int | None, packages: Sequence[str], is_isolated: bool, own_pid: int
) -> None:
    import tensorflow as tf

    from cs_input_analyzer.tfdata.left_out import devices_left_out
    from cs_input_analyzer.worker.capture import Interceptor, parse_script, run_script, setting_up, standing_in
    from cs_input_analyzer.worker.failures import report_failure
    from cs_input_analyzer.worker.redirect import redirected_writes

    tf.get_logger().setLevel("ERROR")

    def on_candidate(candidate: Any) -> None:
        journal.event("candidate", **asdict(candidate))

    def end(why: str, error: BaseException | None = None) -> NoReturn:
        worker.end_forked_child(own_pid)
        try:
            for text in interceptor.refused:
                journal.event("refused", text=text)
            if error is not None:
                report_failure(journal, "script", error)
            else:
                journal.event("ended", why=why if interceptor.taken is None else "")
        except JournalError as unwritten:
            os.write(2, f"\n{unwritten}\n".encode())
        worker.leave(0, own_pid)

    interceptor = Interceptor(end, last, on_candidate, is_isolated=is_isolated)
    try:
        script = parse_script(target)
        stand_ins = standing_in((*packages, *script.stand_ins), lambda name: journal.event("stand_in", name=name))
        with redirected_writes(folder), devices_left_out(), stand_ins, setting_up(), ExitStack() as undone:
            run_script(script, interceptor, undone)
    except JournalError:
        raise
    except SystemExit as exit:
        end(f"it called sys.exit({exit.code!r})" if exit.code not in (None, 0) else "")
    except BaseException as error:
        end("", error)
    end("")
