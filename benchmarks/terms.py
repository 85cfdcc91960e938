"""The value of each term of the capacity model: every gate once more without it.

    python -m benchmarks.terms [--seeds N] [--only NAME,…] [--json OUT]

Of simulated nodes: planned launches with an error of at most 10 %, and inside their interval, its half-width, the median error of
launches of 8 to 64 tasks, the pick over the best. Of quiet hours: inside, half-width, the same plan. Of published curves: the root
mean square of errors between probes. The limits of the bottleneck law always stay.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks import published_scaling, quiet_hours
from benchmarks.paired import arguments, show
from benchmarks.simulated_nodes import __main__ as simulated
from cs_input_analyzer.model.capacity import assumptions, fitting, idle, prediction, probes, rates, worker
from cs_input_analyzer.workflows.probing.results import Results

Patch = Callable[[], contextlib.AbstractContextManager[Any]]


def without(of: Any, name: str, instead: Any) -> Patch:
    return lambda: mock.patch.object(of, name, instead)


def assumed(**changed: float) -> Patch:
    """Return a patch of the assumed numbers, wherever they were imported."""

    @contextlib.contextmanager
    def patched() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for name, value in changed.items():
                before = getattr(assumptions.ASSUMED, name)
                object.__setattr__(assumptions.ASSUMED, name, value)
                stack.callback(object.__setattr__, assumptions.ASSUMED, name, before)
            yield

    return patched


def _both(*patches: Patch) -> Patch:
    @contextlib.contextmanager
    def patched() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch())
            yield

    return patched


def _line(size: float, grown: float, larger: float) -> float:
    return float(np.log(grown) * np.log(larger) / np.log(size))


TERMS: dict[str, Patch] = {
    "nothing": contextlib.nullcontext,
    "the share of other programs": _both(
        without(idle, "kept_ratio", lambda worker, layout: 1.0), without(assumptions, "OTHERS_SHARE", 0.0)
    ),
    "the error of that share": without(assumptions, "OTHERS_SHARE", 0.0),
    "Amdahl's law between probes": without(rates, "_amdahl", _line),
    "error of shapes": assumed(shape=0.0),
    "launch spread": assumed(launch=0.0),
    "process spread": assumed(process=0.0),
    "host spread": assumed(host=0.0, virtual_host=0.0),
    "spreads that are seen": without(rates, "_pooled", lambda squares, degrees, number: number),
    "spread of nodes": without(rates, "_node_spread", lambda launches, process, number: 0.0),
    "slowest of nodes": without(prediction, "slowest_ratio", lambda model, nodes, workers: np.ones(np.shape(workers))),
    "launches that fill the node": without(probes, "full_probes", lambda cluster, cpus, most: ()),
    "next probes": without(probes, "next_probe", lambda model, cluster, cpus, most: None),
    "the plan measured again": without(Results, "has_measured", lambda self, plan: True),
    "ratio of shards": without(fitting, "_shard_ratio", lambda *arguments: fitting.SAME),
    "ceilings of a worker": without(worker, "worker_ceilings", lambda *arguments: ()),
}


def main() -> None:
    options = arguments(__doc__, seeds=(int, 6, "runs of each truth"), only=(str, "", "names of terms, with commas between"))
    chosen = [name.strip() for name in options.only.split(",") if name.strip()] or list(TERMS)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = dict(zip(chosen, pool.map(without_term, chosen, [options.seeds] * len(chosen)), strict=True))
    rows = [(name, *(f"{value:.3f}" for value in row.values())) for name, row in found.items()]
    show("Without …", ("", *next(iter(found.values()))), rows)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n")


def without_term(name: str, seeds: int) -> dict[str, float]:
    """Return the numbers of all gates without a term."""
    with TERMS[name](), _names_of(name):
        return measured(seeds)


def _names_of(name: str) -> contextlib.AbstractContextManager[Any]:
    """Return a patch of the names that the package of the model gives on to the workflows."""
    from cs_input_analyzer.model import capacity

    given_on = {"launches that fill the node": "full_probes", "next probes": "next_probe"}.get(name)
    return mock.patch.object(capacity, given_on, getattr(probes, given_on)) if given_on else contextlib.nullcontext()


def measured(seeds: int) -> dict[str, float]:
    """Return the numbers of all gates, as the model is now."""
    runs = [one for path in sorted(simulated.TRUTHS.glob("*.yaml")) for one in simulated.run(path, range(seeds))]
    nodes = simulated.summary("all", runs)
    hours: dict[str, list[Any]] = {}
    for several in quiet_hours.hours().values():
        seen = quiet_hours.judged(several)
        seen["pairs"] = quiet_hours.agreement(seen["plans"])
        for key, values in seen.items():
            hours.setdefault(key, []).extend(values)
    curve = published_scaling.answer((1, 8), (2, 4))
    return {
        "<=10 %": nodes["planned_error_ok"],
        "inside": nodes["planned_inside"],
        "width": nodes["half_width"],
        "8-64": nodes["rows_error"],
        "pick": nodes["pick"],
        "hours in": float(np.mean(hours["quiet inside"])),
        "hours width": float(np.median(hours["quiet width"])),
        "same plan": float(np.mean([same for same, _ in hours["pairs"]])),
        "curves rms": curve["rms"],
    }


if __name__ == "__main__":
    main()
