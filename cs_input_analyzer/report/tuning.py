"""What `tune` prints: the fixes that were kept, what they gain, and the patch."""

from __future__ import annotations

import io
import shlex
from typing import TYPE_CHECKING

from cs_input_analyzer.records import LEAST_GAIN, Analysis, Finding, Fixes, Patch
from cs_input_analyzer.report.findings import finding_views, fixes_facts, ignored_sentence
from cs_input_analyzer.report.terminal import console_on, copyable_on, facts_on, heading_on, line_on, text_of
from cs_input_analyzer.report.wording import Facts, one_line, verified_text
from cs_input_analyzer.units import format_count, format_estimate, format_rate

if TYPE_CHECKING:
    from rich.console import Console


def tuning_to_console(analysis: Analysis, *, width: int | None = None, color: bool = False) -> str:
    """The kept fixes, then the patch, unbroken: to be copied."""
    out = io.StringIO()
    console = console_on(out, width, color)
    fixes = analysis.fixes
    kept = tuple(finding for finding in analysis.findings if fixes is not None and _is_kept(finding, fixes))
    _fixes(console, analysis, kept)
    patch = fixes.patch if fixes is not None else None
    if patch is not None:
        _patch(console, patch)
    return text_of(out)


def _is_kept(finding: Finding, fixes: Fixes) -> bool:
    return finding.proven and bool(finding.edits) and set(finding.edits) <= set(fixes.edits)


def _fixes(console: Console, analysis: Analysis, kept: tuple[Finding, ...]) -> None:
    heading_on(console, f"Fixes ({len(kept)})")
    for view in finding_views(kept):
        line_on(console, f"{view.code}: {view.message}", style="bold")
        facts_on(console, view.facts)
    facts = fixes_facts(analysis)
    untried = [finding for finding in analysis.findings if finding.edits] if not facts else []
    for finding in untried:
        line_on(console, f"{finding.code}: {finding.unproven_because or 'its fix was not measured'}")
    if not facts and not untried:
        line_on(console, "none of the findings proposes a change that could be tried")
    facts_on(console, facts)
    others = len(analysis.findings) - len(kept)
    if others:
        noun = "finding is" if others == 1 else "findings are"
        line_on(console, f"{format_count(others)} more {noun} not among them: `analyze` shows all, with what became of each")
    if analysis.ignored_count:
        line_on(console, ignored_sentence(analysis))


def _patch(console: Console, patch: Patch) -> None:
    heading_on(console, "Patch")
    facts_on(console, patch_facts(patch))
    if patch.diff and patch.proven:
        copyable_on(console, f"in {one_line(patch.folder)}, with patch -p0 or git apply", patch.diff)


def patch_facts(patch: Patch) -> Facts:
    """What is in it, how it was checked, and what is left to be done by hand."""
    facts = [("holds", ", ".join(patch.codes) or "nothing"), ("checked", _standing(patch))]
    facts += [("by hand", text) for text in patch.by_hand]
    if patch.diff and patch.proven:
        facts.append(("apply", f"cd {shlex.quote(patch.folder)} && patch -p0 < FILE (--write-patch FILE)"))
    return tuple((label, one_line(text)) for label, text in facts)


def _standing(patch: Patch) -> str:
    if not patch.proven:
        return f"not offered: {patch.unproven_because or 'the patched copy was not tried'}"
    verified = verified_text(patch.verified_elements, patch.pass_elements)
    proof = f"the patched copy gives the {verified}"
    if patch.measured_gain is None:
        return f"{proof}; its speed was not measured again{f': {patch.unproven_because}' if patch.unproven_because else ''}"
    gain = format_estimate(patch.measured_gain, lambda ratio: format_rate(ratio, "times"))
    doubt = "; whether that is more than noise cannot be told" if patch.measured_gain.low <= LEAST_GAIN else ""
    return f"{proof} at {gain} the rate, measured again{doubt}"
