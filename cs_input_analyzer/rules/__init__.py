"""Findings: each rule is one small file, its docstring the user's documentation. Pure: a Case in, findings out.

The names of the rules are written out, in order of code; a test checks them against the folder. A rule says what it found at
which op, and which edits mend it; the line of the op, and its code before and after the edits, are filled in here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.pipeline.edits import source_change
from cs_input_analyzer.records import Case, Finding

_NAMES = (
    "serial_map",
    "parallelism_far_off",
    "short_cycle",
    "flat_map_over_files",
    "sequential_reads",
    "map_before_batch",
    "order_forced",
    "late_filter",
    "tiny_maps",
    "prefetch_missing",
    "cache_missing",
    "file_cache_redirected",
    "cache_after_randomness",
    "cache_misplaced",
    "shuffle_of_decoded",
    "shuffle_exceeds_shard",
    "shuffle_too_small",
    "shuffle_after_batch",
    "repeat_before_shuffle",
    "slow_first_batch",
    "fewer_files_than_workers",
    "short_dataset",
    "no_shard",
    "shard_after_unseeded_shuffle",
    "late_shard",
    "skewed_file_sizes",
    "drop_remainder_missing",
    "unknown_shapes",
    "skip_rereads",
    "path_not_shared",
    "python_in_pipeline",
    "wide_dtypes",
    "decode_then_crop",
    "compression_tradeoff",
    "file_count_extreme",
    "read_buffer_size",
    "starved_threads",
    "corrupt_record",
    "worker_lost",
    "dataset_exceeds_memory",
    "dataset_in_tmp",
    "cold_cache",
    "oversubscribed_cpus",
    "autotune_sees_host",
    "tables_disagree",
)
RULES = tuple(import_module(f"{__name__}.{name}") for name in _NAMES)
MOST_NEAR = 6
_ORDER = {"error": 0, "warning": 1, "info": 2}

# What the hundreds of a code say.
TOPICS = {
    "CSI1": "parallelism and order",
    "CSI2": "buffers and caches",
    "CSI3": "sharding and many workers",
    "CSI4": "cost of ops and bytes",
    "CSI5": "environment",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sifted:
    """Findings to show, errors first, then by code; and how many were left out because a comment in the user's code says so."""

    findings: tuple[Finding, ...]
    ignored_count: int


def find(case: Case, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> tuple[Finding, ...]:
    """All findings of all rules, errors first, then by code, but for those that options or comments leave out.

    Args:
        select: codes, or prefixes of codes, of the rules wanted; empty for all.
        ignore: the same of those not wanted. Of two prefixes that fit a rule the longer decides, and `ignore` where they are equal.
    """
    return sift(case, select, ignore).findings


def sift(case: Case, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> Sifted:
    """As `find`, with the number of findings that comments left out."""
    wanted = [finding for rule in RULES if is_wanted(rule.CODE, select, ignore) for finding in findings_of(rule, case)]
    kept = [finding for finding in wanted if not _fits(finding.code, _ignored_at(finding, case))]
    ordered = sorted(kept, key=lambda finding: (_ORDER[finding.severity], finding.code))
    return Sifted(findings=tuple(ordered), ignored_count=len(wanted) - len(kept))


def findings_of(rule: ModuleType, case: Case) -> list[Finding]:
    """What one rule finds, with the source lines and the code of the ops that it names."""
    return [_located(finding, case) for finding in rule.find(case)]


def _located(finding: Finding, case: Case) -> Finding:
    op = next((op for op in case.pipeline.ops if op.name == finding.op), None)
    if op is None:
        return finding
    finding = replace(finding, source=finding.source or op.source)
    after = source_change(finding.edits, case.pipeline.ops) if finding.after is None else None
    return finding if after is None else replace(finding, before=op.code, after=after)


def is_wanted(code: str, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> bool:
    """Whether these options let a rule speak; see `find`."""
    return (_fits(code, select) if select else 1) > _fits(code, ignore)


def _fits(code: str, prefixes: Sequence[str]) -> int:
    """Length of the longest of these that the code begins with; 0 where none fits."""
    return max((len(prefix) for prefix in prefixes if code.startswith(prefix.upper())), default=0)


def _ignored_at(finding: Finding, case: Case) -> tuple[str, ...]:
    """What comments say at the finding's op, or where it names none, at the ops of its source line."""
    ops = [op for op in case.pipeline.ops if op.name == finding.op] if finding.op else []
    ops = ops or [op for op in case.pipeline.ops if op.source is not None and op.source == finding.source]
    return tuple(code for op in ops for code in op.ignored)


def check_codes(codes: Sequence[str]) -> tuple[str, ...]:
    """The codes or prefixes in capitals. Raises UsageError for one that no rule's code begins with."""
    for code in codes:
        if not any(rule.CODE.startswith(code.upper()) for rule in RULES) or not code:
            raise UsageError(_unknown(code))
    return tuple(code.upper() for code in codes)


def rule_named(text: str) -> ModuleType:
    """The rule of this code or name, in any case. Raises UsageError with the nearest ones."""
    for rule in RULES:
        if text.strip().lower() in (rule.CODE.lower(), rule.NAME):
            return rule
    raise UsageError(_unknown(text))


def topic_of(rule: ModuleType) -> str:
    return TOPICS[rule.CODE[:4]]


def first_line(rule: ModuleType) -> str:
    """What the rule is about, in one sentence."""
    return (rule.__doc__ or "").strip().split("\n", 1)[0]


def _unknown(text: str) -> str:
    """The message about a rule that is not there, with the near ones.

    Near are those whose code begins so, else the nearest of the topic, else those whose name is nearly so, else those that speak of
    it.
    """
    asked = text.strip().lower()
    code = re.fullmatch(r"csi([0-9]+)", asked)
    near = [rule for rule in RULES if asked and rule.CODE.lower().startswith(asked)][:MOST_NEAR]
    if not near and code is not None:
        topic = [rule for rule in RULES if rule.CODE.startswith(f"CSI{code[1][0]}")]
        near = sorted(topic, key=lambda rule: abs(int(rule.CODE[3:]) - int(code[1][:3])))[:3]
    elif not near:
        names = {rule.NAME: rule for rule in RULES}
        near = [names[name] for name in get_close_matches(asked, names, n=3, cutoff=0.6)]
        near = near or [rule for rule in RULES if asked and asked in f"{rule.NAME} {rule.__doc__}".lower()][:MOST_NEAR]
    found = ", ".join(f"{rule.CODE} ({rule.NAME})" for rule in near)
    return f"there is no rule {text!r}; {f'did you mean {found}? ' if found else ''}`cs_input_analyzer rules` lists them all"
