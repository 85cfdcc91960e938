"""A user's own script -> the input function or Dataset that it would train on. The training never runs, not one step.

Workers whose target is a script run it up to there; `worker.script_run` runs it once before, to find all the places there are.
"""

# ruff: noqa: F401  (imported for others)

from cs_input_analyzer.worker.capture.entry_points import LOOKED_FOR
from cs_input_analyzer.worker.capture.imports import innermost, missing_advice, standing_in
from cs_input_analyzer.worker.capture.interceptor import Interceptor
from cs_input_analyzer.worker.capture.launchers import notes_on
from cs_input_analyzer.worker.capture.script import (
    Script,
    beside_scripts,
    captured,
    from_command,
    is_script,
    other_python,
    parse_script,
    run_script,
)
from cs_input_analyzer.worker.capture.stand_ins import setting_up
