"""Ten scenes of a first screen: what a new user meets, each as the run that shows it.

In each, one screen says how far off the input is, why, on which line, and what to do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from builders import (
    SOURCE,
    make_alternative,
    make_cluster,
    make_consumption,
    make_estimate,
    make_finding,
    make_layout,
    make_measurement,
    make_op_cost,
    make_plan,
    make_profile,
    make_runtime_cost,
    make_station,
)
from page_runs import usual_run

from cs_input_analyzer.records import Analysis, Edit, Fixes, LaunchLines, Options
from cs_input_analyzer.report import render

TODAY = make_layout("1x8x2")
LINES = LaunchLines(
    defaults="nodes: 1\ntasks_per_node: 8\ncpus_per_task: 2",
    csrun_wse="csrun_wse --total-nodes 1 --tasks-per-node 8 --cpus-per-task 2 python run.py --mode=train",
    srun="srun --nodes=1 --ntasks-per-node=8 --cpus-per-task=2 python run.py --mode=train",
    sbatch="#!/bin/bash\n",
)
BEFORE, AFTER = "ds = ds.map(parse)", "ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)"
EDIT = Edit(kind="parallelize", op="map")
SERIAL = make_finding(
    message="map decodes one picture at a time (85 % of the CPU time), and one of 2 CPUs works",
    rule="serial-map",
    before=BEFORE,
    after=AFTER,
    edits=(EDIT,),
    measured_gain=make_estimate(2.9, spread=0.04),
    verified_elements=64,
)
ADVICE: dict[str, Any] = {"measured_gain": None, "proven": False}
NONE: dict[str, Any] = {"findings": (), "fixes": None, "validation": None}


def scene(**given: Any) -> Analysis:
    """A run on a cluster with a demand of a CS-2, judged at the launch in use, without findings or fixes."""
    demand = make_consumption(7_023.0, source="public_run", system="CS-2", mode="pipelined", limited_by="compute")
    return usual_run(**NONE | {"consumption": demand, "confidence": 0.95} | given)


def plan(layout: str = "1x8x2", rate: float = 9_400.0, **given: Any) -> Any:
    """A plan without its alternatives that delivers `rate`."""
    choices: dict[str, Any] = {"single_task_nodes": 0, "launch": LINES, "alternatives": (), "confirmed_by": None}
    return make_plan(layout, **choices | {"predicted_samples_per_s": make_estimate(rate, spread=0.08)} | given)


def fed(**given: Any) -> Analysis:
    """A plan on one node that delivers far more than the demand."""
    best = plan("1x16x2", 154_000.0, fewest_tasks=1, most_tasks=32)
    return scene(verdict="accelerator_bound", recommendation=best, verdict_layout=best.layout, supply=None, **given)


def starved(**given: Any) -> Analysis:
    """The launch in use delivers 37 % of the demand."""
    return scene(
        **{
            "verdict": "input_bound",
            "verdict_layout": TODAY,
            "supply": make_estimate(2_600.0, spread=0.06),
            "options": Options(current=TODAY, demand_samples_per_s=7_023.0),
            "recommendation": plan("3x8x2", 8_100.0),
        }
        | given
    )


def serial_map() -> Analysis:
    then = make_alternative("1x8x2", predicted_samples_per_s=make_estimate(7_900.0, spread=0.05), note="")
    gain = make_estimate(3.1, spread=0.05)
    fixes = Fixes(
        codes=("CSI101",), edits=(EDIT,), measured_gain=gain, layout=make_layout("1x1x2"), plan=then, today=then, elements=64
    )
    at = make_station("serial op", op="map", source=f"{SOURCE}:23", samples_per_s=340.0, utilization_ratio=0.97)
    return starved(findings=(SERIAL,), fixes=fixes, stations=(at,))


def shared_storage() -> Analysis:
    slow = make_cluster(storage_bytes_per_s=4e7)
    best = plan("2x8x2", 2_600.0, limited_by="shared storage", meets_demand=False, probability=0.0, storage="declared")
    return starved(recommendation=best, verdict_layout=best.layout, options=Options(), cluster=slow)


def python_lock() -> Analysis:
    found = make_finding(
        "CSI401",
        rule="python-in-pipeline",
        message="numpy_function runs Python for each sample (93 % of the CPU time); only one thread can run Python",
        op="map",
        fix="use TensorFlow ops, or do it when the dataset is written; until then launch more tasks with 1 CPU each",
        **ADVICE,
    )
    at = make_station("Python (GIL)", op="map", source=f"{SOURCE}:23", samples_per_s=410.0, utilization_ratio=0.99)
    return starved(findings=(found,), stations=(at,), recommendation=plan("1x48x1", 8_900.0))


def heavy_shard() -> Analysis:
    found = make_finding(
        "CSI306",
        rule="skewed-file-sizes",
        message="the largest of 16 files holds 6 times as much as the median one: all workers wait for the one that reads it",
        op="list_files",
        source=f"{SOURCE}:21",
        fix="write files of equal size, or launch with --feed first-come",
        **ADVICE,
    )
    best = plan("2x8x2", 2_600.0, limited_by="round-robin feed", meets_demand=False, probability=0.02)
    at = make_station("slowest shard", source=f"{SOURCE}:21", samples_per_s=325.0, utilization_ratio=1.0)
    return starved(findings=(found,), stations=(at,), recommendation=best, verdict_layout=best.layout)


def trains_wrongly() -> Analysis:
    found = make_finding(
        "CSI303",
        rule="no-shard",
        severity="info",
        message="all 15 workers read the same files",
        op="list_files",
        source=f"{SOURCE}:21",
        fix="add ds.shard(workers, index) behind list_files",
        **ADVICE,
    )
    return fed(findings=(found,))


def cannot_run() -> Analysis:
    today = make_layout("4x7x2")
    why = "28 input workers share 16 files: some would have nothing to stream"
    given = make_alternative("4x7x2", is_current=True, problem=why, note=f"current launch: cannot run as given, {why}")
    return scene(
        verdict="unknown",
        confidence=None,
        verdict_layout=today,
        supply=make_estimate(0.0),
        options=Options(current=today),
        recommendation=plan("1x8x2", 9_400.0, alternatives=(given,)),
    )


def no_demand() -> Analysis:
    best = plan("1x2x1", 94_900.0, meets_demand=None, headroom_ratio=None)
    return scene(consumption=None, verdict="unknown", confidence=None, recommendation=best, verdict_layout=best.layout, supply=None)


def lost_worker() -> Analysis:
    lost = make_measurement("1x4x2", (940.0, 930.0, None, 950.0))
    return fed(measurements=(make_measurement("1x1x2"), lost))


def busy_host() -> Analysis:
    busy = make_finding(
        "CSI506",
        rule="oversubscribed-cpus",
        severity="info",
        message="other programs used half of the CPUs while we measured",
        op=None,
        source=None,
        fix="measure on an idle node",
        **ADVICE,
    )
    return starved(findings=(busy,), profile=make_profile(ops=(make_op_cost("map"), make_runtime_cost())))


SCENES: dict[str, Callable[[], Analysis]] = {
    "serial map": serial_map,
    "shared storage": shared_storage,
    "Python's lock": python_lock,
    "heavy shard": heavy_shard,
    "fed": fed,
    "trains wrongly": trains_wrongly,
    "cannot run": cannot_run,
    "no demand": no_demand,
    "lost worker": lost_worker,
    "busy host": busy_host,
}


if (
    __name__ == "__main__"
):  # python tests/report/scenes.py FOLDER: the page of each scene, to look at and for the pictures of the docs
    for name, run in SCENES.items():
        place = Path(sys.argv[1]) / f"{name.replace(' ', '_')}.html"
        place.write_text(render(run(), "html", run_file="run.json"), encoding="utf-8")
