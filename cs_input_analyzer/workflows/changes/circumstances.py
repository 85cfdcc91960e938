"""Reasons to doubt a comparison: differences besides the pipeline, and hosts that were not equally idle."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from cs_input_analyzer.model.capacity import kept_logs
from cs_input_analyzer.records import OTHER_CACHE_RATIO, Analysis, Difference, Host, Tool
from cs_input_analyzer.tfdata.samples import element_sentence
from cs_input_analyzer.units import format_count, format_ratio
from cs_input_analyzer.workflows.changes.rates import Pair, disturbance_log, mean

# A disturbance that makes a comparison less sure by less is not reported.
SAID_LOG = 0.02


def doubts(old: Analysis, new: Analysis, pairs: Sequence[Pair]) -> tuple[Difference, ...]:
    """Whatever is not as it must be for a difference of the rates to be one of the pipeline."""
    facts = zip(_circumstances(old), _circumstances(new), strict=True)
    found = [Difference(name=name, old=before, new=after) for (name, before), (_, after) in facts if before != after]
    found += [
        Difference(name=f"page cache of {pair.layout}", old=pair.old[0].cache_state, new=pair.new[0].cache_state)
        for pair in pairs
        if pair.old[0].cache_state != pair.new[0].cache_state
    ]
    one, other = (run.storage.cached_ratio if run.storage is not None else None for run in (old, new))
    if one is not None and other is not None and abs(one - other) > OTHER_CACHE_RATIO:
        found.append(Difference(name="cached share of the files", old=format_ratio(one), new=format_ratio(other)))
    sides = ([m for pair in pairs for m in pair.old], [m for pair in pairs for m in pair.new])
    is_known = [bool(kept_logs(side)) for side in sides]
    if is_known[0] != is_known[1]:
        found += _unusual("CPU share of other programs", [None if known else "not recorded" for known in is_known], "recorded")
    for pair in pairs:
        if disturbance_log(pair) > SAID_LOG:
            slowed = [format_ratio(1 - math.exp(mean(kept_logs(side)))) for side in (pair.old, pair.new)]
            before, after = (f"others took {ratio} of the rate" for ratio in slowed)
            found.append(Difference(name=f"host beside {pair.layout}", old=before, new=after))
    found += _unusual("launches that lost workers", [sum(not launch.is_whole for launch in side) for side in sides], "0")
    found += _unusual("interrupted", ["yes" if run.interrupted else None for run in (old, new)], "no")
    return tuple(found)


def _unusual(name: str, sides: Sequence[object], usual: str) -> list[Difference]:
    """Return a row if either side is not as usual; a usual value is falsy."""
    old, new = (str(side or usual) for side in sides)
    return [Difference(name=name, old=old, new=new)] if any(sides) else []


def counted_otherwise(old: Analysis, new: Analysis) -> tuple[str, str] | None:
    """Return the unit that each run counts, if the units differ. Return None if they are equal.

    One may count samples and the other elements, or both may count the same batches as different numbers of samples.
    Then their rates cannot be compared. Return None, too, if one was saved before the unit was recorded.
    """
    one, other = old.pipeline.samples_per_element, new.pipeline.samples_per_element
    if one is None or other is None:
        return None
    is_same = old.pipeline.element_spec == new.pipeline.element_spec and _batches(old) == _batches(new)
    if one.is_unknown == other.is_unknown and not (is_same and one.value != other.value):
        return None
    return element_sentence(one), element_sentence(other)


def _batches(run: Analysis) -> tuple[object, ...]:
    return tuple((op.kind, op.parameters.get("batch_size"), op.parameters.get("batch_sizes")) for op in run.pipeline.ops)


def machine_facts(host: Host, tool: Tool) -> tuple[tuple[str, str], ...]:
    """Return the facts that must be equal for the same code to run as fast, by name."""
    return (
        ("host", host.hostname),
        ("CPU model", host.cpu_model or "unknown"),
        ("CPUs that may be used", str(host.cpu_budget)),
        ("TensorFlow", host.tensorflow_version or "unknown"),
        ("Python", host.python_version),
        ("analyzer", tool.version),
    )


def _circumstances(run: Analysis) -> tuple[tuple[str, str], ...]:
    pipeline, files = run.pipeline, run.pipeline.files
    return (
        ("input function", pipeline.target),
        *machine_facts(run.host, run.tool),
        ("mode", run.options.mode),
        ("input context", "given" if run.options.input_context else "as by default"),
        ("params", _params(run.options.params_json)),
        ("files", "none" if files is None else f"{format_count(files.count)} files, {format_count(files.bytes)} bytes"),
        ("folder of the files", "unknown" if files is None or files.directory is None else files.directory),
        ("batch size", "varies" if pipeline.batch_size is None else str(pipeline.batch_size)),
        ("element", ", ".join(map(str, pipeline.element_spec))),
        ("--cache", run.options.cache),
        ("launcher", run.options.launcher),
    )


def _params(text: str | None) -> str:
    """Return the order of keys is no difference."""
    try:
        return "none" if text is None else json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text or ""
