"""Options -> Consumption: how fast the accelerator consumes, from whichever source the user names."""

from __future__ import annotations

from pathlib import Path

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Consumption, Options
from wafer_model import WaferModelError, from_compile_report, from_model, from_performance, from_rate, from_step_time
from wafer_model.constants import MODES

__all__ = ["check_sources", "consumption_of", "wafer_mode"]


def consumption_of(options: Options) -> Consumption | None:
    """The demand by the one source that was named; None without any. Raises UsageError for one that cannot be."""
    try:
        return _consumption_of(options)
    except WaferModelError as error:
        raise UsageError(str(error)) from None


def _consumption_of(options: Options) -> Consumption | None:
    from wafer_model.ask import ask
    from wafer_model.compile_report import read_compile_report
    from wafer_model.performance_json import read_performance_json

    mode = wafer_mode(options.wafer_mode)
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
            systems=options.systems,
            dtype=options.dtype,
            calibrate_samples_per_s=options.calibrate_samples_per_s,
        )
    )


def wafer_mode(text: str | None) -> str | None:
    """`pipelined` or `weight_streaming`, where a hyphen will do; None as it is. Raises UsageError for another word."""
    mode = None if text is None else text.replace("-", "_")
    if mode is not None and mode not in MODES:
        raise UsageError(f"--wafer-mode {text}: a wafer's modes are {' and '.join(MODES)}")
    return mode


def check_sources(options: Options) -> None:
    """Raises UsageError where several options say how fast the accelerator consumes, or one lacks what it needs, or cannot be."""
    wafer_mode(options.wafer_mode)
    found = _sources(options)
    if len(found) > 1:
        several = f"{', '.join(found[:-1])} and {found[-1]}"
        raise UsageError(f"{several} each say how fast the accelerator consumes: give one of them")
    if options.step_time_s is not None and options.batch_size is None:
        raise UsageError("--step-time needs --batch-size: samples per step")
    if options.wafer is None and (options.sequence_length is not None or options.calibrate_samples_per_s is not None):
        raise UsageError("--sequence-length and --calibrate describe a --wafer model: name one")
    if options.systems < 1:
        raise UsageError(f"--systems {options.systems}: must be 1 or more")


def _sources(options: Options) -> tuple[str, ...]:
    """The options that say how fast the accelerator consumes, as they are written on the command line."""
    named = {
        "--demand": options.demand_samples_per_s,
        "--step-time": options.step_time_s,
        "--wafer": options.wafer,
        "--compile-report": options.compile_report,
        "--performance-json": options.performance_json,
    }
    return tuple(name for name, value in named.items() if value is not None)
