"""Measures one listed pipeline in this process without the analyzer's counting, costs and gains: to judge them by.

    python -m benchmarks.public_pipelines.truth NAME CHECKOUTS DATA STEPS

STEPS is JSON, a list of [label, step, arguments]. The steps are:

- `rates`: a bare loop in the graph that counts samples by itself, against the analyzer's worker;
- `sizes`: samples of the first elements;
- `savings`: CPU that is saved where an op is replaced by elements that are ready;
- `again`: fixes timed anew;
- `runs`: changed source files are loaded, and the first elements read.

What each gives, or why it gave nothing, is printed at once.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.in_process import built, reported, tell
from benchmarks.public_pipelines import targets
from benchmarks.public_pipelines.drawn import DRAWN
from benchmarks.public_pipelines.judging import component_at
from benchmarks.public_pipelines.listed import LISTED, Listed
from benchmarks.public_pipelines.reading import Reading, settle
from benchmarks.public_pipelines.replaced import savings

FILLING_S = 10.0
SIZES_S = 5.0
# So many whole passes fit into a window, where passes are short.
PASSES = 5


def rates(listed: Listed, params: Mapping[str, str], pairs: int, seconds: float) -> dict[str, Any]:
    """Return the samples/s that a worker reports, beside those of the bare loop; of pairs whose order is turned every time.

    If the analyzer does not know the samples of an element, it gets them as an option, as from its user.
    """
    from dataclasses import replace

    from cs_input_analyzer.tfdata.samples import samples_per_element_of
    from cs_input_analyzer.worker.sampling import shapes_of

    dataset, pipeline = built(getattr(targets, listed.name), params)
    reading = Reading(dataset, listed)
    reading.take(2)
    first = next(iter(dataset))
    true = math.prod(component_at(first, listed.samples).shape[axis] for axis in listed.axes)  # type: ignore[attr-defined]
    said = samples_per_element_of(pipeline.ops, pipeline.element_spec, seen=shapes_of(first))
    counted = replace(said, value=true) if said.is_unknown else said
    reading.for_seconds(2 * seconds)
    # A window that cuts passes in the middle has too many or too few of their beginnings, in which buffers fill.
    is_passes = reading.passes > 1
    if is_passes:
        samples, took_s = reading.for_passes(0.0)
        seconds = max(seconds, PASSES * took_s)
    ours: list[tuple[float, float]] = []
    bare: list[tuple[float, float]] = []
    for pair in range(pairs):
        for is_ours in (False, True) if pair % 2 else (True, False):
            reading.for_seconds(seconds / 4)
            if is_ours:
                # A pass would end in the middle, and another loop goes on with the iterator.
                iterator = reading.iterator if pipeline.cardinality is None else iter(dataset)
                ours.append(reported(dataset, iterator, pipeline.ops, counted, seconds))
            else:
                began_s = time.process_time()
                samples, took_s = reading.for_passes(seconds) if is_passes else reading.for_seconds(seconds)
                bare.append((samples / took_s, (time.process_time() - began_s) / samples))
    return {
        "reported": [rate for rate, _ in ours],
        "bare": [rate for rate, _ in bare],
        "reported_cpu_s": [cpu_s for _, cpu_s in ours],
        "bare_cpu_s": [cpu_s for _, cpu_s in bare],
    }


def sizes(listed: Listed, params: Mapping[str, str], elements: int) -> dict[str, Any]:
    """Return samples of each of the first elements, by the shape of the listed component. Fewer if time runs out."""
    dataset, _ = built(getattr(targets, listed.name), params)
    samples, until_s = [], time.perf_counter() + SIZES_S
    for element in dataset.take(elements):
        shape = component_at(element, listed.samples).shape  # type: ignore[attr-defined]
        samples.append(math.prod(shape[axis] for axis in listed.axes))
        if time.perf_counter() > until_s:
            break
    return {"samples": samples}


# --- again, runs --------------------------------------------------------------------------------------------------------------


def again(
    listed: Listed, params: Mapping[str, str], fixes: Mapping[str, Sequence[Mapping[str, Any]]], rounds: int, seconds: float
) -> dict[str, Any]:
    """Samples/s of the original and of each fix, by name, of rounds in which each has its turn."""
    from cs_input_analyzer.records import Edit
    from cs_input_analyzer.tfdata.edits import apply

    dataset, _ = built(getattr(targets, listed.name), params)
    readings, refused = {"original": Reading(dataset, listed)}, {}
    for name, edits in fixes.items():
        try:
            readings[name] = Reading(apply(dataset, [Edit(**edit) for edit in edits]), listed)
        except Exception as error:
            refused[name] = f"{type(error).__name__}: {str(error)[:300]}"
    found: dict[str, list[float]] = {name: [] for name in readings}
    for reading in readings.values():
        reading.take(2)
        reading.for_seconds(FILLING_S if len(readings) > 1 else 0.1)  # a cache must be full
    draw = random.Random(0)
    for _ in range(rounds if len(readings) > 1 else 0):
        for name in draw.sample(list(readings), len(readings)):
            settle()
            readings[name].for_seconds(seconds / 3)
            samples, took_s = readings[name].for_seconds(seconds)
            found[name].append(samples / took_s)
    return {"rates": found, "refused": refused}


def runs(listed: Listed, params: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, Any]:
    """Read two elements with source files that have other texts, by path. What goes wrong is raised."""
    import importlib

    from cs_input_analyzer.tfdata.patched import patched_sources

    for path, text in texts.items():
        compile(text, path, "exec")
    with patched_sources(texts):
        patched = importlib.import_module("benchmarks.public_pipelines.targets")
        dataset = getattr(patched, listed.name)(params)
        read = sum(1 for _ in dataset.take(2))
    if not read:
        raise ValueError("it gives no element any more")
    return {"elements": read}


def main() -> None:
    name, checkouts, data, steps = sys.argv[1:]
    import tensorflow as tf

    from cs_input_analyzer.worker import capture

    tf.get_logger().setLevel("ERROR")
    listed = next(one for one in (*LISTED, *DRAWN) if one.name == name)
    measures = {"rates": rates, "sizes": sizes, "savings": savings, "again": again, "runs": runs}
    with capture.standing_in(listed.stand_ins, lambda module: None):
        for label, step, arguments in json.loads(steps):
            try:
                said = {"found": measures[step](listed, {"checkouts": checkouts, "data": data}, **arguments)}
            except Exception as error:  # one that fails says nothing about the others
                said = {"problem": f"{type(error).__name__}: {str(error)[:400]}"}
            tell({"label": label, **said})
    os._exit(0)  # interpreters with Python functions in running pipelines are known to hang at shutdown


if __name__ == "__main__":
    main()
