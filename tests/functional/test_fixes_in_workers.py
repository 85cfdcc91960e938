"""Fixes tried in real workers: what is told survives whatever a fix does to the process."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import make_work_plan

from cs_input_analyzer.engines import LocalLauncher
from cs_input_analyzer.records import Edit, Layout
from cs_input_analyzer.worker.journal import Candidate

pytestmark = [pytest.mark.tf, pytest.mark.slow]

pytest.importorskip("tensorflow")

CRASHING = """
import os
import tensorflow as tf

begun = 0

def counted(value):
    # The process dies when a third iterator begins: the first one samples, two more are compared.
    global begun
    begun += value == 0
    if begun == 3:
        os.abort()
    return value

def crashing():
    return tf.data.Dataset.range(10**6).map(lambda value: tf.numpy_function(counted, [value], tf.int64)).map(tf.identity)
"""


def candidate(kind: str, op: str) -> Candidate:
    return Candidate(name="CSI000", edits=(Edit(kind=kind, op=op),))  # type: ignore[arg-type]


def test_a_crash_names_the_fix_that_ran_and_keeps_what_was_told(launcher: LocalLauncher, tmp_path: Path) -> None:
    candidates = (candidate("set-buffer", "map"), candidate("insert-prefetch", "map"), candidate("insert-prefetch", "map_2"))
    path = tmp_path / "pipelines_of_fixes.py"
    path.write_text(CRASHING)
    plan = make_work_plan(
        f"{path}:crashing",
        max_window_s=0.3,
        min_window_s=0.3,
        deadline_s=launcher.now_s() + 60,
        candidates=candidates,
        fixes_s=12.0,
    )
    found = launcher.run(launcher.start(Layout.parse("1x1x1")), plan)
    assert not found.outcomes.is_over
    assert found.outcomes.each[0].reason == "map is neither a prefetch nor a reader; the buffer of a shuffle decides the order"
    assert found.outcomes.running == 1
    assert found.measurement.samples_per_s is not None  # and what was sampled before is kept
    assert found.outcomes.ended.startswith("killed by signal 6 (SIGABRT)")
    assert not found.outcomes.was_late
