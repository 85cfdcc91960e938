"""The criteria for a measured pipeline. Pure: numbers and texts in, verdicts out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from cs_input_analyzer.records import Finding, Op, OpCost

WITHIN = 0.05
GAIN_IS_GONE = 1.0
RESAMPLINGS = 2000
# A row that names more ops than these leaves its reader where he was.
LARGEST_LUMP = 3
MOST_SHARES = 1.3
# Given names of files, these make more ops than the reader.
READERS = ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset")
# TensorFlow's own functions that make many ops of all kinds.
COMPOSED = ("make_csv_dataset(", "make_batched_features_dataset(")
# How the call of an op reads where its kind, in snake case and without `parallel_` and `legacy_`, does not tell.
CALLS = {
    "flat_map": ("flat_map(", "from_generator(", "interleave(", *READERS),
    "generator": ("from_generator(",),
    "tensor": ("from_tensors(", "from_generator("),
    "tensor_slice": ("from_tensor_slices(", "from_tensor_slices)", "list_files(", *READERS),
    "matching_files": ("list_files(",),
    "shuffle": ("shuffle(", "list_files("),
    "tf_record": ("TFRecordDataset",),
    "text_line": ("TextLineDataset",),
    "csv": ("CsvDataset",),
    "group_by_window": ("group_by_window(", "bucket_by_sequence_length("),
    "options": ("with_options(",),
    "batch": ("batch(", "batch_and_drop_remainder("),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A ratio of medians and its 90 % interval."""

    ratio: float
    low: float
    high: float
    pairs: int


def ratio_of_medians(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """Return the ratio of medians of pairs that were measured next to each other.

    The interval comes from resampling whole pairs (percentile bootstrap).

    Raises:
        ValueError: no pair, or numbers of different count.
    """
    if len(above) != len(below) or not above:
        raise ValueError(f"{len(above)} and {len(below)} numbers are no pairs")
    pairs = np.asarray([above, below], dtype=float)
    drawn = np.random.default_rng(0).integers(0, len(above), (RESAMPLINGS, len(above)))
    resampled = np.median(pairs[0][drawn], axis=1) / np.median(pairs[1][drawn], axis=1)
    low, high = np.quantile(resampled, (0.05, 0.95))
    return Ratio(ratio=median(above) / median(below), low=float(low), high=float(high), pairs=len(above))


def verdict(found: Ratio) -> str:
    """Return whether the ratio is one, within the target.

    `met` by the ratio itself, `missed` by its whole interval, else `undecided`.
    """
    if abs(found.ratio - 1) <= WITHIN:
        return "met"
    return "missed" if found.low > 1 + WITHIN or found.high < 1 - WITHIN else "undecided"


def component_at(element: object, path: Sequence[str | int]) -> object:
    """Return the component of a nested element at a path of keys and positions."""
    for key in path:
        element = element[key]  # type: ignore[index]
    return element


def folded(rows: Sequence[OpCost], ops: Sequence[Op]) -> dict[str, float]:
    """CPU seconds per sample of each row; those of ops inside a function are added to the op at the top that calls it."""
    within = {op.name: op.within for op in ops}
    costs: dict[str, float] = {}
    for row in rows:
        name = row.name
        while within.get(name) is not None:
            name = str(within[name])
        costs[name] = costs.get(name, 0.0) + (row.self_cpu_s_per_sample or 0.0)
    return costs


def groups(rows: Sequence[OpCost], ops: Sequence[Op]) -> dict[tuple[str, ...], float]:
    """Return the CPU seconds per sample of each row with a cost, by the ops at the top of the pipeline that it names.

    A row names its op and those that were merged into it. `runtime`, `unattributed` and `restart` name none.
    """
    within = {op.name: op.within for op in ops}
    costs: dict[tuple[str, ...], float] = {}
    for row in rows:
        if not row.self_cpu_s_per_sample:
            continue
        named = (row.name, *(other.name for other in rows if other.merged_into == row.name)) if row.is_op else ()
        tops = set()
        for name in named:
            while within.get(name) is not None:
                name = str(within[name])
            tops.add(name)
        key = tuple(op.name for op in ops if op.name in tops)
        costs[key] = costs.get(key, 0.0) + row.self_cpu_s_per_sample
    return costs


def attributed_ratio(costs: Mapping[tuple[str, ...], float]) -> float | None:
    """Return the share of the CPU that rows of one to `LARGEST_LUMP` ops have. None: there is no CPU to share."""
    total = sum(costs.values())
    return sum(cost for named, cost in costs.items() if 1 <= len(named) <= LARGEST_LUMP) / total if total > 0 else None


def right_ratio(costs: Mapping[tuple[str, ...], float], true_shares: Mapping[str, float]) -> float | None:
    """Return the share of the CPU that stands where it is spent: of each row, at most the true share of the ops that it names."""
    total = sum(costs.values())
    named = [(ops, cost / total) for ops, cost in costs.items() if 1 <= len(ops) <= LARGEST_LUMP] if total > 0 else []
    return sum(min(share, sum(true_shares.get(op, 0.0) for op in ops)) for ops, share in named) if total > 0 else None


def shares(savings: Mapping[str, Sequence[float]], whole: Sequence[float]) -> dict[str, float]:
    """Return each op's true share of the process's CPU: the median of what it saves where it is replaced, over the median whole.

    Return nothing if they add up to more than `MOST_SHARES`: the host was busy, or a copy does more than the original.
    """
    if not whole or median(whole) <= 0:
        return {}
    found = {op: max(0.0, median(saved)) / median(whole) for op, saved in savings.items()}
    return found if sum(found.values()) <= MOST_SHARES else {}


def samples_verdict(said: int | None, is_counted_in_each: bool, sizes: Sequence[int]) -> str:
    """Return whether the said samples are right: the largest of the first elements, and counted in each where they differ."""
    if not sizes:
        return f"said {said}, not checked"
    is_right = said == max(sizes) or (is_counted_in_each and said is None)
    is_right = is_right and (is_counted_in_each or len(set(sizes[:-1])) <= 1)
    manner = ", counted in each" if is_counted_in_each else ""
    return f"right: {max(sizes)}{manner}" if is_right else f"WRONG: {said}{manner}; true {min(sizes)} to {max(sizes)}"


def dearest(savings: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """Return the op whose replacement saves most, then the ops that its rounds do not tell from it.

    The median of the rounds decides. The others save at least as much in two rounds of five.
    """
    if not savings:
        return ()
    order = sorted(savings, key=lambda name: median(savings[name]), reverse=True)
    best = savings[order[0]]
    return tuple(
        name
        for name in order
        if name == order[0] or sum(one >= other for one, other in zip(savings[name], best, strict=True)) >= 0.4 * len(best)
    )


def call_words(kind: str) -> tuple[str, ...]:
    """Return the words that the user's call of an op of this kind may have."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind).lower()
    plain = re.sub(r"^(legacy_)?(parallel_)?(?=[a-z])", "", snake)
    return CALLS.get(plain, (f"{plain}(",))


def line_is_right(kind: str, lines: Sequence[str], number: int) -> bool:
    """Return whether the call of an op of this kind stands at a line, counted from 1.

    An argument of `apply(` may follow below.
    """
    if not 1 <= number <= len(lines):
        return False
    text = lines[number - 1]
    if "apply(" in text or text.rstrip().endswith("("):
        text = " ".join(lines[number - 1 : number + 2])
    return any(word in text for word in (*call_words(kind), *COMPOSED))


def wrong_lines(ops: Sequence[Op], texts: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the ops whose line is missing or wrong, with what stands there. `texts`: the lines of each file, by path.

    An op that was built in a library is right where the library's own line stands beside the user's.
    """
    wrong = []
    for op in ops:
        places = places_of(op)
        if any(line_is_right(op.kind, texts.get(path, ()), line) for path, line in map(_place, places)):
            continue
        path, line = _place(places[0]) if places else ("", 0)
        text = texts.get(path, ())[line - 1].strip() if 1 <= line <= len(texts.get(path, ())) else ""
        wrong.append(f"{op.name} ({op.kind}): {places[0] if places else 'no line'}: {text}")
    return wrong


def places_of(op: Op) -> tuple[str, ...]:
    """`path:line` of the user's call, and that of the library's beside it, where there is one."""
    return tuple(place for place in (op.source, getattr(op, "library_source", None)) if place)


def _place(source: str) -> tuple[str, int]:
    path, _, line = source.rpartition(":")
    return path, int(line) if line.isdigit() else 0


def gains_gone(again: Mapping[str, Ratio]) -> list[str]:
    """Kept fixes that are no gain when measured again: whose interval reaches one."""
    return [name for name, ratio in again.items() if ratio.low <= GAIN_IS_GONE]


def finding_name(finding: Finding) -> str:
    """By which a finding is judged by hand."""
    return f"{finding.code} {finding.op}" if finding.op else finding.code


def judged(findings: Sequence[str], judgements: Mapping[str, tuple[bool, str]]) -> tuple[list[str], list[str], list[str]]:
    """Return the findings that are true, those that are false, and those without a judgement."""
    true = [name for name in findings if name in judgements and judgements[name][0]]
    false = [name for name in findings if name in judgements and not judgements[name][0]]
    return true, false, [name for name in findings if name not in judgements]
