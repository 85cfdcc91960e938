"""The story of `tune`: an analysis whose fixes were proven, then the same as a patch of the user's source, which is tried as well.

The patched copy is loaded in a worker, its elements are compared with the original's, and both are timed side by side once more.
The user's files are read and never written.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cs_input_analyzer.engines import Launcher
from cs_input_analyzer.pipeline.source.patch import SourcePatch, make_patch, unified_diff
from cs_input_analyzer.records import Analysis, Finding, Fixes, Patch
from cs_input_analyzer.request.request import Request
from cs_input_analyzer.studies.analyze import Progress, analyze
from cs_input_analyzer.studies.probing.probing import Probing
from cs_input_analyzer.studies.probing.seconds import LAUNCH_OVERHEAD_S, LEAST_FIXES_S
from cs_input_analyzer.studies.prove import INTERRUPTED, in_worker, texts_of
from cs_input_analyzer.worker.fixes import Outcome
from cs_input_analyzer.worker.journal import Candidate

# Of the whole budget this much is kept for trying the patched copy; its worker starts beside it.
CHECK_S = LEAST_FIXES_S + LAUNCH_OVERHEAD_S + 4.0


def analyze_and_patch(request: Request, launcher: Launcher, progress: Progress) -> Analysis:
    """An analysis with `fixes.patch`, where there are fixes to keep. Raises as `analysis.analyze`."""
    began_s = launcher.now_s()
    check_s = CHECK_S + launcher.starting_s(1)
    shorter = replace(request.options, max_seconds=max(request.options.max_seconds - check_s, request.options.max_seconds / 2))
    found = analyze(replace(request, options=shorter, is_tuning=True), launcher, progress)
    found = replace(found, options=replace(found.options, max_seconds=request.options.max_seconds))
    fixes = found.fixes
    if fixes is None or not fixes.codes:
        return found
    source, patch = _patch_of(fixes.kept(found.findings))
    why = "no fix is a change of one call in your source" if not source.files else INTERRUPTED if found.interrupted else ""
    if why:
        return replace(found, fixes=replace(fixes, patch=replace(patch, unproven_because=why)))
    left_s = request.options.max_seconds - (launcher.now_s() - began_s)
    options = replace(request.options, max_seconds=max(left_s, CHECK_S + launcher.starting_s(1)))  # it may be known better by now
    probing = Probing(request.target, request.pickled, options, request.host, launcher, progress)
    outcome, is_interrupted = _checked(source, fixes, probing)
    patch = replace(
        patch,
        proven=outcome.is_proven,
        measured_gain=outcome.gain,
        unproven_because=outcome.reason,
        verified_elements=outcome.elements,
        pass_elements=outcome.of,
    )
    fixes_s = found.budget.fixes_s + probing.seconds.budget().fixes_s
    budget = replace(found.budget, fixes_s=fixes_s, total_s=max(found.budget.total_s, launcher.now_s() - began_s))
    return replace(found, fixes=replace(fixes, patch=patch), budget=budget, interrupted=is_interrupted)


def _patch_of(findings: Sequence[Finding]) -> tuple[SourcePatch, Patch]:
    """The change of the user's files, and its record, of which nothing is proven yet."""
    source = make_patch(findings, texts_of(findings))
    folder = _folder_of(source)
    return source, Patch(
        diff=unified_diff(source.files, folder),
        folder=str(folder),
        codes=tuple(dict.fromkeys(finding.code for finding in source.applied)),
        by_hand=tuple(_by_hand(finding, why) for finding, why in source.by_hand),
    )


def _folder_of(source: SourcePatch) -> Path:
    """Where the patch applies: here if all files are below, else the folder that they share."""
    here = Path.cwd()
    paths = [Path(file.path) for file in source.files]
    if all(path.is_relative_to(here) for path in paths):
        return here
    return Path(os.path.commonpath([path.parent for path in paths]))


def _by_hand(finding: Finding, why: str) -> str:
    where = f" at {finding.source}" if finding.source else ""
    return f"{finding.code}{where}: {finding.fix or finding.message} ({why})"


def _checked(source: SourcePatch, fixes: Fixes, probing: Probing) -> tuple[Outcome, bool]:
    """What a worker says of the patched copy, and whether Ctrl-C ended that."""
    texts = tuple((file.path, file.after) for file in source.files)
    found = in_worker([Candidate(name="the patched copy", edits=(), texts=texts)], probing, fixes.layout)
    return found.outcomes.get(0, Outcome(reason=found.why)), found.is_interrupted
