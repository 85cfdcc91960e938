"""Options -> Consumption: how fast the accelerator consumes, from whichever source the user names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.planning.train_command import streams_weights
from cs_input_analyzer.records import Consumption, Options, SamplesPerElement
from wafer_model import WaferModelError, from_compile_report, from_model, from_performance, from_rate, from_step_time
from wafer_model.constants import MODES

# What says how fast the accelerator consumes: as it is written on the command line, and its field of the options.
SOURCES = {
    "--demand": "demand_samples_per_s",
    "--step-time": "step_time_s",
    "--wafer": "wafer",
    "--compile-report": "compile_report",
    "--performance-json": "performance_json",
}


def consumption_of(options: Options) -> Consumption | None:
    """The demand by the one source that was named; None without any, and of a `--wafer` model without `--batch-size`, for which the
    pipeline must be seen first. Raises UsageError for one that cannot be."""
    from wafer_model.network_yaml import load_network
    from wafer_model.systems import find_system

    try:
        if options.wafer is not None and options.batch_size is None:  # what can be wrong before it is known is raised here
            load_network(options.wafer, sequence_length=options.sequence_length)
            find_system(options.system or "CS-2")
            return None
        return _consumption_of(options)
    except WaferModelError as error:
        raise UsageError(str(error)) from None


def with_pipelines_batch(options: Options, found: SamplesPerElement | None) -> Consumption | None:
    """The demand of a `--wafer` model that was given no `--batch-size`: of what one element of the pipeline holds.

    Raises:
        UsageError: the pipeline does not tell, or the model cannot run that.
    """
    if found is None or found.value is None:
        why = "" if found is None else f" ({found.source})"
        raise UsageError(
            f"--wafer {options.wafer} needs --batch-size: the pipeline does not tell how many samples a batch has{why}"
        )
    consumption = consumption_of(replace(options, batch_size=found.value))
    note = f"batch size {found.value}: what one element of the pipeline holds, as no --batch-size was given"
    return None if consumption is None else replace(consumption, notes=(*consumption.notes, note))


def _consumption_of(options: Options) -> Consumption | None:
    from wafer_model.ask import ask
    from wafer_model.compile_report import read_compile_report
    from wafer_model.performance_json import read_performance_json

    mode = with_mode(options).wafer_mode
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


def with_mode(options: Options, *, script: Sequence[str] = (), consumption: Consumption | None = None) -> Options:
    """The options with the one mode that all who say one agree on, as `wafer_mode`: what plans and launch lines go by.

    Args:
        script: the words of the script's command, where the input is found in one.
        consumption: the demand, whose wafer model chose a mode where nobody said one.

    Raises:
        UsageError: no mode of a wafer, or two of these contradict each other.
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


def check_sources(options: Options) -> None:
    """Raises UsageError where several options say how fast the accelerator consumes, or one lacks what it needs, or cannot be."""
    found = _sources(options)
    if len(found) > 1:
        several = f"{', '.join(found[:-1])} and {found[-1]}"
        raise UsageError(f"{several} each say how fast the accelerator consumes: give one of them")
    if options.step_time_s is not None and options.batch_size is None:
        raise UsageError("--step-time needs --batch-size: samples per step")
    if options.wafer is None and options.sequence_length is not None:
        raise UsageError("--sequence-length describes a --wafer model: name one")


def has_demand(options: Options) -> bool:
    """Whether something says how fast the accelerator consumes."""
    return bool(_sources(options))


def _sources(options: Options) -> tuple[str, ...]:
    """The options that say how fast the accelerator consumes, as they are written on the command line."""
    return tuple(name for name, field in SOURCES.items() if getattr(options, field) is not None)
