"""The rules: each is one small function from a Case to findings, and its docstring is the user's page.

The rules are listed in the order of their codes. A rule reports what it found at which op, and the edits that fix it.
This module adds its code, the line of the op, and the user's statement before and after the edits.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model.evidence import more_of_call
from cs_input_analyzer.records import Case, Finding, Op
from cs_input_analyzer.rules import caches, elements, files, maps, memory, order, readers, runs, shards, shuffles, threads
from cs_input_analyzer.tfdata.edits import source_change
from cs_input_analyzer.tfdata.folding import LEAST_ALIKE, call_of
from cs_input_analyzer.tfdata.op_traits import is_made_again

# The topic of each hundred of codes.
TOPICS = {
    "CSI1": "parallelism and order",
    "CSI2": "buffers and caches",
    "CSI3": "sharding and many workers",
    "CSI4": "cost of ops and bytes",
    "CSI5": "environment",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule by its code.

    Attributes:
        text: its documentation; the first line is a summary.
        kept_for: the reason to keep it, in a word.
    """

    code: str
    name: str
    find: Callable[[Case], Iterable[Finding]]
    text: str = ""
    kept_for: str = ""

    @property
    def topic(self) -> str:
        """Return the topic of the rule's code."""
        return TOPICS[self.code[:4]]

    @property
    def first_line(self) -> str:
        """Return the summary of the rule."""
        return self.text.split("\n", 1)[0]


# Code, function, and why the rule is kept. Public pipelines are named as in benchmarks/public_pipelines, reports by their thread on
# GitHub.
_CODES = (
    ("CSI101", maps.serial_map, "seen: yolov3, tensorflow#34936"),
    ("CSI102", maps.parallelism_far_off, "seen: electra, mnasnet, horovod#237"),
    ("CSI103", readers.short_cycle, "storage"),
    ("CSI104", readers.flat_map_over_files, "seen: yolov3; storage"),
    ("CSI105", readers.sequential_reads, "seen: basic-pitch; storage"),
    ("CSI106", maps.map_before_batch, "seen: tensorflow#18784, #40502"),
    ("CSI107", order.order_forced, "seen: basenji, BERT, TF-Ranking"),
    ("CSI108", order.late_filter, "seen: opennmt"),
    ("CSI110", maps.random_calls_in_parallel, "seen: spleeter; wrong training"),
    ("CSI201", order.prefetch_missing, "an accelerator"),
    ("CSI202", caches.cache_missing, "seen: tensorflow#18784"),
    ("CSI204", caches.cache_after_randomness, "wrong training"),
    ("CSI205", caches.cache_misplaced, "the hours after the window: memory grows"),
    ("CSI206", shuffles.shuffle_of_decoded, "seen: yolov3, keras#19502"),
    ("CSI207", shuffles.shuffle_exceeds_shard, "seen: yolov3, simclr, keras#19502"),
    ("CSI208", shuffles.shuffle_too_small, "seen: electra"),
    ("CSI209", shuffles.shuffle_after_batch, "wrong training"),
    ("CSI210", shuffles.repeat_before_shuffle, "seen: simulate, TF-Ranking"),
    ("CSI211", order.slow_first_batch, "seen: transformer, simclr, keras#19502"),
    ("CSI212", shuffles.shuffle_missing, "wrong training"),
    ("CSI213", memory.buffers_exceed_memory, "the hours after the window: memory grows"),
    ("CSI301", shards.fewer_files_than_workers, "many nodes"),
    ("CSI302", order.dataset_ends, "seen: unet, keras_text, yolov3"),
    ("CSI303", shards.no_shard, "seen: tensorflow#59306; many nodes"),
    ("CSI304", shards.shard_after_unseeded_shuffle, "lost data"),
    ("CSI305", shards.late_shard, "seen: DeepLearningExamples#386; many nodes"),
    ("CSI306", files.skewed_file_sizes, "many nodes"),
    ("CSI307", elements.drop_remainder_missing, "seen: six public pipelines; an accelerator"),
    ("CSI308", elements.unknown_shapes, "seen: simulate, opennmt, transformer"),
    ("CSI310", files.path_not_shared, "many nodes"),
    ("CSI311", caches.cache_path_shared, "many nodes"),
    ("CSI312", shards.auto_shard, "many nodes"),
    ("CSI401", elements.python_in_pipeline, "seen: transformer, tensorflow#59306, zea#255"),
    ("CSI402", elements.wide_dtypes, "seen: simulate, opennmt, TF-Ranking"),
    ("CSI403", elements.decode_then_crop, "seen: vit"),
    ("CSI404", files.compression_tradeoff, "seen: basenji, tensorflow#37675"),
    ("CSI405", files.file_count_extreme, "storage"),
    ("CSI407", threads.starved_threads, "many nodes: CPUs of their tasks"),
    ("CSI409", memory.arrays_in_graph, "seen: tensorflow#34936"),
    ("CSI501", runs.corrupt_record, "lost data"),
    ("CSI502", runs.worker_lost, "lost data"),
    ("CSI503", runs.dataset_exceeds_memory, "storage"),
    ("CSI505", runs.cold_cache, "storage"),
    ("CSI506", threads.oversubscribed_cpus, "seen: twelve public pipelines"),
    ("CSI511", runs.errors_ignored, "lost data: tensorflow#37573"),
)
# Rules of earlier releases that were removed, kept for one release: code -> name, reason or replacement.
_GONE: Mapping[str, tuple[str, str]] = {
    "CSI109": ("tiny-maps", "what joining small maps gains was within the error of what was measured; CSI106 batches first"),
    "CSI111": ("python-waits-for-store", "fetch several files together in the function, or interleave several generators"),
    "CSI203": ("file-cache-redirected", "the report lists such writes (`redirected`); CSI311 warns where workers share a path"),
    "CSI309": ("skip-rereads", "CSI211 tells how long the first batch takes, whatever runs before it"),
    "CSI313": ("from-service", "analyze the input function without distribute(...) to see the pipeline of a tf.data service"),
    "CSI406": ("read-buffer-size", "where reads wait, CSI103, CSI104 and CSI105 read more files at a time"),
    "CSI408": ("keras-layers-in-map", "the cost of a map is in the table of ops, whatever its function calls"),
    "CSI504": ("dataset-in-tmp", "the report names the file system of the data; CSI310 warns where a plan has several nodes"),
    "CSI507": ("autotune-sees-host", "the launch lines bind tasks to their CPUs, so that AUTOTUNE counts right"),
    "CSI508": ("tables-disagree", "a figure that another one refutes is left out of the report"),
    "CSI509": ("too-many-threads", "it took the threads from calls that wait, and made pipelines slower"),
    "CSI510": ("slow-build", "the time that the input function takes is in the run (`build_s`)"),
}
RULES = tuple(
    Rule(code, find.__name__.replace("_", "-"), find, inspect.cleandoc(find.__doc__ or ""), kept_for)
    for code, find, kept_for in _CODES
)
_ORDER = {"error": 0, "warning": 1, "info": 2}
# Lost data come before slow ops.
_OF_LOST_DATA = ("CSI304", "CSI501", "CSI502", "CSI511")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sifted:
    """The findings to show: errors first, then those of lost data, then by code.

    Attributes:
        ignored_count: findings left out because a comment in the user's code says so.
    """

    findings: tuple[Finding, ...]
    ignored_count: int


def sift(case: Case, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> Sifted:
    """Return the findings of all rules, without those that options or comments leave out.

    Args:
        case: the input of the rules.
        select: codes, or prefixes of codes, of the rules wanted; empty for all.
        ignore: the same of the rules not wanted. If two prefixes fit a rule the longer decides; `ignore` decides if they are equal.
    """
    wanted = [finding for rule in RULES if is_wanted(rule.code, select, ignore) for finding in findings_of(rule, case)]
    kept = [finding for finding in wanted if not _fits(finding.code, _ignored_at(finding, case))]
    ordered = sorted(kept, key=lambda finding: (_ORDER[finding.severity], finding.code not in _OF_LOST_DATA, finding.code))
    return Sifted(findings=tuple(ordered), ignored_count=len(wanted) - len(kept))


def findings_of(rule: Rule, case: Case) -> list[Finding]:
    """Return the findings of one rule, with code, source line and statement.

    Merge similar findings of one call into one.
    """
    ops, alike = {op.name: op for op in case.pipeline.ops}, dict[Hashable, list[Finding]]()
    for finding in rule.find(case):
        alike.setdefault(_advice(finding, ops), []).append(replace(finding, code=rule.code, rule=rule.name))
    kept = [one for same in alike.values() for one in ([_as_one(same, case)] if _are_of_one_call(same, ops) else same)]
    return [_located(finding, ops.get(finding.op or ""), case) for finding in kept]


def _advice(finding: Finding, ops: Mapping[str, Op]) -> Hashable:
    """Return an equal value for findings that ask for the same change of one call, whatever their numbers and op names."""
    op = ops.get(finding.op or "")
    if op is None or not op.code:
        return object()
    words = re.sub(rf"\b{re.escape(op.name)}\b", "", finding.fix or "").split()
    return call_of(op), tuple(word for word in words if not any(map(str.isdigit, word))), tuple(edit.kind for edit in finding.edits)


def _are_of_one_call(findings: Sequence[Finding], ops: Mapping[str, Op]) -> bool:
    """Return whether one call surely made the ops of these findings, or there are too many for a row each."""
    op = ops.get(findings[0].op or "")
    is_again = len(findings) > 1 and op is not None and is_made_again(op, tuple(ops.values()))
    return is_again or len(findings) >= LEAST_ALIKE


def _as_one(findings: Sequence[Finding], case: Case) -> Finding:
    """Return the most severe finding at the costliest op, with the edits of all findings."""
    shares = {row.name: row.share_ratio or 0.0 for row in case.profile.ops} if case.profile is not None else {}
    first = min(findings, key=lambda finding: (_ORDER[finding.severity], -shares.get(finding.op or "", 0.0)))
    edits = tuple(dict.fromkeys(edit for finding in (first, *findings) for edit in finding.edits))
    return replace(first, message=f"{first.message}{more_of_call(len(findings))}", edits=edits)


def _located(finding: Finding, op: Op | None, case: Case) -> Finding:
    if op is None:
        return finding
    finding = replace(finding, source=finding.source or op.source)
    after = source_change(finding.edits, case.pipeline.ops) if finding.after is None else None
    return finding if after is None else replace(finding, before=op.code, after=after)


def is_wanted(code: str, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> bool:
    """Return whether these options select a rule; see `sift`."""
    return (_fits(code, select) if select else 1) > _fits(code, ignore)


def _fits(code: str, prefixes: Sequence[str]) -> int:
    """Return the length of the longest prefix that the code begins with, 0 if none fits."""
    return max((len(prefix) for prefix in prefixes if code.startswith(prefix.upper())), default=0)


def _ignored_at(finding: Finding, case: Case) -> tuple[str, ...]:
    """Return the codes that comments ignore at the finding's op. If it names none, take the ops of its source line."""
    ops = [op for op in case.pipeline.ops if op.name == finding.op] if finding.op else []
    ops = ops or [op for op in case.pipeline.ops if op.source is not None and op.source == finding.source]
    return tuple(code for op in ops for code in op.ignored)


def check_codes(codes: Sequence[str]) -> tuple[str, ...]:
    """Return the codes or prefixes in capitals. Raise UsageError for one that matches no rule, present or removed."""
    for code in codes:
        if not any(known.startswith(code.upper()) for known in (*(rule.code for rule in RULES), *_GONE)) or not code:
            raise UsageError(_unknown(code))
    return tuple(code.upper() for code in codes)


def gone_among(codes: Iterable[str]) -> str:
    """Return one line about the removed rules among these codes. Return an empty string if there are none."""
    found = sorted({code.upper() for code in codes} & set(_GONE))
    return f"{', '.join(found)}: this rule was removed, so it selects and ignores nothing" if found else ""


def rule_named(text: str) -> Rule:
    """Return the rule of this code or name, in any case. Raise UsageError for an unknown or removed rule.

    The message gives the reason for the removal, or the nearest rules.
    """
    asked = text.strip().lower()
    for rule in RULES:
        if asked in (rule.code.lower(), rule.name):
            return rule
    for code, (name, why) in _GONE.items():
        if asked in (code.lower(), name):
            raise UsageError(f"{code} was removed: {why}")
    raise UsageError(_unknown(text))


def _unknown(text: str) -> str:
    """Return the message about an unknown rule, with rules of a similar name or topic."""
    asked = text.strip().lower()
    known = {key: rule for rule in RULES for key in (rule.name, rule.code.lower())}
    near = [rule for rule in RULES if asked and rule.code.lower().startswith(asked)]
    near = near or [known[key] for key in get_close_matches(asked, known, n=3, cutoff=0.7)]
    near = near or [rule for rule in RULES if asked and asked in rule.text.lower()]
    found = ", ".join(f"{rule.code} ({rule.name})" for rule in near[:6])
    return f"there is no rule {text!r}; {f'did you mean {found}? ' if found else ''}`cs_input_analyzer rules` lists them all"
