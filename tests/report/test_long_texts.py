"""Texts beyond any size end in every format: nothing takes the square of a text, which would run into the timeout of a test."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from pathlib import Path

import pytest
from hostile import hostile
from page_runs import usual_run

from benchmarks.hostile_inputs import FORMS, made
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Analysis, Patch
from cs_input_analyzer.report import render

SAVED = Path(__file__).with_name("run_0.1.0.json")
LONG = "".join(("x" * 20_000, "a/" * 10_000, "ab " * 6_667, "`" * 20_000, "a@" * 10_000))
PATCH = Patch(diff="--- ./x.py\n", folder="/data", codes=("CSI101",), by_hand=("by hand",), proven=True)


def full_run() -> Analysis:
    """Return the usual run with a patch, notes, and the options that name something."""
    run = usual_run()
    assert run.fixes is not None
    given = {"train_command": "python", "srun_args": "--label", "sbatch_args": "--account=a", "container": "a.sif"}
    options = dataclasses.replace(run.options, **given, mount_dirs=("/data",))
    pipeline = dataclasses.replace(run.pipeline, notes=("a note",))
    return dataclasses.replace(run, options=options, pipeline=pipeline, fixes=dataclasses.replace(run.fixes, patch=PATCH))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_hundred_thousand_letters_in_every_text_end_in_every_format(form: str, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(render(hostile(full_run(), LONG), "json"))
    with suppress(UsageError):  # a text may be no plan, and no batch file
        made(file, form, SAVED)
