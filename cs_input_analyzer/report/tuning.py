"""What `tune` prints: the fixes that were kept, what they gain, and the patch."""

from __future__ import annotations

import shlex

from cs_input_analyzer.records import LEAST_GAIN, Analysis, Finding, Fixes, Patch
from cs_input_analyzer.report.document import Copyable, Document, Part, Text, present, section
from cs_input_analyzer.report.document import Facts as FactsOf
from cs_input_analyzer.report.findings import fixes_facts, ignored_sentence
from cs_input_analyzer.report.run_document import finding_cards
from cs_input_analyzer.report.wording import Facts, one_line, verified_text
from cs_input_analyzer.units import format_count, format_estimate, format_rate


def tuning_document(analysis: Analysis) -> Document:
    """The kept fixes, then the patch, unbroken: to be copied."""
    fixes = analysis.fixes
    kept = tuple(finding for finding in analysis.findings if fixes is not None and _is_kept(finding, fixes))
    patch = fixes.patch if fixes is not None else None
    return Document(
        kind="tuning",
        title="Fixes",
        name=analysis.pipeline.target,
        mark="",
        headline="",
        first=present(
            section("fixes", f"Fixes ({len(kept)})", *_fixes(analysis, kept)),
            section("patch", "Patch", *_patch(patch)) if patch is not None else None,
        ),
    )


def _is_kept(finding: Finding, fixes: Fixes) -> bool:
    return finding.proven and bool(finding.edits) and set(finding.edits) <= set(fixes.edits)


def _fixes(analysis: Analysis, kept: tuple[Finding, ...]) -> tuple[Part, ...]:
    facts = fixes_facts(analysis)
    untried = [finding for finding in analysis.findings if finding.edits] if not facts else []
    said = [f"{finding.code}: {finding.unproven_because or 'its fix was not measured'}" for finding in untried]
    if not facts and not untried:
        said.append("none of the findings proposes a change that could be tried")
    others, after = len(analysis.findings) - len(kept), []
    if others:
        noun = "finding is" if others == 1 else "findings are"
        after.append(f"{format_count(others)} more {noun} not among them: `analyze` shows all, with what became of each")
    after.append(ignored_sentence(analysis))
    return (*finding_cards(kept), *(Text(text=line) for line in said), FactsOf(pairs=facts), *(Text(text=line) for line in after))


def _patch(patch: Patch) -> tuple[Part, ...]:
    text = patch.diff if patch.proven else ""
    return FactsOf(pairs=patch_facts(patch)), Copyable(label=f"in {one_line(patch.folder)}, with patch -p0 or git apply", text=text)


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
