"""The criteria for an analyzed pipeline. Pure: numbers and texts in, verdicts out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cs_input_analyzer.records import Finding, Op

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


def samples_verdict(said: int | None, is_counted_in_each: bool, sizes: Sequence[int]) -> str:
    """Return whether the said samples are right: the largest of the first elements, and counted in each where they differ."""
    if not sizes:
        return f"said {said}, not checked"
    is_right = said == max(sizes) or (is_counted_in_each and said is None)
    is_right = is_right and (is_counted_in_each or len(set(sizes[:-1])) <= 1)
    manner = ", counted in each" if is_counted_in_each else ""
    return f"right: {max(sizes)}{manner}" if is_right else f"WRONG: {said}{manner}; true {min(sizes)} to {max(sizes)}"


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


def finding_name(finding: Finding) -> str:
    """By which a finding is judged by hand."""
    return f"{finding.code} {finding.op}" if finding.op else finding.code


def judged(findings: Sequence[str], judgements: Mapping[str, tuple[bool, str]]) -> tuple[list[str], list[str]]:
    """Return the findings that are false, and those without a judgement."""
    false = [name for name in findings if name in judgements and not judgements[name][0]]
    return false, [name for name in findings if name not in judgements]
