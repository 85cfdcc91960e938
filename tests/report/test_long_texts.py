"""Texts beyond any size end in every format. The bound is generous: it is against what takes the square of a text."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks import hostile_texts
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.report import render
from cs_input_analyzer.report.document import LONGEST_SHOWN
from cs_input_analyzer.report.to_json import from_json, load

SAVED = Path(__file__).with_name("run_0.1.0.json")
BOUND_S = 30.0
LONG = {
    "letters": "x" * 100_000,
    "a path": "a/" * 50_000,
    "words": "ab " * 33_333,
    "backticks": "`" * 100_000,
    "an address": "a@" * 50_000,
}


def in_every_text(text: str) -> str:
    """The fullest run with this in each text that a stranger can choose."""
    real = render(hostile_texts.runs(load(SAVED))[1], "json").encode()
    run = json.loads(real)
    for place in hostile_texts.free_places(real):
        hostile_texts.with_text(run, place, text)
    for number, op in enumerate(run["pipeline"]["ops"]):
        op.update(name=f"{op['name']}{number}", inputs=[], within=None)
    run["options"]["params_json"] = json.dumps({"a": text})
    return json.dumps(run)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_a_hundred_thousand_letters_in_every_text_end_in_every_format(name: str, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(in_every_text(LONG[name]))
    for form in hostile_texts.FORMS:
        began_s = time.process_time()
        with suppress(UsageError):  # a text may be no plan, and no batch file
            hostile_texts.made(file, form, SAVED)
        assert time.process_time() - began_s < BOUND_S, form


def test_a_report_shows_the_beginning_of_a_long_text_and_the_json_all_of_it() -> None:
    run = json.loads(SAVED.read_text())
    run["pipeline"]["target"] = "x" * 100_000
    found = from_json(json.dumps(run), origin="x")
    shown = f"{'x' * LONGEST_SHOWN}… (100,000 characters)"
    assert shown in render(found, "html")
    assert shown in "".join(render(found, "md", full=True).split("\n"))
    assert "x" * 100_000 in render(found, "json")


def test_a_text_of_usual_length_is_shown_whole() -> None:
    run = json.loads(SAVED.read_text())
    run["pipeline"]["target"] = "x" * LONGEST_SHOWN
    assert "x" * LONGEST_SHOWN + "…" not in render(from_json(json.dumps(run), origin="x"), "html")


def test_the_texts_of_the_fullest_run_are_almost_all_free() -> None:
    """So that the mutations reach them."""
    real = render(hostile_texts.runs(load(SAVED))[1], "json").encode()
    free = hostile_texts.free_places(real)
    assert len(free) > 0.7 * len([*hostile_texts.places_of(json.loads(real))])
    named = {place[-1] for place in free}
    assert {"target", "command", "code", "csrun_wse", "sbatch", "train_command", "diff", "hostname", "message", "why"} <= named
