"""Capture the input function or Dataset that a user's script would train on. No step of the training runs.

A worker whose target is a script runs it up to that place. Before, another worker runs it once to find all places.
"""

# ruff: noqa: F401  (imported for others)

from cs_input_analyzer.worker.capture.entry_points import LOOKED_FOR
from cs_input_analyzer.worker.capture.imports import innermost, missing_advice, standing_in
from cs_input_analyzer.worker.capture.launchers import notes_on
from cs_input_analyzer.worker.capture.script import (
    Script,
    beside_scripts,
    captured,
    from_command,
    is_script,
    other_python,
    parse_script,
    search,
)
from cs_input_analyzer.worker.capture.stand_ins import setting_up
