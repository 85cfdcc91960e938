"""The report of `wafer MODEL`: the prediction in a few lines, and a table of kernels or blocks with the limit of each."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace

from cs_input_analyzer.report.document import Document, Facts, Table, bare_rate, number, present, section, table_of, text
from cs_input_analyzer.report.wording import Pairs, pairs
from cs_input_analyzer.units import format_bytes, format_count, format_estimate, format_rate, format_ratio, format_seconds
from wafer_model import from_model
from wafer_model.prediction import KernelRow, WaferPrediction

_BLOCK = re.compile(r"(?<=block)\d+")


def wafer_document(found: WaferPrediction) -> Document:
    """Return the report of a prediction of the wafer model."""
    only = section("wafer", "", Facts(pairs=wafer_facts(found)), wafer_table(found))
    return Document(kind="wafer", title="Wafer model", name=found.network, first=present(only))


def wafer_facts(found: WaferPrediction) -> Pairs:
    """Return the predicted rate, its limit, and its basis."""
    basis = f"fitted to {'one measured point of yours' if found.calibrated else 'public runs'}"
    if found.beyond_fit:
        basis = f"extrapolated: {'; '.join(found.beyond_fit)}"
    boxes = f"{format_count(found.systems)} x {found.system}" if found.systems > 1 else found.system
    length = "" if found.sequence_length is None else f" of {format_count(found.sequence_length)} tokens"
    size = f"{format_count(found.parameters)} parameters, {found.training_flops:.3g} FLOPs to train on one sample{length}"
    cores = f"{format_ratio(found.active_core_ratio)} of the usable cores work; the pipeline is full at step {found.fill_steps}"
    step = f"{format_seconds(found.step_s)}, {format_count(found.micro_batches)} micro-batch(es) of {found.micro_batch_size}"
    return pairs(
        (
            ("consumes", f"{format_estimate(found.samples_per_s)}, 90 % interval, {basis}"),
            ("limited by", f"{found.limited_by}, first at {found.limiting_row}"),
            ("limits", ", ".join(f"{limit.name} {format_rate(limit.samples_per_s)}" for limit in found.limits)),
            ("wafer", f"{boxes}, {found.mode}, {found.dtype}, batch size {format_count(found.batch_size)}"),
            ("step", step),
            ("network", f"{found.network}, {size}"),
            ("memory", f"{format_bytes(found.memory_bytes)} of one wafer"),
            ("sample", f"{format_bytes(found.sample_bytes)} on the wire, {format_bytes(found.ingress_bytes_per_s)}/s at this rate"),
            ("cores", None if found.fill_steps is None else f"{cores}, after {format_seconds(found.fill_s)}"),
            *(("assumed", note) for note in found.notes),
        )
    )


def wafer_table(found: WaferPrediction) -> Table:
    """Return a row for each kernel or block; equal blocks of a deep network share one."""
    groups: dict[KernelRow, list[KernelRow]] = {}
    for row in found.rows:
        groups.setdefault(replace(row, name=_BLOCK.sub("*", row.name)), []).append(row)
    alike = [(members[0] if len(members) == 1 else one, members) for one, members in groups.items()]
    transmission = "what moving activations or weights alone would allow"
    columns = (
        text("kernel" if found.fill_steps is not None else "block", "a layer, or equal layers", lambda at: at[0].name),
        number("times", "how many there are of it", lambda at: len(at[1])),
        number("samples/s", "samples per second that it alone would allow", lambda at: at[0].samples_per_s, bare_rate),
        number("compute,\nsamples/s", "by arithmetic alone", lambda at: at[0].compute_samples_per_s, bare_rate, needs_width=96),
        number("transmission,\nsamples/s", transmission, lambda at: at[0].transmission_samples_per_s, bare_rate),
        number("cores\neach", "cores that it gets", lambda at: at[0].cores, needs_width=88),
        text("limited by", "which of the two is lower", lambda at: at[0].limited_by),
    )
    names = [{row.name for row in members} for _, members in alike]
    strong = next((place for place, members in enumerate(names) if found.limiting_row in members), None)
    return table_of(f"{found.network} on {found.system}, {found.mode}", columns, alike, strong=strong)


def wafer_json(found: WaferPrediction) -> str:
    """Return the consumption as it stands in a run, with everything that the model says beside it."""
    return json.dumps({**asdict(found), **asdict(from_model(found))}, indent=1, allow_nan=False) + "\n"
