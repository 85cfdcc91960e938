"""Measure one listed pipeline in this process without the analyzer's counting, to judge it by.

    python -m benchmarks.public_pipelines.truth NAME CHECKOUTS DATA STEPS

STEPS is JSON, a list of [label, step, arguments]. The steps are:

- `sizes`: samples of the first elements;
- `runs`: changed source files are loaded, and the first elements read.

What each gives, or why it gave nothing, is printed at once.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.in_process import built, tell
from benchmarks.public_pipelines import targets
from benchmarks.public_pipelines.listed import LISTED, Listed

SIZES_S = 5.0


def sizes(listed: Listed, params: Mapping[str, str], elements: int) -> dict[str, Any]:
    """Return samples of each of the first elements, by the shape of the listed component. Fewer if time runs out."""
    dataset, _ = built(getattr(targets, listed.name), params)
    samples, until_s = [], time.perf_counter() + SIZES_S
    for element in dataset.take(elements):
        for key in listed.samples:
            element = element[key]
        samples.append(math.prod(element.shape[axis] for axis in listed.axes))
        if time.perf_counter() > until_s:
            break
    return {"samples": samples}


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
    listed = next(one for one in LISTED if one.name == name)
    measures = {"sizes": sizes, "runs": runs}
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
