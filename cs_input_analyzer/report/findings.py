"""Findings and what their fixes do, worded: the same rows for the console and the page."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from difflib import SequenceMatcher

from cs_input_analyzer.records import LEAST_GAIN, Alternative, Analysis, Finding, Fixes, LaunchPlan, Severity
from cs_input_analyzer.report.wording import Facts, evidence_text, gain_text, most_text, one_line, verified_text
from cs_input_analyzer.units import counted, format_count, format_estimate, format_rate

# Lines of code that stay as they are, shown around those that change.
CONTEXT_LINES = 1
LONGEST_CHANGE = 24
LONGEST_LINE = 160

Change = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingView:
    """One finding, worded. `change`: lines of code, each with its mark: `-` before, `+` after, blank where both have it."""

    code: str
    severity: Severity
    message: str
    facts: Facts
    change: Change


def view_of(finding: Finding) -> FindingView:
    """The finding in words."""
    return FindingView(
        code=one_line(finding.code),
        severity=finding.severity,
        message=finding.message,
        facts=_facts(finding),
        change=change_of(finding.before, finding.after),
    )


def _facts(finding: Finding) -> Facts:
    facts = (
        ("at", " ".join(part for part in (finding.source, finding.op and f"({finding.op})") if part)),
        ("evidence", evidence_text(finding.evidence)),
        ("fix", finding.fix or ""),
        ("change", _source_check(finding)),
        ("gain", gain_text(finding)),
        ("standing", _standing(finding)),
    )
    return tuple((label, text) for label, text in facts if text)


def _standing(finding: Finding) -> str:
    """Why a fix is advice and not a measured gain; empty where it is one, or where nothing could be tried."""
    if finding.unproven_because:
        return f"advice only: {finding.unproven_because}"
    if finding.edits and not finding.proven:
        return "advice only: it was not tried"
    gain = finding.measured_gain
    if finding.proven and gain is not None and gain.low <= LEAST_GAIN:
        return f"not recommended: that it gains more than {LEAST_GAIN - 1:.0%} cannot be told from noise"
    return ""


def _source_check(finding: Finding) -> str:
    """What keeps the changed code from being shown, or that it was not tried."""
    if not finding.source_check:
        return ""
    return f"{'not run' if finding.after is not None else 'not shown'}: {finding.source_check}"


def change_of(before: str | None, after: str | None) -> Change:
    """The lines that a fix changes, with one line of context; empty where the code is not known."""
    if after is None:
        return ()
    old, new = _lines(before), _lines(after)
    marked: list[tuple[str, str]] = []
    opcodes = SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes()
    for place, (tag, begin, end, new_begin, new_end) in enumerate(opcodes):
        if tag == "equal":
            marked += [(" ", line) for line in _context(old[begin:end], is_first=place == 0, is_last=place == len(opcodes) - 1)]
        else:
            marked += [("-", line) for line in old[begin:end]] + [("+", line) for line in new[new_begin:new_end]]
    if all(mark == " " for mark, _ in marked):
        return ()
    if len(marked) > LONGEST_CHANGE:
        marked = [*marked[: LONGEST_CHANGE - 1], (" ", "…")]
    return tuple((mark, line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…") for mark, line in marked)


def _lines(code: str | None) -> list[str]:
    return textwrap.dedent(code).split("\n") if code else []


def _context(lines: list[str], *, is_first: bool, is_last: bool) -> list[str]:
    after = [] if is_first else lines[:CONTEXT_LINES]
    before = [] if is_last else lines[-CONTEXT_LINES:]
    if len(lines) <= len(after) + len(before):
        return lines
    return [*after, *(["…"] if after and before else []), *before]


# --- all of them -------------------------------------------------------------------------------------------------------------


def ignored_sentence(analysis: Analysis) -> str:
    """What comments in the user's code left out; empty where they left out nothing."""
    count = analysis.ignored_count
    return f"{format_count(count)} {'finding' if count == 1 else 'findings'} ignored by comments in your code" if count else ""


def fixes_facts(analysis: Analysis) -> Facts:
    """What the kept fixes gain together, and what that does to the plan; empty where fixes were not measured."""
    fixes = analysis.fixes
    if fixes is None:
        return ()
    if not fixes.codes or fixes.measured_gain is None:
        return (("all fixes", fixes.none_because or "none gains more than noise; nothing to change"),)
    facts = [("all fixes", _together(fixes))]
    if fixes.plan is not None:
        facts.append(("then", _plan(analysis.recommendation, fixes.plan)))
    return tuple((label, one_line(text)) for label, text in facts)


def _together(fixes: Fixes) -> str:
    gain = format_estimate(fixes.measured_gain, lambda ratio: format_rate(ratio, "times"))
    verified = verified_text(fixes.elements, fixes.pass_elements) if fixes.elements else "sameness of elements not verified"
    return f"{gain} the rate with {', '.join(fixes.codes)}{most_text(fixes.most_gain)}, {verified}, measured in {fixes.layout}"


def _plan(plan: LaunchPlan | None, then: Alternative) -> str:
    """`8 nodes -> 3 nodes: 3x4x2, 14,000 samples/s`."""
    fewer = f"{counted(plan.nodes, 'node')} -> {counted(then.layout.nodes, 'node')}: " if plan is not None else ""
    meets = {True: "meets the demand", False: "does NOT meet the demand", None: ""}[then.meets_demand]
    said = then.note or meets
    return f"{fewer}{then.layout}, {format_estimate(then.predicted_samples_per_s)} predicted{f'; {said}' if said else ''}"
