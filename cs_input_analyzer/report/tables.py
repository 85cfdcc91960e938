"""The tables of a report as text cells: the console, the page and their readers get the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cs_input_analyzer.pipeline.op_kinds import is_known
from cs_input_analyzer.records import Alternative, Analysis, Estimate, LaunchPlan, Measurement, Op, OpCost, Validation, WorkerResult
from cs_input_analyzer.report.wording import one_line, parameters_text, workers_text
from cs_input_analyzer.units import (
    MISSING,
    format_bytes,
    format_count,
    format_rate,
    format_rate_short,
    format_ratio,
    format_seconds,
)

# Workers that are told apart by name in a message; more are counted.
WORKERS_NAMED = 5

STATUS_WORDS = {"done": "done", "data_error": "data error", "deadline": "deadline", "interrupted": "interrupted", "lost": "lost"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column.

    Attributes:
        name: the head; a newline in it is where a narrow table may break it.
        meaning: explains the figure.
        is_long: text that is folded rather than cut; `keeps_end`: when it is cut, its end says more than its start.
        needs_width: characters that a line must have for this column to be worth its room; the page always shows it.
    """

    name: str
    meaning: str
    is_number: bool = False
    is_long: bool = False
    keeps_end: bool = False
    needs_width: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of texts.

    Attributes:
        strong: the row that stands out, by its place; None where none does.
        remarks: sentences to put below.
        minor: rows that a console folds into one line, by their places.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: int | None = None
    remarks: tuple[str, ...] = ()
    minor: tuple[int, ...] = ()


LAYOUT = Column(name="layout", meaning="nodes x tasks per node x CPUs per task")
RATE = Column(name="samples/s", meaning="samples per second of all workers together", is_number=True)
INTERVAL = Column(name="90 %\ninterval", meaning="where the true rate lies with 90 % probability", is_number=True)
CPU = Column(
    name="CPU per\nsample", meaning="user and system CPU time of all threads for one sample, the costliest worker", is_number=True
)
SOURCE = Column(name="source", meaning="where your code makes the op", keeps_end=True)


def measured_table(analysis: Analysis) -> Table:
    """Every layout that ran, in the order in which it ran."""
    columns = (
        LAYOUT,
        Column(name="workers", meaning="workers started, of those that TF_CONFIG announced", is_number=True),
        RATE,
        INTERVAL,
        CPU,
        Column(name="first\nbatch", meaning="from the start of iterating to the first batch, the slowest worker", is_number=True),
        Column(name="private\nmemory", meaning="memory that one worker holds alone, the largest of them", is_number=True),
        Column(
            name="peak\nRSS",
            meaning="peak resident memory, shared pages included, the largest worker",
            is_number=True,
            needs_width=92,
        ),
        Column(name="status", meaning="whether the workers lived to the end", is_long=True),
        Column(name="why", meaning="what this layout was to tell", is_long=True, needs_width=132),
    )
    return Table(title="Measured", columns=columns, rows=tuple(_measured_row(item) for item in analysis.measurements))


def _measured_row(measurement: Measurement) -> tuple[str, ...]:
    workers = measurement.workers
    return (
        f"{measurement.layout}{' validate' if measurement.role == 'validate' else ''}",
        workers_text(len(workers), measurement.num_workers),
        *rate_cells(measurement.samples_per_s),
        _largest((worker.cpu_s_per_sample for worker in workers), format_seconds),
        _largest((worker.first_batch_s for worker in workers), format_seconds),
        _largest((worker.private_bytes for worker in workers), format_bytes),
        _largest((worker.peak_rss_bytes for worker in workers), format_bytes),
        _status(workers),
        one_line(measurement.why or MISSING),
    )


def _status(workers: tuple[WorkerResult, ...]) -> str:
    counts: dict[str, int] = {}
    for worker in workers:
        counts[worker.status] = counts.get(worker.status, 0) + 1
    if len(counts) == 1:
        return STATUS_WORDS[next(iter(counts))]
    return ", ".join(f"{count} {STATUS_WORDS[status]}" for status, count in counts.items()) or MISSING


def troubles(analysis: Analysis) -> tuple[str, ...]:
    """One line for each worker that did not end well, with what it said."""
    lines: list[str] = []
    for measurement in analysis.measurements:
        bad = [worker for worker in measurement.workers if worker.status != "done"]
        for worker in bad[:WORKERS_NAMED]:
            said = f": {worker.message.strip()}" if worker.message.strip() else ""
            lines.append(
                f"{measurement.layout}, worker {worker.index} on {one_line(worker.node)}: {STATUS_WORDS[worker.status]}{said}"
            )
        if len(bad) > WORKERS_NAMED:
            lines.append(f"{measurement.layout}: {format_count(len(bad) - WORKERS_NAMED)} more workers did not end well")
    return tuple(lines)


def pipeline_table(analysis: Analysis) -> Table:
    """The ops, sources first; one inside the function of another is indented under its depth."""
    columns = (
        Column(name="op", meaning="in the order in which elements pass; indented: inside the function of the op below"),
        Column(name="parameters", meaning="as TensorFlow holds them", is_long=True),
        SOURCE,
    )
    ops = {op.name: op for op in analysis.pipeline.ops}
    rows = tuple(
        (f"{'  ' * _depth(op, ops)}{one_line(op.name)}", parameters_text(op), source_text(op)) for op in analysis.pipeline.ops
    )
    foreign = tuple(
        f"`{one_line(op.name)}` is of another library (kind {one_line(op.kind)}): its time is measured, what it does is not known"
        for op in analysis.pipeline.ops
        if not is_known(op.kind)
    )
    return Table(title="Pipeline", columns=columns, rows=rows, remarks=foreign)


def source_text(op: Op | OpCost) -> str:
    """The user's line, and beside it that of the package which built the op; of its path, the package and the file are enough."""
    if op.source is None or op.library_source is None:
        return one_line(op.source or MISSING)
    return f"{one_line(op.source)} (in {one_line('/'.join(op.library_source.split('/')[-2:]))})"


def _depth(op: Op, ops: dict[str, Op]) -> int:
    depth = 0
    # An edited file may hold a circle.
    while op.within in ops and depth < len(ops):
        op, depth = ops[op.within], depth + 1
    return depth


MEETS = Column(name="meets\ndemand", meaning="at the low end of the interval, headroom included")
PREDICTED = Column(name="samples/s", meaning="predicted samples per second", is_number=True)
LIMITED_BY = Column(name="limited by", meaning="the resource to add for more", is_long=True)
YES_OR_NO = {True: "yes", False: "no", None: MISSING}


def alternatives_table(plan: LaunchPlan) -> Table:
    """Other layouts, by nodes, with the recommended one among them."""
    columns = (
        LAYOUT,
        Column(name="workers", meaning="tasks that stream", is_number=True, needs_width=72),
        Column(name="CPUs", meaning="of all nodes together", is_number=True),
        PREDICTED,
        INTERVAL,
        MEETS,
        Column(name="memory\nper node", meaning="memory that the workers of one node need", is_number=True, needs_width=92),
        LIMITED_BY,
        Column(name="note", meaning="what speaks for it or against it", is_long=True),
    )
    place = sum(other.layout.nodes < plan.nodes or other.is_current for other in plan.alternatives)
    others = tuple(_alternative_row(other) for other in plan.alternatives)
    if not others:
        return Table(title="Alternatives", columns=columns, rows=())
    recommended = Alternative(
        layout=plan.layout,
        input_workers=plan.input_workers,
        predicted_samples_per_s=plan.predicted_samples_per_s,
        limited_by=plan.limited_by,
        memory_bytes_per_node=plan.memory_bytes_per_node,
        meets_demand=plan.meets_demand,
        note="recommended",
    )
    rows = (*others[:place], _alternative_row(recommended), *others[place:])
    return Table(title="Alternatives", columns=columns, rows=rows, strong=place)


def _alternative_row(other: Alternative) -> tuple[str, ...]:
    return (
        str(other.layout),
        format_count(other.input_workers),
        format_count(other.layout.cpus),
        *rate_cells(other.predicted_samples_per_s),
        YES_OR_NO[other.meets_demand],
        format_bytes(other.memory_bytes_per_node),
        one_line(other.limited_by),
        one_line(other.note),
    )


def what_if_table(plan: LaunchPlan) -> Table:
    """The plans under one change each."""
    columns = (
        Column(name="with", meaning="the one thing that would be different", is_long=True),
        Column(name="layout", meaning="the launch that would be recommended then: nodes x tasks per node x CPUs per task"),
        Column(name="workers", meaning="tasks that stream", is_number=True, needs_width=92),
        PREDICTED,
        INTERVAL,
        MEETS,
        LIMITED_BY,
        Column(name="change", meaning="against the recommended launch", is_long=True),
    )
    rows = tuple(
        (
            one_line(row.name),
            str(row.layout),
            format_count(row.input_workers),
            *rate_cells(row.predicted_samples_per_s),
            YES_OR_NO[row.meets_demand],
            one_line(row.limited_by),
            one_line(row.note),
        )
        for row in plan.what_if
    )
    return Table(title="What if", columns=columns, rows=rows)


def validation_table(validation: Validation) -> Table:
    """Predicted against measured, and how good that is."""
    columns = (
        LAYOUT,
        Column(
            name="role", meaning="all workers of the plan that stream, the part of them that fits here, or a neighbour of either"
        ),
        Column(name="predicted\nsamples/s", meaning="what the model said before the launch", is_number=True),
        INTERVAL,
        Column(name="measured\nsamples/s", meaning="what real workers delivered", is_number=True),
        INTERVAL,
        Column(name="error", meaning="(predicted - measured) / measured", is_number=True),
        Column(name="launches", meaning="fresh launches behind the measured rate", is_number=True, needs_width=92),
    )
    rows = tuple(
        (
            str(row.layout),
            row.role,
            *rate_cells(row.predicted_samples_per_s),
            *rate_cells(row.measured_samples_per_s),
            # Nothing delivered is no base for a relative error.
            format_ratio(row.error_ratio) if row.measured_samples_per_s.estimate else MISSING,
            MISSING if row.measured_samples_per_s.count is None else format_count(row.measured_samples_per_s.count),
        )
        for row in validation.rows
    )
    return Table(title="Validation", columns=columns, rows=rows, remarks=_validation_remarks(validation))


def _validation_remarks(validation: Validation) -> tuple[str, ...]:
    count, inside = format_count(len(validation.rows)), format_count(validation.inside_count)
    error = f"median error {format_ratio(validation.median_error_ratio)}"
    summary = f"{error}; {inside} of {count} measured rates lie inside the predicted interval"
    stopped = ("INTERRUPTED: this holds what was measured until then.",) if validation.interrupted else ()
    return (summary, *stopped, *(one_line(note) for note in validation.notes))


def rate_cells(rate: Estimate | None) -> tuple[str, str]:
    """A rate and its interval, for two columns."""
    if rate is None:
        return MISSING, MISSING
    interval = MISSING if rate.low == rate.high else f"{format_rate_short(rate.low)}–{format_rate_short(rate.high)}"
    return bare_rate(rate.estimate), interval


def bare_rate(value: float | None) -> str:
    """A rate whose unit stands in the column's head."""
    return format_rate(value, "").strip()


def _largest(values: Iterable[float | None], form: Callable[[float | None], str]) -> str:
    """The worst of the workers: what a plan must reckon with."""
    return form(max((value for value in values if value is not None), default=None))
