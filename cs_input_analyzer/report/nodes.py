"""Launches over several nodes: what each node and each worker gave, who stayed behind, and how the storage that they share held
out."""

from __future__ import annotations

from collections.abc import Sequence

from cs_input_analyzer.records import Analysis, Measurement, Scaling, WorkerResult
from cs_input_analyzer.report.tables import INTERVAL, RATE, STATUS_WORDS, Column, Table, rate_cells
from cs_input_analyzer.report.wording import Facts, one_line
from cs_input_analyzer.units import MISSING, format_bytes_per_s, format_count, format_rate, format_ratio, format_seconds

# Workers that have a row of their own; of more the nodes are shown, and the CSV has all.
MOST_WORKERS = 64
NAMED = 5


def shown_launch(analysis: Analysis) -> Measurement | None:
    """The last launch over the most nodes; None where all ran on one."""
    several = [m for m in analysis.measurements if m.layout.nodes > 1]
    most = max((m.layout.nodes for m in several), default=0)
    return next((m for m in reversed(several) if m.layout.nodes == most), None)


def node_facts(analysis: Analysis) -> Facts:
    """Who stayed behind, how far apart the workers began, what the engine noted, what the storage gave."""
    launch = shown_launch(analysis)
    facts = []
    if launch is not None:
        facts.append(("stragglers", straggler_text(launch)))
        if launch.start_skew_s is not None:
            facts.append(
                ("begin", f"{format_count(len(launch.workers))} workers began within {format_seconds(launch.start_skew_s)}")
            )
    if analysis.scaling is not None:
        facts.append(("storage", analysis.scaling.note))
    notes = dict.fromkeys(note for measurement in analysis.measurements for note in measurement.notes)
    facts += [("note", note) for note in notes]
    return tuple((label, one_line(text)) for label, text in facts)


def straggler_text(launch: Measurement) -> str:
    """Names them, whole nodes first."""
    slow = launch.stragglers
    if not slow:
        return "none: no worker lies clearly below the others"
    by_node = _by_node(slow)
    everyone = _by_node(launch.measured_workers)
    whole = [node for node, workers in by_node.items() if len(workers) == len(everyone[node])]
    parts = [
        f"all {format_count(len(by_node[node]))} workers on {node}" if len(by_node[node]) > 1 else f"the worker on {node}"
        for node in whole
    ]
    parts += [f"worker {worker.index} on {worker.node}" for worker in slow if worker.node not in whole]
    more = f" and {format_count(len(parts) - NAMED)} more" if len(parts) > NAMED else ""
    return f"{', '.join(parts[:NAMED])}{more}: clearly slower than the others, and a feed in turn waits for them"


def node_table(launch: Measurement) -> Table:
    """One row for each node of a launch."""
    columns = (
        Column(name="node", meaning="as Slurm calls it"),
        Column(name="workers", meaning="that delivered, of those started there", is_number=True),
        RATE,
        Column(name="slowest\nworker", meaning="samples per second of the slowest worker there", is_number=True),
        Column(name="fastest\nworker", meaning="samples per second of the fastest worker there", is_number=True),
        Column(name="CPU per\nsample", meaning="the costliest worker", is_number=True),
        Column(
            name="clock\nahead",
            meaning="of the launcher's, as measured; the window is corrected by it",
            is_number=True,
            needs_width=92,
        ),
    )
    rows = tuple(_node_row(node, workers) for node, workers in sorted(_by_node(launch.workers).items()))
    return Table(title=f"Nodes of {launch.layout}", columns=columns, rows=rows)


def _node_row(node: str, workers: Sequence[WorkerResult]) -> tuple[str, ...]:
    rates = [worker.samples_per_s.estimate for worker in workers if worker.samples_per_s is not None]
    costs = [worker.cpu_s_per_sample for worker in workers if worker.cpu_s_per_sample is not None]
    ahead = next((worker.clock_ahead_s for worker in workers if worker.clock_ahead_s is not None), None)
    return (
        one_line(node),
        f"{format_count(len(rates))} of {format_count(len(workers))}",
        format_rate(sum(rates)) if rates else MISSING,
        format_rate(min(rates)) if rates else MISSING,
        format_rate(max(rates)) if rates else MISSING,
        format_seconds(max(costs)) if costs else MISSING,
        MISSING if ahead is None else _signed_seconds(ahead),
    )


def _signed_seconds(seconds: float) -> str:
    return f"{'-' if seconds < 0 else '+'}{format_seconds(abs(seconds))}"


def worker_table(launch: Measurement) -> Table | None:
    """One row for each worker of a launch; None where they are too many to read."""
    if len(launch.workers) > MOST_WORKERS:
        return None
    columns = (
        Column(name="worker", meaning="TF_CONFIG index", is_number=True),
        Column(name="node", meaning="where it ran"),
        RATE,
        INTERVAL,
        Column(name="CPU per\nsample", meaning="of all its threads", is_number=True),
        Column(name="first\nbatch", meaning="from the start of iterating to the first batch", is_number=True),
        Column(name="status", meaning="whether it lived to the end", is_long=True),
    )
    slow = {worker.index for worker in launch.stragglers}
    return Table(
        title=f"Workers of {launch.layout}", columns=columns, rows=tuple(_worker_row(worker, slow) for worker in launch.workers)
    )


def _worker_row(worker: WorkerResult, slow: set[int]) -> tuple[str, ...]:
    return (
        format_count(worker.index),
        one_line(worker.node),
        *rate_cells(worker.samples_per_s),
        MISSING if worker.cpu_s_per_sample is None else format_seconds(worker.cpu_s_per_sample),
        MISSING if worker.first_batch_s is None else format_seconds(worker.first_batch_s),
        f"{STATUS_WORDS[worker.status]}{', straggler' if worker.index in slow else ''}",
    )


def scaling_table(scaling: Scaling) -> Table:
    """The same workers on more and more nodes."""
    columns = (
        Column(name="nodes", meaning="that ran at once", is_number=True),
        Column(name="workers", meaning="on all of them", is_number=True),
        RATE,
        INTERVAL,
        Column(name="read", meaning="bytes per second that all workers asked for together", is_number=True),
        Column(name="per node", meaning="of the rate per node on the fewest", is_number=True),
        Column(
            name="waiting", meaning="share of their CPUs' time in which workers neither ran nor queued for a CPU", is_number=True
        ),
    )
    first = scaling.points[0]
    alone = first.samples_per_s.estimate / first.nodes if first.nodes else 0.0
    rows = tuple(
        (
            format_count(point.nodes),
            format_count(point.workers),
            *rate_cells(point.samples_per_s),
            MISSING if point.bytes_per_s is None else format_bytes_per_s(point.bytes_per_s.estimate),
            format_ratio(point.samples_per_s.estimate / point.nodes / alone) if alone > 0 and point.nodes else MISSING,
            MISSING if point.wait_ratio is None else format_ratio(point.wait_ratio),
        )
        for point in scaling.points
    )
    return Table(title="More nodes", columns=columns, rows=rows)


def node_tables(analysis: Analysis) -> tuple[Table, ...]:
    """All tables of this page; none where everything ran on one node."""
    launch = shown_launch(analysis)
    tables = [scaling_table(analysis.scaling)] if analysis.scaling is not None and analysis.scaling.points else []
    if launch is not None:
        tables.append(node_table(launch))
        workers = worker_table(launch)
        tables += [workers] if workers is not None else []
    return tuple(tables)


def _by_node(workers: Sequence[WorkerResult]) -> dict[str, list[WorkerResult]]:
    found: dict[str, list[WorkerResult]] = {}
    for worker in workers:
        found.setdefault(worker.node, []).append(worker)
    return found
