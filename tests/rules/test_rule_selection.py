"""Which findings are shown: options, prefixes, comments; and the rules' own pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer import rules
from cs_input_analyzer.cli import main
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Case, Edit
from cs_input_analyzer.rules import RULES, Rule
from cs_input_analyzer.rules.__main__ import page
from tests.builders import make_case, make_finding, make_graph, make_op, make_options

CODES = [rule.code for rule in RULES]


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    """Rules that find something at a map, at its line, and at no op."""
    at_op = make_finding("CSI103", op="map", source=None)
    at_line = make_finding("CSI201", op=None, source="/data/x.py:7")
    nowhere = make_finding("CSI501", op=None, source=None, severity="error")
    those = tuple(Rule(one.code, "a-rule", lambda case, one=one: (one,)) for one in (at_op, at_line, nowhere))
    monkeypatch.setattr(rules, "RULES", those)
    return make_case(pipeline=make_graph(ops=(make_op("map", source="/data/x.py:7"), make_op("batch", source="/data/x.py:8"))))


@pytest.mark.parametrize(
    ("select", "ignore", "expected"),
    [
        ((), (), ["CSI501", "CSI103", "CSI201"]),
        (("CSI1", "CSI2"), (), ["CSI103", "CSI201"]),
        (("csi1",), (), ["CSI103"]),
        ((), ("CSI1",), ["CSI501", "CSI201"]),
        (("CSI1",), ("CSI1",), []),
        (("CSI103",), ("CSI1",), ["CSI103"]),
        (("CSI",), ("CSI5", "CSI201"), ["CSI103"]),
    ],
)
def test_options_choose_by_prefix_and_the_longer_decides(
    case: Case, select: tuple[str, ...], ignore: tuple[str, ...], expected: list[str]
) -> None:
    assert [finding.code for finding in rules.sift(case, select, ignore).findings] == expected


@pytest.mark.parametrize(
    ("op", "ignored", "expected", "count"),
    [
        ("map", (), ["CSI501", "CSI103", "CSI201"], 0),
        ("map", ("CSI103",), ["CSI501", "CSI201"], 1),
        ("map", ("CSI",), ["CSI501"], 2),
        ("map", ("CSI2",), ["CSI501", "CSI103"], 1),
        ("batch", ("CSI",), ["CSI501", "CSI103", "CSI201"], 0),
    ],
)
def test_a_comment_silences_its_own_ops_only_and_is_counted(
    case: Case, op: str, ignored: tuple[str, ...], expected: list[str], count: int
) -> None:
    ops = tuple(replace(found, ignored=ignored) if found.name == op else found for found in case.pipeline.ops)
    commented = replace(case, pipeline=replace(case.pipeline, ops=ops))
    sifted = rules.sift(commented)
    assert [finding.code for finding in sifted.findings] == expected
    assert sifted.ignored_count == count
    # What options leave out is not counted.
    assert rules.sift(commented, ignore=("CSI",)).ignored_count == 0


@pytest.mark.parametrize("code", ["CSI9", "E501", "", "CSI2020", "CSI202 "])
def test_unknown_codes_are_refused(code: str) -> None:
    with pytest.raises(UsageError, match="there is no rule"):
        rules.check_codes([code])
    with pytest.raises(UsageError, match="there is no rule"):
        make_options(select=(code,))


@pytest.mark.parametrize("code", rules._GONE)
def test_a_code_that_is_gone_is_taken_with_one_line_and_explained_as_gone(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert rules.check_codes([code.lower(), "CSI1"]) == (code, "CSI1")
    assert rules.gone_among([code, "CSI101", "CSI1"]).startswith(code)
    for asked in (code, code.lower(), rules._GONE[code][0]):
        assert main(["explain", asked]) == 2
        said = capsys.readouterr().err.strip()
        assert f"{code} was removed: " in said
        assert "\n" not in said
    assert code not in CODES


def test_codes_that_are_gone_break_no_command_and_no_comment(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    run = str(root / "tests" / "report" / "run_0.1.0.json")
    assert main(["report", run, "--ignore", "CSI109,CSI509"]) == 0
    said = capsys.readouterr().err.strip()
    assert said.count("CSI109, CSI509") == 1
    assert "\n" not in said
    assert main(["report", run, "--ignore", "CSI101"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("given_codes", ["csi301, CSI2", ["csi301", "CSI2"], ("CSI301", "csi2")])
def test_codes_are_taken_in_any_case_and_form(given_codes: Any) -> None:
    assert make_options(ignore=given_codes).ignore == ("CSI301", "CSI2")


def test_the_rules_are_in_order_of_code_and_each_has_its_own_name() -> None:
    assert sorted(set(CODES)) == CODES
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.kept_for for rule in RULES)


def test_every_rule_documents_itself() -> None:
    for rule in RULES:
        assert rule.first_line.endswith(".")
        assert rule.topic in rules.TOPICS.values()
        assert "\nFix: " in rule.text
        assert "\nSilent " in rule.text


def test_the_page_in_docs_is_what_the_docstrings_say(root: Path) -> None:
    assert (root / "docs" / "rules.md").read_text(encoding="utf-8") == page(), "python -m cs_input_analyzer.rules > docs/rules.md"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_explain_shows_a_rule_by_code_or_name(rule: Rule, capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for name in (rule.code, rule.code.lower(), rule.name):
        assert main(["explain", name]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] == shown[2]
    assert rule.code in shown[0]
    assert rule.topic in shown[0]
    assert len(shown[0]) > len(rule.text) / 2
    assert all(len(line) <= 80 for line in shown[0].split("\n"))


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        (CODES[0][:5], CODES[0]),
        ("CSI319", "CSI3"),  # of its topic
        (f"{RULES[0].name}s", RULES[0].name),
        ("float64", "wide-dtypes"),  # which speaks of it
        ("zzzzzzzzz", None),
        ("", None),
    ],
)
def test_explain_of_no_rule_names_the_near_ones(asked: str, near: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", asked]) == 2
    said = capsys.readouterr().err
    assert "cs_input_analyzer rules" in said
    assert ("did you mean" in said) is (near is not None)
    assert near is None or near in said


def test_the_list_has_one_line_for_each_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    head, *lines = capsys.readouterr().out.strip().split("\n")
    assert head.split() == ["code", "name", "topic", "finds"]
    for rule, line in zip(RULES, lines, strict=True):
        assert [part.strip() for part in line.split("  ") if part] == [rule.code, rule.name, rule.topic, rule.first_line]


def _looped(monkeypatch: pytest.MonkeyPatch, count: int, code: str = "data = data.map(f)", **fields: Any) -> list[Any]:
    """What is shown of a rule that finds something at each op that a statement makes."""
    ops = tuple(make_op("map", name=f"map_{n}", source="/data/x.py:7", code=code) for n in range(count))

    def find(case: Case) -> Any:
        for n, op in enumerate(case.pipeline.ops):
            severity = "warning" if n == 3 else "info"
            edit = Edit(kind="parallelize", op=op.name)
            yield make_finding("", op=op.name, fix=f"change {op.name} to {n}", severity=severity, edits=(edit,), **fields)

    monkeypatch.setattr(rules, "RULES", (Rule("CSI103", "a-rule", find),))
    return list(rules.sift(make_case(pipeline=make_graph(ops=ops), profile=None)).findings)


@pytest.mark.parametrize("count", [5, 150])
def test_findings_alike_of_one_call_are_one_with_all_edits(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = _looped(monkeypatch, count, message="it is slow")
    assert (finding.op, finding.severity, len(finding.edits)) == ("map_3", "warning", count)
    assert finding.message == f"it is slow (and {count - 1} more of this call)"


@pytest.mark.parametrize("code", ["data = zip((a.map(f), b.map(f), c.map(f)))", "data = joined(data)"])
def test_few_findings_of_several_or_unknown_calls_stay_as_they_are(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(_looped(monkeypatch, 3, code)) == 3


def test_a_function_called_twice_gives_one_finding_for_each_of_its_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two calls have a line each, in one statement."""
    code = "return (\n    data.map(f)\n    .map(g)\n)"
    ops = tuple(make_op("map", name=f"map_{n}", source=f"/data/x.py:{7 + n % 2}", code=code) for n in range(4))
    rule = Rule("CSI103", "a-rule", lambda case: (make_finding("", op=op.name) for op in case.pipeline.ops))
    monkeypatch.setattr(rules, "RULES", (rule,))
    shown = rules.sift(make_case(pipeline=make_graph(ops=ops), profile=None)).findings
    assert [finding.op for finding in shown] == ["map_0", "map_1"]
