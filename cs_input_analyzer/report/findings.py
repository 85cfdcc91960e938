"""Findings and what their fixes do, worded; and what `tune` prints of them."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from dataclasses import replace
from difflib import unified_diff

from cs_input_analyzer.records import LEAST_GAIN, NO_GAIN, Analysis, Estimate, Finding, Fixes, Patch, feeding
from cs_input_analyzer.report.document import Card, Copyable, Document, Facts, Part, Text, bare_rate, present, section, slug
from cs_input_analyzer.report.wording import (
    AS_MEASURED,
    Pairs,
    factor_sentence,
    named_values,
    one_line,
    pairs,
    plan_currency,
    short_source,
)
from cs_input_analyzer.units import counted, format_count, format_estimate, format_rate, format_ratio

# Lines of code that stay as they are, shown around those that change.
CONTEXT_LINES = 1
LONGEST_CHANGE = 24
LONGEST_LINE = 160
# Lines of a statement before and after: comparing takes the square of them.
LONGEST_STATEMENT = 400
SEVERITIES = {"error": 0, "warning": 1, "info": 2}
# What a short report has room for.
FINDINGS_SHOWN = 3
NOT_VERIFIED = "sameness of elements not verified"


def finding_cards(findings: tuple[Finding, ...], fixes: Fixes | None = None) -> tuple[Card, ...]:
    """Return a card for each finding: measured gains first, the largest at the top, then the others by severity.

    A gain counts if it is more than noise. Each has its own anchor: `finding-CSI104-map`, with a number for a second one of the op.
    `fixes`: tells which gains were kept.
    """

    def rank(finding: Finding) -> tuple[bool, float, int]:
        gain = finding.measured_gain.estimate if finding.is_gain and finding.measured_gain is not None else 0.0
        return (not finding.is_gain, -gain, SEVERITIES[finding.severity])

    cards: dict[str, Card] = {}
    seen: Counter[str] = Counter()
    for finding in sorted(findings, key=rank):
        anchor = plain = "-".join(["finding", slug(finding.code), *([slug(finding.op)] if finding.op else [])])
        while anchor in cards:  # also where the name of an op ends in a number
            seen[plain] += 1
            anchor = f"{plain}-{seen[plain] + 1}"
        cards[anchor] = card_of(finding, anchor, fixes=fixes)
    return tuple(cards.values())


def card_of(finding: Finding, anchor: str, change: str = "", fixes: Fixes | None = None) -> Card:
    """Return the finding in words. `change`: `new` or `gone`, in a comparison."""
    at, gain = short_source(finding.source), finding.measured_gain if finding.is_gain and not change else None
    place = " ".join(part for part in (finding.source, finding.op and f"({finding.op})") if part)
    has_rates = any(name.endswith("samples_per_s") and value is not None for name, value in finding.evidence.items())
    same, measured = NOT_VERIFIED, ""
    if finding.proven:
        same = _verified_text(finding.verified_elements, finding.pass_elements)
    if finding.measured_gain is not None:
        measured = f"{_times_text(finding.measured_gain)} the rate, {same}"
    facts = (
        ("at", place),
        ("evidence", f"{', '.join(named_values(finding.evidence))}{f' (rates {AS_MEASURED})' if has_rates else ''}"),
        ("fix", finding.fix or ""),
        ("change", finding.source_check and f"not {'shown' if finding.after is None else 'run'}: {finding.source_check}"),
        ("gain", measured),
        ("standing", _standing(finding, fixes)),
    )
    return Card(
        code=one_line(finding.code),
        name=one_line(finding.rule),
        severity=finding.severity,
        message=finding.message,
        facts=tuple((label, said) for label, said in facts if said),
        code_change=change_of(finding.before, finding.after),
        anchor=anchor,
        gain="" if gain is None else f"×{bare_rate(gain.estimate)}",
        op=one_line(finding.op or ""),
        at=f"{change}: {at}".rstrip() if change else at,
        fix="" if change else one_line(f"{finding.fix or ''}{' (tried: slower)' if finding.is_slower else ''}"),
        change=change,
        is_folded=finding.severity == "info" and not finding.is_gain and not change,
    )


def brief_cards(cards: tuple[Card, ...], none: str = "") -> tuple[Part, ...]:
    """Return the first cards, to be cut to size, and how many more there are."""
    more = len(cards) - FINDINGS_SHOWN
    shown = tuple(replace(card, is_brief=True) for card in cards[:FINDINGS_SHOWN])
    return (*(shown or (Text(text=none),)), Text(text=f"+{more} more" if more > 0 else "", tone="note"))


def _standing(finding: Finding, fixes: Fixes | None) -> str:
    """Return why a fix was not kept; empty if it was, or if there is nothing to try."""
    gain = finding.measured_gain
    if finding.unproven_because:
        return f"advice only: {finding.unproven_because}"
    if not finding.proven:
        return "advice only: it was not tried" if finding.edits else ""
    if gain is None:
        return ""
    if finding.is_gain:
        if fixes is None or not finding.edits or fixes.kept([finding]):
            return ""
        return f"not kept: {fixes.none_because or 'it gains alone, but not for sure beside those that were kept'}"
    if finding.is_slower:
        return "not recommended: the pipeline was slower with it"
    if gain.high < NO_GAIN:
        return f"not recommended: tried without gain: {format_ratio(NO_GAIN - 1)} at most"
    least = f"too noisy to tell: a gain of more than {format_ratio(LEAST_GAIN - 1)} cannot be told from noise"
    return f"not recommended: {least}; repeat on a quieter host, or with a longer --max-seconds"


def change_of(before: str | None, after: str | None) -> Pairs:
    """Return the lines that a fix changes, with one line of context.

    Empty if the code is unknown, does not change, or is longer than a statement.
    """
    if after is None or (before or "") == after or f"{before}{after}".count("\n") > LONGEST_STATEMENT:
        return ()
    old, new = (textwrap.dedent(code).split("\n") if code else [] for code in (before, after))
    diff = list(unified_diff(old, new, n=CONTEXT_LINES, lineterm=""))[3:]  # after the names of two files and the first place
    marked = [(" ", "…") if line.startswith("@@") else (line[0], line[1:]) for line in diff]
    if len(marked) > LONGEST_CHANGE:
        marked = [*marked[: LONGEST_CHANGE - 1], (" ", "…")]
    return tuple((mark, line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…") for mark, line in marked)


def ignored_sentence(analysis: Analysis) -> str:
    """Say how many findings comments in the user's code left out; empty if none."""
    return f"{counted(analysis.ignored_count, 'finding')} ignored by comments in your code" if analysis.ignored_count else ""


def fixes_facts(analysis: Analysis) -> Pairs:
    """Return what the kept fixes gain together, and how that was checked. The card of each other fix says why it was not kept."""
    fixes = analysis.fixes
    if fixes is None:
        return ()
    tried = f"one worker of {fixes.layout}"
    if not fixes.codes or fixes.measured_gain is None:
        return (("all fixes", "none was kept"), ("tried in", tried))
    verified = _verified_text(fixes.elements, fixes.pass_elements) if fixes.elements else NOT_VERIFIED
    rate = None if fixes.plan is None else format_estimate(fixes.plan.predicted_samples_per_s)
    return pairs(
        (
            ("all fixes", together(analysis)),
            ("kept", f"{', '.join(fixes.codes)}: {verified}"),
            ("tried in", tried),
            ("predicted", rate and f"{rate} {plan_currency(analysis)}".strip()),
        )
    )


def together(analysis: Analysis) -> str:
    """Say what the kept fixes gain together, and the plan with them; empty if none was kept."""
    fixes, plan = analysis.fixes, analysis.recommendation
    if fixes is None or not fixes.codes or fixes.measured_gain is None:
        return ""
    gain = f"together ×{format_estimate(fixes.measured_gain, bare_rate)}"
    if fixes.plan is None:
        return gain
    then = fixes.plan.layout.nodes
    nodes = counted(then, "node")
    if plan is not None:
        nodes = f"still {nodes}" if plan.nodes == then else f"{counted(plan.nodes, 'node')} -> {then}"
    feeds = "" if fixes.plan.meets_demand is not False else f", which {feeding(fixes.plan)}"
    return f"{gain}: the plan becomes {fixes.plan.layout} ({nodes}){feeds}"


def tuning_document(analysis: Analysis) -> Document:
    """Return what `tune` prints: the fixes that were kept, those that were not, and the patch, unbroken: to be copied."""
    fixes = analysis.fixes
    kept = () if fixes is None else fixes.kept(analysis.findings)
    tried = tuple(one for one in analysis.findings if one.edits and one not in kept)
    none = "" if kept or tried else "none of the findings proposes a change that keeps the elements and can be timed"
    others = len(analysis.findings) - len(kept) - len(tried)
    noun = "finding is" if others == 1 else "findings are"
    rest = f"{format_count(others)} more {noun} not tried here: `analyze` shows all" if others else ""
    return Document(
        kind="tuning",
        title="Fixes",
        name=analysis.pipeline.target,
        first=present(
            section(
                "fixes",
                f"Fixes ({len(kept)})",
                *finding_cards(kept, fixes),
                Text(text=none),
                Facts(pairs=(*fixes_facts(analysis), *pairs((("rates", factor_sentence(analysis)),)))),
                Text(text=rest),
                Text(text=ignored_sentence(analysis)),
            ),
            section("tried", f"Not kept ({len(tried)})", *finding_cards(tried, fixes)),
            section("patch", "Patch", *patch_parts(analysis)),
        ),
    )


def patch_parts(analysis: Analysis) -> tuple[Part, ...]:
    """Return what the patch of all kept fixes holds and gains, and the patch, unbroken: to be copied."""
    patch = analysis.fixes.patch if analysis.fixes is not None else None
    if patch is None:
        return ()
    diff = patch.diff if patch.proven and _is_diff(patch.diff) else ""
    label = f"in {one_line(patch.folder)}, with patch -p0 or git apply"
    return (Facts(pairs=_patch_facts(patch)), Copyable(label=label, text=diff))


def _patch_facts(patch: Patch) -> Pairs:
    checked = f"the patched source gives the {_verified_text(patch.verified_elements, patch.pass_elements)}"
    if not patch.proven:
        checked = f"not offered: {patch.unproven_because or 'it was not tried'}"
    elif patch.measured_gain is None:
        checked += f"; its speed was not measured{f': {patch.unproven_because}' if patch.unproven_because else ''}"
    else:
        doubt = "; whether that is more than noise cannot be told" if patch.measured_gain.low <= LEAST_GAIN else ""
        checked += f" at {_times_text(patch.measured_gain)} the rate{doubt}"
    apply = f"cd {shlex.quote(patch.folder)} && patch -p0 < FILE (--write-patch FILE)"
    return pairs(
        (
            ("holds", ", ".join(patch.codes) or "nothing"),
            ("checked", checked),
            *(("by hand", said) for said in patch.by_hand),
            ("apply", apply if patch.diff and patch.proven and _is_diff(patch.diff) else None),
        )
    )


def _is_diff(text: str) -> bool:
    """Return whether a text is a unified diff of files in its folder. `patch` reads others, and some of those run commands."""
    lines = text.split("\n")
    names = [line[4:].split("\t")[0] for line in lines if line.startswith(("--- ", "+++ "))]
    is_inside = all(not name.startswith("/") and ".." not in name.split("/") for name in names)
    return lines[0].startswith("--- ") and is_inside and all(line[:1] in ("", " ", "+", "-", "@", "\\") for line in lines)


def _times_text(gain: Estimate | None) -> str:
    return format_estimate(gain, lambda ratio: format_rate(ratio, "times"))


def _verified_text(elements: int, of: int | None) -> str:
    """Return `same elements, verified on 40 of 64`."""
    if not elements:  # release 0.1 did not save how many
        return "same elements"
    return f"same elements, verified on {format_count(elements)} of {'an unknown number' if of is None else format_count(of)}"
