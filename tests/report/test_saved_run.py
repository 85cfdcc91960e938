"""Reading is the careful half: what does not fit is refused with its place, and a run of release 0.1 is read as it was."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from builders import make_analysis, make_bare_analysis, make_budget, make_capacity_model, make_host, make_validation

import cs_input_analyzer as csia
from cs_input_analyzer.cli import main
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Analysis, Estimate
from cs_input_analyzer.report import FORMATS, render
from cs_input_analyzer.report import to_json as to_json_module
from cs_input_analyzer.report.to_json import from_json, json_schema, load, to_json

# Written by the code of 2026-11-21 before there were a capacity model, stations and samples per element; traces cut to be short.
OLD = Path(__file__).with_name("run_0.1.0.json")


def edited(change: Callable[[dict[str, Any]], object], analysis: Analysis | None = None) -> str:
    document = json.loads(to_json(analysis or make_analysis()))
    change(document)
    return json.dumps(document)


def refusal(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        from_json(text, origin="run.json")
    message = str(caught.value)
    assert message.startswith("run.json: ")
    return message


def test_unknown_keys_are_ignored() -> None:
    text = edited(lambda run: (run.update(later=1), run["host"].update(moon="full"), run["pipeline"]["ops"][0].update(x=[])))
    assert from_json(text, origin="x") == make_analysis()


def test_the_error_of_a_validation_is_written_where_there_is_a_base_for_one_and_not_read() -> None:
    analysis = make_analysis(validation=make_validation())
    document = json.loads(to_json(analysis))
    for row, record in zip(document["validation"]["rows"], make_validation().rows, strict=True):
        assert row["error_ratio"] == record.error_ratio
        row["error_ratio"] = 99
    assert from_json(json.dumps(document), origin="x") == analysis
    for measured in (0.0, 5e-324):
        row = dataclasses.replace(make_validation().rows[0], measured_samples_per_s=Estimate.exact(measured))
        analysis = make_analysis(validation=make_validation(rows=(row,)))
        assert "error_ratio" not in json.loads(to_json(analysis))["validation"]["rows"][0]


def test_a_value_that_json_has_no_word_for_is_never_written() -> None:
    for value in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(ValueError, match=r"^budget\.probes_s is"):
            to_json(make_analysis(budget=make_budget(probes_s=value)))
    with pytest.raises(ValueError, match=r"^host\.cpu_model is a bytes"):
        to_json(make_analysis(host=make_host(cpu_model=b"EPYC")))


def test_every_truncation_is_called_one() -> None:
    """Also inside numbers and escapes."""
    text = to_json(make_bare_analysis(command="a \x1b \u00e9"), indent=None).strip()
    text = text.replace("{", '{"numbers": [-2.5E+3, -1e-7, true], "text": "\\u00e9", ', 1)
    for end in range(1, len(text)):
        assert "truncated" in refusal(text[:end]), text[max(0, end - 20) : end]


def with_number(number: str) -> str:
    text = edited(lambda run: run["measurements"][2]["workers"][1]["samples_per_s"].update(low=-17171717.0))
    return text.replace("-17171717.0", number)


def with_version(version: object) -> str:
    return edited(lambda run: run.update(schema_version=version))


REFUSED: dict[str, Callable[[], list[str]]] = {
    "the file is empty": lambda: ["", " \n"],
    "not JSON": lambda: ["hello", "{'a': 1}", "a,b\n1,2\n", '{"schema_version": 1,}', '{"schema_version": 1} trailing'],
    "not a run of cs_input_analyzer": lambda: ["[]", "3", "null", '"schema_version"', "{}", '{"nodes": 3}'],
    "nested too deeply": lambda: ["[" * 200_000],
    "written by a newer version: schema 2, this tool reads 1; upgrade": lambda: [with_version(2)],
    "written by an older version: schema 0": lambda: [with_version(0)],
    "schema_version: a whole number is needed": lambda: [with_version(version) for version in ("1", 1.5, None, True, [1])],
    "measurements[2].workers[1].samples_per_s.low: ": lambda: [
        with_number(number) for number in ("NaN", "Infinity", "-Infinity", "1e999")
    ],
    "digit": lambda: [with_number("9" * digits) for digits in (301, 4000, 6000)],
    "host.hostname: half of a surrogate pair": lambda: [
        edited(lambda run: run["host"].update(hostname="MARK")).replace("MARK", "\\ud800")
    ],
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_is_no_run_is_refused_with_the_reason(said: str) -> None:
    for text in REFUSED[said]():
        assert said in refusal(text), text[:80]


WRONG: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "text for a number": (lambda run: run["host"].update(cpus="16"), "host.cpus: expected `int`, got `str`"),
    "true for a count": (lambda run: run["host"].update(cpus=True), "host.cpus: "),
    "null for what must be there": (lambda run: run.update(options=None), "options: "),
    "list for a record": (lambda run: run.update(host=[]), "host: "),
    "word that is none of ours": (lambda run: run.update(verdict="fine"), "verdict: "),
    "a key left out deep down": (
        lambda run: run["measurements"][1]["workers"][0]["samples_per_s"].pop("low"),
        "measurements[1].workers[0].samples_per_s: object missing required field `low`",
    ),
    "a wrong item of a list": (lambda run: run["measurements"].append("x"), "measurements[3]: "),
    "a parameter of a pipeline": (
        lambda run: run["pipeline"]["ops"][2]["parameters"].update(a={}),
        "pipeline.ops[2].parameters[...]: ",
    ),
    "an estimate outside of its interval": (
        lambda run: run["recommendation"]["predicted_samples_per_s"].update(low=3, estimate=2, high=4),
        "recommendation.predicted_samples_per_s: an estimate must lie inside its interval",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_named_with_its_place(name: str) -> None:
    change, expected = WRONG[name]
    message = refusal(edited(change))
    assert expected in message
    assert message.count(";") == 0, "one mistake, told once"


CONTENTS = {
    b"\xff\xfe\x00": "not UTF-8",
    b"<html><body>a page</body></html>": "without a run",
    b"<script type='application/json' id='run'>{\"schema": "truncated",
    b"<script type='application/json' id='run'>{}</script>": "schema_version",
    b"": "empty",
}


def test_load_goes_by_content_and_refuses_what_is_no_run(tmp_path: Path) -> None:
    run, path = make_analysis(), tmp_path / "run.json"
    (tmp_path / "page.json").write_text(render(run, "html"), encoding="utf-8")
    (tmp_path / "run.html").write_text("\ufeff" + to_json(run), encoding="utf-8")
    assert load(tmp_path / "page.json") == load(tmp_path / "run.html") == run
    for content, expected in CONTENTS.items():
        path.write_bytes(content)
        with pytest.raises(UsageError, match=expected) as caught:
            load(path)
        assert str(path) in str(caught.value)
    for missing in (tmp_path, tmp_path / "none.json", tmp_path / "a\0b"):
        with pytest.raises(UsageError, match="cannot be read"):
            load(missing)


def test_a_huge_file_is_told_by_its_size_and_one_that_just_fits_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    path.write_text(to_json(make_analysis()), encoding="utf-8")
    monkeypatch.setattr(to_json_module, "LARGEST_RUN_BYTES", path.stat().st_size)
    assert load(path) == make_analysis()
    path.write_text(path.read_text(encoding="utf-8") + " ", encoding="utf-8")
    for endless in (path, "/dev/zero"):
        with pytest.raises(UsageError, match="larger than"):
            load(endless)


# --- the schema ----------------------------------------------------------------------------------------------------------------


def test_the_schema_in_the_docs_is_in_step(root: Path) -> None:
    written = (root / "docs/run-schema.json").read_text(encoding="utf-8")
    assert json.loads(written) == json.loads(json_schema()), "python -m cs_input_analyzer.report > docs/run-schema.json"


def test_the_schema_names_every_key_and_refuses_what_reading_refuses() -> None:
    schema, document = json.loads(json_schema()), json.loads(to_json(make_analysis()))
    assert set(document) == set(schema["properties"])
    assert set(document["validation"]["rows"][0]) == set(schema["$defs"]["ValidationRow"]["properties"])
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    beyond_a_schema = {"true for a count", "an estimate outside of its interval"}
    for name, (change, _) in WRONG.items():
        if name not in beyond_a_schema:
            assert not validator.is_valid(json.loads(edited(change))), name


# --- runs of earlier releases --------------------------------------------------------------------------------------------------


def lacking(record: Any, saved: Any, place: str = "") -> dict[str, object]:
    """What the record holds at places that the file does not have."""
    found: dict[str, object] = {}
    if dataclasses.is_dataclass(record) and isinstance(saved, dict):
        for field in dataclasses.fields(record):
            value, name = getattr(record, field.name), f"{place}{field.name}"
            found |= lacking(value, saved[field.name], f"{name}.") if field.name in saved else {name: value}
    elif isinstance(record, tuple) and isinstance(saved, list):
        for value, item in zip(record, saved, strict=True):
            found |= lacking(value, item, place)
    return found


def test_what_a_run_of_0_1_lacks_is_missing_and_every_format_can_be_made() -> None:
    run = csia.load_analysis(OLD)
    lacks = lacking(run, json.loads(OLD.read_text()))
    for name in ("capacity", "pipeline.samples_per_element", "fixes", "scaling", "parent"):
        assert lacks[name] is None, name
    seen = ("measurements.", "profile.", "storage.", "budget.")
    assert {name for name, value in lacks.items() if name.startswith(seen) and value not in (None, (), "", False)} == set()
    assert all(render(run, form) for form in FORMATS)


# Fields that runs of version 0.2 had, by their place.
GONE: dict[tuple[str, ...], Any] = {
    ("soak",): {"asked_s": 600.0, "seconds": 600.0, "points": [], "grown": "shuffle"},
    ("options", "soak_s"): 600.0,
    ("options", "egress"): "measure",
    ("options", "node_reference"): "10234567+-1.5%@3.11",
    ("options", "host_history"): False,
    ("budget", "soak_s"): 600.0,
    ("capacity", "sending_cpu_s_per_sample"): 1e-6,
    ("storage", "fsspec"): {"files": None, "wait_s_per_sample": 0.005, "latency_s": 0.03, "read_bytes": 2**20},
}


def test_fields_that_are_gone_are_ignored() -> None:
    run = make_analysis(capacity=make_capacity_model())
    saved = json.loads(render(run, "json"))
    for (*parents, name), value in GONE.items():
        place = saved
        for parent in parents:
            place = place[parent]
        assert name not in place
        place[name] = value
    assert from_json(json.dumps(saved), origin="x") == run


def test_a_run_of_0_1_is_planned_again_and_compared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = csia.load_analysis(OLD)
    assert run.plan(demand="100k", nodes=16).recommendation.layout.cpus > run.recommendation.layout.cpus
    run.plan().to_json(tmp_path / "new.json")
    assert main(["compare", str(OLD), str(tmp_path / "new.json")]) == 0
    assert "NO DIFFERENCE SEEN" in capsys.readouterr().out
    Path("data.py").write_text("")
    with pytest.raises(UsageError, match="written by an older version"):
        run.validate(layouts=["1x1x1"], max_seconds=5)
