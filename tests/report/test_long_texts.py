"""Texts beyond any size end in every format: nothing takes the square of a text, which would run into the timeout of a test."""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks import hostile_texts
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.report import render
from cs_input_analyzer.report.to_json import load

SAVED = Path(__file__).with_name("run_0.1.0.json")
LONG = ("x" * 100_000, "a/" * 50_000, "ab " * 33_333, "`" * 100_000, "a@" * 50_000)


@pytest.mark.slow
def test_a_hundred_thousand_letters_in_every_text_end_in_every_format(tmp_path: Path) -> None:
    """The fullest run with long texts at each place that a stranger can fill, of another kind from place to place."""
    real = render(hostile_texts.runs(load(SAVED))[1], "json").encode()
    free = hostile_texts.free_places(real)
    named = {place[-1] for place in free}
    assert {"target", "command", "code", "csrun_wse", "sbatch", "train_command", "diff", "hostname", "message", "why"} <= named
    run = json.loads(real)
    for place, text in zip(free, itertools.cycle(LONG), strict=False):
        hostile_texts.with_text(run, place, text)
    for number, op in enumerate(run["pipeline"]["ops"]):
        op.update(name=f"{op['name']}{number}", inputs=[], within=None)
    run["options"]["params_json"] = json.dumps({"a": LONG[2]})
    file = tmp_path / "run.json"
    file.write_text(json.dumps(run))
    for form in hostile_texts.FORMS:
        with suppress(UsageError):  # a text may be no plan, and no batch file
            hostile_texts.made(file, form, SAVED)
