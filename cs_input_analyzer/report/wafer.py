"""What `wafer MODEL` prints: the prediction in a few lines, and a table of kernels or blocks with what limits each."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace

from cs_input_analyzer.report.document import Document, TableOf, present, section
from cs_input_analyzer.report.document import Facts as FactsOf
from cs_input_analyzer.report.tables import Column, Table, bare_rate
from cs_input_analyzer.report.wording import Facts, one_line
from cs_input_analyzer.units import MISSING, format_bytes, format_count, format_estimate, format_rate, format_ratio, format_seconds
from wafer_model import from_model
from wafer_model.prediction import KernelRow, WaferPrediction

__all__ = ["wafer_document", "wafer_facts", "wafer_json", "wafer_table"]

_BLOCK = re.compile(r"(?<=block)\d+")


def wafer_document(found: WaferPrediction) -> Document:
    """The prediction in a few lines, and its rows."""
    table = wafer_table(found)
    return Document(
        kind="wafer",
        title="Wafer model",
        name=found.network,
        mark="",
        headline="",
        first=present(section("wafer", table.title, FactsOf(pairs=wafer_facts(found)), TableOf(table=table))),
    )


def wafer_facts(found: WaferPrediction) -> Facts:
    """Label and text of each line, the answer first."""
    basis = f"fitted to {'one measured point of yours' if found.calibrated else 'public runs'}"
    if found.beyond_fit:
        basis = f"extrapolated: {'; '.join(found.beyond_fit)}"
    rate = format_estimate(found.samples_per_s)
    limits = ", ".join(f"{limit.name} {format_rate(limit.samples_per_s)}" for limit in found.limits)
    boxes = f"{format_count(found.systems)} x {found.system}" if found.systems > 1 else found.system
    facts = [
        ("consumes", f"{rate}, 90 % interval, {basis}"),
        *found.choices,
        ("limited by", f"{found.limited_by}, first at {found.limiting_row}"),
        ("limits", limits),
        ("wafer", f"{boxes}, {found.mode}, {found.dtype}, batch size {format_count(found.batch_size)}"),
        (
            "step",
            f"{format_seconds(found.step_s)}, {format_count(found.micro_batches)} micro-batch(es) of {found.micro_batch_size}",
        ),
        ("network", f"{found.network}, {_size(found)}"),
        ("memory", f"{format_bytes(found.memory_bytes)} of one wafer"),
        ("sample", f"{format_bytes(found.sample_bytes)} on the wire, {format_bytes(found.ingress_bytes_per_s)}/s at this rate"),
    ]
    if found.fill_steps is not None:
        filled = (
            f"{format_ratio(found.active_core_ratio)} of the usable cores work; the pipeline is full at step {found.fill_steps}"
        )
        facts.append(("cores", f"{filled}, after {format_seconds(found.fill_s)}"))
    said = " ".join(text for _, text in found.choices)
    facts += [("assumed", note) for note in found.notes if note.removeprefix("weight streaming, because ") not in said]
    return tuple((label, one_line(text)) for label, text in facts)


def wafer_table(found: WaferPrediction) -> Table:
    """One row for each kernel or block; equal blocks of a deep network stand in one row."""
    columns = (
        Column(name="kernel" if found.fill_steps is not None else "block", meaning="a layer, or the equal layers of many blocks"),
        Column(name="times", meaning="how many there are of it", is_number=True),
        Column(name="samples/s", meaning="samples per second that it alone would allow", is_number=True),
        Column(name="compute,\nsamples/s", meaning="what arithmetic alone would allow", is_number=True, needs_width=96),
        Column(name="transmission,\nsamples/s", meaning="what moving activations or weights alone would allow", is_number=True),
        Column(name="cores\neach", meaning="cores that it gets", is_number=True, needs_width=88),
        Column(name="limited by", meaning="which of the two is lower"),
    )
    groups: dict[KernelRow, list[KernelRow]] = {}
    for row in found.rows:
        groups.setdefault(replace(row, name=_BLOCK.sub("*", row.name)), []).append(row)
    rows = tuple(
        (
            one_line(alike.name if len(members) > 1 else members[0].name),
            format_count(len(members)),
            _rate(alike.samples_per_s),
            _rate(alike.compute_samples_per_s),
            _rate(alike.transmission_samples_per_s),
            format_count(alike.cores) if alike.cores is not None else MISSING,
            alike.limited_by or MISSING,
        )
        for alike, members in groups.items()
    )
    names = [{row.name for row in members} for members in groups.values()]
    strong = next((place for place, members in enumerate(names) if found.limiting_row in members), None)
    return Table(title=f"{found.network} on {found.system}, {found.mode}", columns=columns, rows=rows, strong=strong)


def wafer_json(found: WaferPrediction) -> str:
    """The consumption, as it stands in a run, with everything that the model says beside it."""
    return json.dumps({**asdict(found), **asdict(from_model(found))}, indent=1, allow_nan=False) + "\n"


def _size(found: WaferPrediction) -> str:
    length = "" if found.sequence_length is None else f" of {format_count(found.sequence_length)} tokens"
    return f"{format_count(found.parameters)} parameters, {found.training_flops:.3g} FLOPs to train on one sample{length}"


def _rate(samples_per_s: float | None) -> str:
    return bare_rate(samples_per_s) if samples_per_s is not None else MISSING
