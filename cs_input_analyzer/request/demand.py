"""Resolve the demand: how fast the accelerator consumes, and the wafer's execution mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model.recommend import check_streaming_nodes
from cs_input_analyzer.model.train_command import streams_weights
from cs_input_analyzer.records import Consumption, Options, SamplesPerElement
from wafer_model import WaferModelError, from_compile_report, from_model, from_performance, from_rate, from_step_time
from wafer_model.constants import MODES


def resolved(
    options: Options, *, script: Sequence[str] = (), consumption: Consumption | None = None
) -> tuple[Options, Consumption | None]:
    """Return the options with the one execution mode that all sources agree on, and the demand.

    Args:
        script: the words of the user's command, if the input function is found in a script.
        consumption: a demand that is known already. Without it, that of the options.

    Returns:
        The demand is None if no option gives one, and for a `--wafer` model without `--batch-size`: the pipeline's elements tell.

    Raises:
        UsageError: an invalid demand, or two sources with different modes.
    """
    options = with_mode(options, script, consumption)
    if consumption is None:
        consumption = _consumption_of(options)
        options = with_mode(options, script, consumption)
    check_streaming_nodes(options)
    return options, consumption


def with_pipelines_batch(options: Options, found: SamplesPerElement | None) -> tuple[Options, Consumption]:
    """Return the options and the demand of a `--wafer` model for the batch size of the pipeline's elements.

    Raises:
        UsageError: the batch size is not known, or the model cannot run with it.
    """
    if found is None or found.value is None:
        why = "" if found is None else f" ({found.source})"
        raise UsageError(
            f"--wafer {options.wafer} needs --batch-size: the pipeline does not tell how many samples a batch has{why}"
        )
    consumption = _consumption_of(replace(options, batch_size=found.value))
    assert consumption is not None
    note = f"batch size {found.value}: what one element of the pipeline holds, as no --batch-size was given"
    options, _ = resolved(options, consumption=consumption)
    return options, replace(consumption, notes=(*consumption.notes, note))


def with_mode(options: Options, script: Sequence[str] = (), consumption: Consumption | None = None) -> Options:
    """Return the options with the one mode that all sources agree on, as `wafer_mode`.

    Raises:
        UsageError: no mode of a wafer, or two sources contradict each other.
    """
    typed = None if options.wafer_mode is None else options.wafer_mode.replace("-", "_")
    if typed is not None and typed not in MODES:
        raise UsageError(f"--wafer-mode {options.wafer_mode}: a wafer's modes are {' and '.join(MODES)}")
    is_streaming = streams_weights(script) or streams_weights((options.train_command or "").split())
    said = (
        ("--wafer-mode", typed),
        ("--compile-report", None if options.compile_report is None else "pipelined"),  # written for pipelined networks only
        ("python-ws", "weight_streaming" if is_streaming else None),
        ("the demand", None if consumption is None else consumption.mode),
    )
    by_mode: dict[str, str] = {}
    for name, mode in said:
        if mode is not None:
            by_mode.setdefault(mode, name)
    if len(by_mode) > 1:
        one, other = (f"{name} ({mode.replace('_', ' ')})" for mode, name in by_mode.items())
        raise UsageError(f"{one} and {other} contradict each other: a wafer runs in one mode, leave one of them out")
    return replace(options, wafer_mode=next(iter(by_mode), None))


def _consumption_of(options: Options) -> Consumption | None:
    from wafer_model.network_yaml import load_network
    from wafer_model.systems import find_system

    try:
        if options.wafer is not None and options.batch_size is None:  # check what can be checked before the batch size is known
            load_network(options.wafer, sequence_length=options.sequence_length)
            find_system(options.system or "CS-2")
            return None
        return _from_source(options)
    except WaferModelError as error:
        raise UsageError(str(error)) from None


def _from_source(options: Options) -> Consumption | None:
    from wafer_model.ask import ask
    from wafer_model.vendor_files import read_compile_report, read_performance_json

    mode = options.wafer_mode
    if options.demand_samples_per_s is not None:
        return from_rate(options.demand_samples_per_s, mode=mode)
    if options.step_time_s is not None and options.batch_size is not None:
        return from_step_time(options.step_time_s, options.batch_size, mode=mode)
    if options.compile_report is not None:
        return from_compile_report(read_compile_report(Path(options.compile_report)), system=options.system)
    if options.performance_json is not None:
        performance = read_performance_json(Path(options.performance_json))
        return from_performance(performance, system=options.system, mode=mode)
    if options.wafer is None:
        return None
    return from_model(
        ask(
            options.wafer,
            batch_size=options.batch_size,
            system=options.system or "CS-2",
            mode=mode,
            sequence_length=options.sequence_length,
        )
    )
