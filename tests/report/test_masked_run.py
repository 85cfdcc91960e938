"""What is written of a run holds none of its secrets, and the run itself keeps them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from builders import make_analysis, make_finding, make_measurement, make_worker

import cs_input_analyzer as csia
from cs_input_analyzer import api, report
from cs_input_analyzer.cli import main
from cs_input_analyzer.errors import InputFunctionError, UsageError
from cs_input_analyzer.masking import MASK
from cs_input_analyzer.records import Analysis, Capture, Options, Parent
from cs_input_analyzer.report import FORMATS, masked, render
from cs_input_analyzer.report.to_json import from_json
from cs_input_analyzer.request import request
from cs_input_analyzer.workflows import launched

SECRETS = ("PARAMSECRET1", "SETSECRET22", "ARGSECRET333", "URLSECRET4444")
PARAMS = {
    "train_input": {"token": "PARAMSECRET1", "batch_size": 256, "eos_token": "</s>"},
    "api_key": "SETSECRET22",
    "store": "s3://ada:URLSECRET4444@host/x",
}
TRAIN = "python run.py --mode train --api-key ARGSECRET333"


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def with_secrets(**overrides: Any) -> Analysis:
    """A run that holds each of the secrets where it belongs, and in texts that others wrote."""
    failed = make_worker(None, index=1, message="ValueError: no access for PARAMSECRET1")
    options = Options(params_json=json.dumps(PARAMS), train_command=TRAIN, demand_samples_per_s=7000.0)
    run = make_analysis(
        command=f"cs_input_analyzer analyze data.py:f --set api_key=SETSECRET22 --train-command '{TRAIN}'",
        options=options,
        measurements=(make_measurement("1x1x2", (1.0,), workers=(make_worker(), failed)),),
        findings=(make_finding(message="store s3://ada:URLSECRET4444@host/x is slow", evidence={"api_key": "SETSECRET22"}),),
        parent=Parent(path="run.json", created_at="then", command="cs_input_analyzer analyze data.py:f --token=PARAMSECRET1"),
        recommendation=replace(make_analysis(options=options).recommendation, confirmed_by=None),  # type: ignore[type-var]
    )
    return replace(run, **overrides) if overrides else run


def secrets_in(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize("form", FORMATS)
def test_no_format_holds_a_secret(form: Any) -> None:
    script = make_analysis(capture=Capture(command=TRAIN, picked=1, candidates=()))
    script = replace(script, pipeline=replace(script.pipeline, target=f"script:1:{TRAIN}"))
    for full in (False, True):
        assert secrets_in(render(with_secrets(), form, full=full) + render(script, form, full=full)) == []
    assert secrets_in(repr(api._public(script))) == []


def test_no_comparison_holds_one() -> None:
    run = with_secrets()
    other = replace(run, options=replace(run.options, params_json=json.dumps(PARAMS | {"api_key": "OTHER", "n": 1})))
    compared = api.compare(run, other)
    for form in ("console", "md", "html", "json"):
        assert secrets_in(render(compared, form, full=True)) == []  # type: ignore[arg-type]
    doubts = {doubt.name: (doubt.old, doubt.new) for doubt in compared.doubts}
    assert MASK in doubts["params"][0]
    assert "params" not in {doubt.name for doubt in api.compare(run, masked(run)).doubts}  # a saved one is no other


def test_the_run_in_memory_keeps_them_and_one_without_is_the_very_same() -> None:
    run = with_secrets()
    before = repr(asdict(run))
    render(run, "json")
    assert repr(asdict(run)) == before
    harmless = make_analysis(options=Options(params_json='{"tokenizer": "bert", "max_tokens": 512, "image_key": "JPEG"}'))
    assert masked(harmless) is harmless


def test_all_else_stays_as_it_was_and_the_lines_are_those_of_the_masked_options() -> None:
    saved = from_json(render(with_secrets(), "json"), origin="x")
    assert json.loads(saved.options.params_json or "") == {
        "train_input": {"token": MASK, "batch_size": 256, "eos_token": "</s>"},
        "api_key": MASK,
        "store": f"s3://ada:{MASK}@host/x",
    }
    plan = saved.recommendation
    assert plan is not None
    assert plan.launch is not None
    assert plan.launch_note == ""
    assert plan.launch.csrun_wse.endswith("python run.py --mode train --api-key '***'")
    assert "stands for a secret" in " ".join(render(saved, "console").split())
    assert "secret" not in render(make_analysis(), "console", full=True)


# --- launching again ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose params lack two secrets and a password."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.py").write_text("def f(params):\n    raise AssertionError('nobody calls this')\n")
    run = with_secrets()
    path = tmp_path / "run.json"
    path.write_text(render(replace(run, pipeline=replace(run.pipeline, target="data.py:f")), "json"))
    return path


@pytest.mark.parametrize("command", [("validate",), ("compare", "--measure")])
def test_what_is_missing_is_named_with_what_to_type(
    command: tuple[str, ...], saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(saved)] * (2 if command[0] == "compare" else 1)
    line = [command[0], *files, *command[1:], "--yes"]
    assert main(line) == UsageError.exit_code
    lines = set(capsys.readouterr().err.splitlines())
    for key in ("train_input.token", "api_key", "store"):
        text = f"cs_input_analyzer: {key} of the params is not in the run, as it is a secret: give it, --set {key}=VALUE"
        assert text in lines
    assert main([*line, "--set", "train_input.token=PARAMSECRET1", "--set", "api_key=x"]) == UsageError.exit_code
    told = capsys.readouterr().err
    assert "store of the params" in told
    assert "PARAMSECRET1" not in told
    assert "train_input.token of the params" not in told


def test_with_all_given_the_function_gets_the_real_values(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def launches(trial: Any, *_: object) -> Any:
        seen.append(json.loads(trial.run.options.params_json))
        raise InputFunctionError("bad PARAMSECRET1", "f('SETSECRET22')")

    monkeypatch.setattr(launched, "launch_and_compare", launches)
    given = ("train_input.token=PARAMSECRET1", "api_key=SETSECRET22", "store=s3://ada:URLSECRET4444@host/x")
    with pytest.raises(InputFunctionError) as caught:
        csia.load_analysis(saved).validate(set=given)
    assert seen == [PARAMS]
    assert secrets_in(str(caught.value) + caught.value.details) == []


def test_nothing_but_what_the_run_lacks_can_be_given(saved: Path) -> None:
    run = csia.load_analysis(saved)
    wrong = {"train_input.batch_size=3": "only secrets can be given", "api_key": "write key=value", "api_key=[": "not YAML"}
    for override, message in wrong.items():
        with pytest.raises(UsageError, match=message):
            run.validate(set=(override,))
    saved.write_text(render(make_analysis(), "json"))
    with pytest.raises(UsageError, match="no value is missing"):
        csia.load_analysis(saved).validate(set=("a=1",))


def test_a_script_that_was_saved_without_its_secret_is_typed_again(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (saved.parent / "run.py").write_text("")
    run = make_analysis()
    saved.write_text(render(replace(run, pipeline=replace(run.pipeline, target=f"script:1:{TRAIN}")), "json"))
    assert main(["validate", str(saved), "--yes"]) == UsageError.exit_code
    assert "--api-key of the script's command is not in the run, as it is a secret" in capsys.readouterr().err
    seen: list[str] = []

    def validates(found: Analysis, **_: object) -> Any:
        seen.append(found.pipeline.target)
        raise UsageError("seen")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(launched, "validate", validates)
        assert main(["validate", str(saved), "--target", TRAIN]) == UsageError.exit_code
        assert main(["validate", str(saved), "--target", "python run.py --mode train"]) == UsageError.exit_code
    assert seen == [f"script:1:{TRAIN}"]
    assert "ARGSECRET333" not in capsys.readouterr().err


def test_a_saved_run_is_planned_without_its_secrets(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(saved), "--demand", "9k", "--json", "new.json"]) == 0
    assert "stands for a secret" in " ".join(capsys.readouterr().out.split())
    assert json.loads(json.loads(Path("new.json").read_text())["options"]["params_json"])["api_key"] == MASK


# --- what a command says --------------------------------------------------------------------------------------------------------


LINES = [
    ("analyze", "none.py:f", "--set", "a.token=TYPEDSECRET: [", "--demand", "1"),
    ("analyze", "none.py:f", "--set", "a.token=TYPEDSECRET", "--nodes", "TYPEDSECRET"),
    ("analyze", "none.py:f", "--train-command", "python 'run.py --token TYPEDSECRET"),
    ("python", "none.py", "--api-key", "TYPEDSECRET"),
    ("validate", "none.json", "--set", "token=TYPEDSECRET"),
]


def test_no_message_says_a_secret_that_was_typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("called with TYPEDSECRET")

    codes = [main(line) for line in LINES]
    monkeypatch.setattr(request, "check_target", fails)
    codes += [main(["analyze", "none.py:f", "--set", "a.token=TYPEDSECRET"])]  # a bug of ours
    assert codes == [UsageError.exit_code] * len(LINES) + [70]
    told = capsys.readouterr()
    assert "called with ***" in told.err
    assert "TYPEDSECRET" not in told.err + told.out


# --- who may read it ------------------------------------------------------------------------------------------------------------


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_holds_the_run_is_for_its_owner_and_what_shows_a_part_of_it_is_not(tmp_path: Path) -> None:
    run = api._public(make_analysis())
    run.to_json(tmp_path / "run.json")
    run.to_html(tmp_path / "run.html")
    run.to_csv(tmp_path / "run.csv")
    assert [mode_of(tmp_path / f"run.{form}") for form in ("json", "html", "csv")] == [0o600, 0o600, 0o644]
    for form, mode in {"json": 0o600, "html": 0o600, "md": 0o644, "sbatch": 0o644, "env": 0o644, "txt": 0o644}.items():
        assert main(["report", str(tmp_path / "run.json"), "-o", str(tmp_path / f"again.{form}")]) == 0
        assert mode_of(tmp_path / f"again.{form}") == mode


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    for mode in (0o644, 0o640, 0o666):
        path.write_text("")
        path.chmod(mode)
        api._public(make_analysis()).to_json(path)
        assert mode_of(path) == mode


def test_a_file_for_its_owner_alone_is_one_from_its_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: seen.append(stat.S_IMODE(os.fstat(handle).st_mode)))
    report.write_report(tmp_path / "run.json", "{}", "json")
    assert seen == [0o600]
