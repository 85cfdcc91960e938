"""Find mistakes in options that could be read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from cs_input_analyzer.host import cluster as clusters
from cs_input_analyzer.records import Options
from wafer_model import WaferModelError
from wafer_model.systems import find_system

MIN_SECONDS = 5.0
MIN_START_S = 5.0
# Samples of a step: a thousand times as many as the largest batches that networks were trained with.
MOST_BATCH_SAMPLES = 10**9
# The options that give a demand, and their fields.
SOURCES = {
    "--demand": "demand_samples_per_s",
    "--step-time": "step_time_s",
    "--wafer": "wafer",
    "--compile-report": "compile_report",
    "--performance-json": "performance_json",
}


def problems(options: Options) -> Iterator[str]:
    """Yield the mistakes of single options."""
    for name, count in (
        ("--nodes", options.nodes),
        ("--cpus-per-node", options.cpus_per_node),
        ("--worker-memory", options.worker_memory_bytes),
        ("--slurm-nodes", options.slurm_nodes),
        ("--batch-size", options.batch_size),
        ("--samples-per-element", options.samples_per_element),
    ):
        if count is not None and count < 1:
            yield f"{name} {count}: must be 1 or more"
    for name, count in (("--batch-size", options.batch_size), ("--samples-per-element", options.samples_per_element)):
        if count is not None and count > MOST_BATCH_SAMPLES:
            yield f"{name}: more than {MOST_BATCH_SAMPLES:,} samples is a typing error"
    for name, amount, unit in (
        ("--demand", options.demand_samples_per_s, "samples/s"),
        ("--step-time", options.step_time_s, "seconds"),
    ):
        if amount is not None and not (math.isfinite(amount) and amount > 0):
            yield f"{name} {amount:g}: must be a positive number of {unit}"
    try:
        find_system(options.system or "CS-2")
    except WaferModelError as error:
        yield f"--system: {error}"
    if options.single_task_nodes is not None and options.single_task_nodes < 0:
        yield f"--single-task-nodes {options.single_task_nodes}: must be 0 or more"
    if not 0 < options.target_error_ratio < 1:
        yield f"--target-error {options.target_error_ratio:g}: a ratio between 0 and 1, for example 0.02"
    if not 0 <= options.headroom_ratio <= 10:
        yield f"--headroom {options.headroom_ratio:g}: a ratio of the demand, for example 0.1 for 10 %"
    if not (math.isfinite(options.max_seconds) and options.max_seconds >= MIN_SECONDS):
        yield f"--max-seconds {options.max_seconds:g}: too short to measure anything; give {MIN_SECONDS:g} or more"
    if not (math.isfinite(options.start_timeout_s) and options.start_timeout_s >= MIN_START_S):
        yield f"--start-timeout {options.start_timeout_s:g}: importing TensorFlow alone takes seconds; give {MIN_START_S:g} or more"
    if not (math.isfinite(options.queue_timeout_s) and options.queue_timeout_s > 0):
        yield f"--queue-timeout {options.queue_timeout_s:g}: must be a positive number of seconds"


def contradictions(options: Options) -> Iterator[str]:
    """Yield the contradictions between options, each of which is valid."""
    yield from _of_demand(options)
    far = [layout for layout in options.probe_layouts if layout.nodes != 1 and options.launcher != "slurm"]
    if far:
        yield f"--probe-layouts {far[0]}: this host is one node; --launcher slurm measures on several"
    elif options.probe_layouts and not any(layout.tasks == 1 for layout in options.probe_layouts):
        yield "--probe-layouts needs a layout of one task, for example 1x1x1: the others are compared with it"
    if options.launcher == "slurm":
        return
    only: dict[str, Any] = {"--slurm-nodes": options.slurm_nodes, "--shared-dir": options.shared_dir}
    if options.cluster != clusters.SLURM and not clusters.names_file(options.cluster):
        only |= {"--partition": options.partition, "--exclude-nodes": options.exclude_nodes or None}
    idle = [name for name, value in only.items() if value is not None]
    if idle:
        yield f"{', '.join(idle)}: nothing asks Slurm here; add --launcher slurm, or --cluster slurm to plan alone"


def sources_of(options: Options) -> tuple[str, ...]:
    """Return the options that give a demand, as they are written on the command line."""
    return tuple(name for name, field in SOURCES.items() if getattr(options, field) is not None)


def _of_demand(options: Options) -> Iterator[str]:
    found = sources_of(options)
    if len(found) > 1:
        several = f"{', '.join(found[:-1])} and {found[-1]}"
        yield f"{several} each say how fast the accelerator consumes: give one of them"
    elif options.step_time_s is not None and options.batch_size is None:
        yield "--step-time needs --batch-size: samples per step"
    if options.wafer is None and options.sequence_length is not None:
        yield "--sequence-length describes a --wafer model: name one"
