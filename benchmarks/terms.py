"""The value of each term of the capacity model: every gate once more without it.

    python -m benchmarks.terms [--seeds N] [--only NAME,…] [--json OUT]

Of simulated nodes: planned launches with an error of at most 10 %, and inside their interval, its half-width, the median error of
launches of 8 to 64 tasks, the pick over the best. Of quiet hours: inside, half-width, the same plan. Of published curves: the root
mean square of errors between probes. The limits of the bottleneck law always stay.
"""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np

from benchmarks import published_scaling, quiet_hours
from benchmarks.paired import arguments, save, show
from benchmarks.simulated_nodes import __main__ as simulated
from cs_input_analyzer.model import capacity
from cs_input_analyzer.model.capacity import assumptions, fitting, idle, prediction, probes, rates, scaling, worker
from cs_input_analyzer.workflows.probing.probing import Probing

# Of each patch: the object, the name in it, the value without the term.
Patches = tuple[tuple[Any, str, Any], ...]

WITH_ASSUMED = (import_module("cs_input_analyzer.model.recommend.surer"), worker, idle, rates, scaling)


def assumed(**changed: float) -> Patches:
    """Return the patches of assumed numbers, wherever they were imported."""
    return tuple((module, "ASSUMED", replace(assumptions.ASSUMED, **changed)) for module in WITH_ASSUMED)


def without_call(name: str, instead: Any) -> Patches:
    """Return the patches of a function that the package of the model gives on to the workflows."""
    return (probes, name, instead), (capacity, name, instead)


def _line(size: float, grown: float, larger: float) -> float:
    return float(np.log(grown) * np.log(larger) / np.log(size))


TERMS: dict[str, Patches] = {
    "nothing": (),
    "the share of other programs": (
        (idle, "kept_ratio", lambda worker, layout: 1.0),
        (assumptions, "OTHERS_SHARE", 0.0),
    ),
    "the error of that share": ((assumptions, "OTHERS_SHARE", 0.0),),
    "Amdahl's law between probes": ((rates, "_amdahl", _line),),
    "error of shapes": assumed(shape=0.0),
    "launch spread": assumed(launch=0.0),
    "process spread": assumed(process=0.0),
    "host spread": assumed(host=0.0, virtual_host=0.0),
    "spreads that are seen": ((rates, "_pooled", lambda squares, degrees, number: number),),
    "spread of nodes": ((rates, "_node_spread", lambda launches, process, number: 0.0),),
    "slowest of nodes": ((prediction, "slowest_ratio", lambda model, nodes, workers: np.ones(np.shape(workers))),),
    "launches that fill the node": without_call("full_probes", lambda cluster, cpus, most: ()),
    "next probes": without_call("next_probe", lambda model, cluster, cpus, most: None),
    "the plan measured again": ((Probing, "has_measured", lambda self, plan, cluster: True),),
    "ratio of shards": ((fitting, "_shard_ratio", lambda *arguments: fitting.SAME),),
    "ceilings of a worker": ((worker, "worker_ceilings", lambda *arguments: ()),),
}


def main() -> None:
    options = arguments(__doc__, seeds=(int, 6, "runs of each truth"), only=(str, "", "names of terms, with commas between"))
    chosen = [name.strip() for name in options.only.split(",") if name.strip()] or list(TERMS)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = dict(zip(chosen, pool.map(without_term, chosen, [options.seeds] * len(chosen)), strict=True))
    rows = [(name, *(f"{value:.3f}" for value in row.values())) for name, row in found.items()]
    show("Without …", ("", *next(iter(found.values()))), rows)
    save(options.json, found)


def without_term(name: str, seeds: int) -> dict[str, float]:
    """Return the numbers of all gates without a term."""
    with contextlib.ExitStack() as patches:
        for patch in TERMS[name]:
            patches.enter_context(mock.patch.object(*patch))
        return measured(seeds)


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
