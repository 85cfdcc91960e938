"""The launch: what it will do, what that rests on, its alternatives, and the machines that it was planned for."""

from __future__ import annotations

from cs_input_analyzer.records import Alternative, Analysis, Cluster, LaunchPlan, Validation, ValidationRow, feeding
from cs_input_analyzer.report.document import LIMITED_BY, MEETS, PREDICTED, Table, layout, number, rates, table_of, text
from cs_input_analyzer.report.wording import AS_MEASURED, GIVE_A_DEMAND, Pairs, confirming_measurement, one_line, pairs, titled
from cs_input_analyzer.units import (
    MISSING,
    counted,
    format_bytes,
    format_bytes_per_s,
    format_count,
    format_estimate,
    format_rate,
    format_ratio,
)

# What a limit's name means, where it does not say so itself.
LIMITS = {
    "worker scaling": "worker scaling: more CPUs per task add little, so it grows by tasks and nodes",
    "round-robin feed": "round-robin feed: the accelerator takes batches in turn, and waits for the slowest worker",
}
STORAGE = {
    "measured": "measured: the launches read from it",
    "declared": "its ceiling is the declared one",
    "unverified": "unverified: what it gives, or what a sample reads of it, is not known",
}
FEEDS = {
    "round-robin": "in turn: the accelerator waits for the worker whose turn it is",
    "first-come": "first come, first served: the accelerator takes whichever batch is ready",
}
SPEED_BASES = {
    "stated": "as stated",
    "same model": "as both have the same CPU model",
    "reference loop": "by the reference loop",
    "CPU models": "by published scores of both CPU models",
}
SURER = {
    "node": "srun -N1 --exclusive --mem=0 cs_input_analyzer analyze …",
    "node speed": "--node-speed R",
    "threads per core": "--cluster FILE with threads_per_core",
    "launches": "--max-seconds 180",
}
ON_A_NODE = "measure on a node: srun -N1 --exclusive --mem=0 cs_input_analyzer analyze …"
IN_FILE = "in the --cluster file"
# An extrapolation up to this far adds little to the interval.
NEAR = 1.5


def limit_text(name: str) -> str:
    """Return a limit in words: its name, with its meaning if it does not say so itself."""
    return LIMITS.get(name, name)


def plan_facts(plan: LaunchPlan, analysis: Analysis) -> Pairs:
    """Return what the launch will do, and on what that rests."""
    demand, asked = f"unknown: {GIVE_A_DEMAND}", f"{format_ratio(analysis.options.headroom_ratio)} headroom asked for"
    if plan.meets_demand is not None and plan.headroom_ratio is not None:
        demand = f"met ({asked})"
        if not plan.meets_demand:
            demand = f"the launch {feeding(plan)} ({asked}): no launch of this cluster does better, limited by {plan.limited_by}"
    limit, numa_cpus = limit_text(plan.limited_by), analysis.host.numa_cpus
    if numa_cpus and plan.cpus_per_task > numa_cpus:
        spanned = counted(-(-plan.cpus_per_task // numa_cpus), "NUMA node")
        limit += f"; a task of {counted(plan.cpus_per_task, 'CPU')} spans {spanned} of {format_count(numa_cpus)}"
    alone, idle = plan.single_task_nodes, "the chief does not"
    if alone:
        idle = f"{counted(alone, 'node')} {'runs' if alone == 1 else 'run'} a single task that does not"
    beyond = "none: the plan lies inside what was measured"
    if plan.extrapolation_ratio > 1:
        beyond = f"{format_rate(plan.extrapolation_ratio, 'times')} beyond what was measured; the interval is widened for it"
    again, confirming = "not measured again with the planned worker count", confirming_measurement(analysis)
    if confirming is not None:
        again = f"workers measured again with TF_CONFIG of {format_count(confirming.num_workers)} workers"
    return pairs(
        (
            ("predicted", f"{format_estimate(plan.predicted_samples_per_s)}, 90 % interval"),
            ("demand", demand),
            ("limited by", limit),
            ("input workers", f"{format_count(plan.input_workers)} stream ({idle})"),
            ("storage", STORAGE[plan.storage]),
            ("extrapolation", f"{beyond}; {again}"),
        )
    )


def alternatives_table(plan: LaunchPlan, currency: str = "") -> Table:
    """Return other launches, by nodes, with the plan among them. `currency`: the label of their rates."""
    columns = (
        layout(),
        number("workers", "tasks that stream", "input_workers", needs_width=72),
        number("CPUs", "of all nodes together", "layout.cpus", needs_width=92),
        *PREDICTED,
        MEETS,
        LIMITED_BY,
        text("note", "what speaks for it or against it", "note"),
    )
    place, launches = _launches(plan)
    return table_of(titled("Alternatives", currency), columns, launches if plan.alternatives else (), strong=place)


def memory_table(plan: LaunchPlan, cluster: Cluster) -> Table:
    """Return the memory that the workers of a node need, by launch, beside the memory of a node."""
    held = number("memory\nper node", "that the workers of one node need", "memory_bytes_per_node", format_bytes)
    remark = f"A node has {format_bytes(cluster.memory_bytes_per_node)}."
    place, launches = _launches(plan)
    columns = (layout(), held, text("note", "which launch it is", "note"))
    return table_of("Memory of a node", columns, launches, strong=place, remarks=(remark,))


def _launches(plan: LaunchPlan) -> tuple[int, tuple[Alternative, ...]]:
    """Return the place of the plan among its alternatives, by nodes, and all of them."""
    place = sum(other.layout.nodes < plan.nodes or other.is_current for other in plan.alternatives)
    return place, (
        *plan.alternatives[:place],
        Alternative.of(plan, note="the best" if plan.meets_demand is False else "recommended"),
        *plan.alternatives[place:],
    )


def validation_table(validation: Validation) -> Table:
    """Return predicted beside measured rates, and whether the plan holds."""

    def error(row: ValidationRow) -> float | None:  # nothing delivered is no base for one
        return row.error_ratio if row.measured_samples_per_s.estimate else None

    columns = (
        layout(),
        text("role", "all workers of the plan that stream, the part of them that fits here, or a neighbour of either", "role"),
        *rates("predicted\nsamples/s", "what the model said before the launch", "predicted_samples_per_s"),
        *rates("measured\nsamples/s", "what real workers delivered", "measured_samples_per_s"),
        number("error", "(predicted - measured) / measured", error, format_ratio),
        number("launches", "fresh launches behind the measured rate", "measured_samples_per_s.count", needs_width=92),
    )
    count, inside = format_count(len(validation.rows)), format_count(validation.inside_count)
    median = format_ratio(validation.median_error_ratio)
    remarks = [f"median error {median}; {inside} of {count} measured rates lie inside the predicted interval"]
    remarks += ["INTERRUPTED: this holds what was measured until then."] if validation.interrupted else []
    remarks += map(one_line, validation.notes)
    whole, demand = validation.of_plan, validation.demand_samples_per_s
    if whole is not None and demand is not None:
        delivered = whole.measured_samples_per_s.estimate
        said = f"the plan {'holds' if delivered >= demand else 'does not hold'}"
        said = said if validation.is_on_planned_nodes else "on this host, which is not one of the planned nodes"
        remarks.append(f"{said}: it delivered {format_rate(delivered)}, the demand is {format_rate(demand)}")
    return table_of(titled("Validation", AS_MEASURED), columns, validation.rows, remarks=tuple(remarks))


def wafer_facts(analysis: Analysis) -> Pairs:
    """Return what the accelerator takes, and how the plan feeds it; nothing without a demand."""
    consumption, plan = analysis.consumption, analysis.recommendation
    if consumption is None:
        return ()
    used = plan.expected_accelerator_utilization if plan is not None else None
    return pairs(
        (
            ("batch size", "" if consumption.batch_size is None else f"{format_count(consumption.batch_size)} samples in one step"),
            *(("assumed", note) for note in consumption.notes),
            ("accelerator", None if used is None else f"busy {format_estimate(used, format_ratio)} of the time"),
            ("feed", None if used is None else FEEDS[analysis.options.feed]),
        )
    )


def cluster_facts(cluster: Cluster) -> Pairs:
    """Return what is known of the nodes that are planned for, its source, and what an unknown number does to the plan."""
    model = f", {cluster.cpu_model}" if cluster.cpu_model else ""
    size = f"{format_count(cluster.cpus_per_node)} CPUs and {format_bytes(cluster.memory_bytes_per_node)} each"
    speed = f"speed unknown: taken as this host's, interval widened (--node-speed, or {ON_A_NODE})"
    if cluster.speed_ratio is not None and cluster.speed_basis == "this host":
        speed = "that of this host, which measured"
    elif cluster.speed_ratio is not None:
        times = format_estimate(cluster.speed_ratio, lambda value: MISSING if value is None else f"{value:.3g} times")
        speed = f"{times} as fast as one of this host, {SPEED_BASES[cluster.speed_basis]}"
    threads = cluster.threads_per_core
    smt = "none: each CPU is a core" if threads == 1 else f"{format_count(threads)} threads per core: a further one counts less"
    if threads is None:
        unknown = "threads per core unknown: taken as if two were as likely as one, interval widened"
        smt = f"{unknown} (threads_per_core {IN_FILE})"
    moved, link = cluster.memory_bandwidth_bytes_per_s_per_node, cluster.network_bytes_per_s_per_node
    return pairs(
        (
            ("nodes", f"{format_count(cluster.nodes)} of {cluster.name}, {size}{model}"),
            ("node's CPU", speed),
            ("SMT", smt),
            ("memory bandwidth", _bandwidth(moved, "in each node", f"memory_bandwidth {IN_FILE}")),
            ("network", _bandwidth(link, "for each node, in each direction", f"network_per_node {IN_FILE}")),
            ("storage", _bandwidth(cluster.storage_bytes_per_s, "for all nodes together", "--storage-bandwidth")),
            ("known from", cluster.source),
        )
    )


def _bandwidth(bytes_per_s: float | None, of_what: str, said_by: str) -> str:
    if bytes_per_s is None:
        return f"unknown, so it limits nothing here ({said_by})"
    return f"{format_bytes_per_s(bytes_per_s)} {of_what}"


def unknowns(analysis: Analysis, run_file: str) -> Pairs:
    """Return options that would make the plan surer, each with the interval then, or with what it would make known."""
    plan, consumption = analysis.recommendation, analysis.consumption
    samples = analysis.pipeline.samples_per_element
    beyond = plan.extrapolation_ratio if plan is not None else 0.0
    found: list[tuple[str, str]] = []
    if plan is not None:
        now = format_ratio(plan.predicted_samples_per_s.relative_half_width_ratio)
        found += [(SURER[row.how], f"±{now} -> ±{format_ratio(row.half_width_ratio)}") for row in plan.surer if row.how in SURER]
    if consumption is None:
        found.append(("--demand SAMPLES_PER_S", "the accelerator's rate (or --step-time S --batch-size N)"))
    elif consumption.is_extrapolated:
        found.append(("--demand SAMPLES_PER_S", "a measured rate: the wafer model was extrapolated beyond the runs of its fit"))
    if samples is not None and samples.is_unknown:
        found.append(("--samples-per-element N", "how many samples an element holds"))
    if analysis.interrupted or not analysis.measurements:
        found.append(("--max-seconds S", "the rates that were not measured"))
    if beyond > NEAR:
        said = f"the launch: it lies {format_rate(beyond, 'times')} beyond what was measured"
        found.append((f"validate {run_file}".strip(), said))
    if plan is not None and plan.storage == "unverified":
        found.append(("--storage-bandwidth B/s", "what the storage gives to all nodes together"))
    return pairs(found)
