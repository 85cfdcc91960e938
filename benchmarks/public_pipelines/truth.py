"""Measure one listed pipeline in this process without the analyzer's counting, to judge it by.

Each step takes the pipeline's name and the folders of its checkouts and data.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.in_process import built
from benchmarks.public_pipelines import targets
from benchmarks.public_pipelines.listed import LISTED, Listed

SIZES_S = 5.0


def sizes(name: str, checkouts: str, data: str, elements: int) -> list[int]:
    """Return samples of each of the first elements, by the shape of the listed component. Fewer if time runs out."""
    with _standing_in(name) as listed:
        dataset, _ = built(getattr(targets, name), {"checkouts": checkouts, "data": data})
        samples, until_s = [], time.perf_counter() + SIZES_S
        for element in dataset.take(elements):
            for key in listed.samples:
                element = element[key]
            samples.append(math.prod(element.shape[axis] for axis in listed.axes))
            if time.perf_counter() > until_s:
                break
        return samples


def runs(name: str, checkouts: str, data: str, texts: Mapping[str, str]) -> int:
    """Read two elements with source files that have other texts, by path. What goes wrong is raised."""
    from cs_input_analyzer.tfdata.patched import patched_sources

    for path, text in texts.items():
        compile(text, path, "exec")
    with _standing_in(name), patched_sources(texts):
        patched: Any = importlib.import_module("benchmarks.public_pipelines.targets")
        read = sum(1 for _ in getattr(patched, name)({"checkouts": checkouts, "data": data}).take(2))
    if not read:
        raise ValueError("it gives no element any more")
    return read


@contextlib.contextmanager
def _standing_in(name: str) -> Iterator[Listed]:
    """Yield the listed pipeline, while the packages that it does not need have stand-ins."""
    import tensorflow as tf

    from cs_input_analyzer.worker import capture

    tf.get_logger().setLevel("ERROR")
    listed = next(one for one in LISTED if one.name == name)
    with capture.standing_in(listed.stand_ins, lambda module: None):
        yield listed
