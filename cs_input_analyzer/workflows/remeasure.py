"""The workflow of `compare --measure`: the input functions of two runs launched again, in turns on one host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cs_input_analyzer.engines import Launcher
from cs_input_analyzer.errors import AnalyzerError, InputFunctionError, Interrupted, LaunchError, UsageError
from cs_input_analyzer.records import Analysis, Layout
from cs_input_analyzer.request.again import Relaunch
from cs_input_analyzer.workflows.changes.rates import pairs_of
from cs_input_analyzer.workflows.probing.launches import misfit
from cs_input_analyzer.workflows.probing.probing import Probing
from cs_input_analyzer.workflows.probing.seconds import check_round, shortest_round_s


def measured_in_turns(
    again: Relaunch, launcher: Launcher, progress: Callable[[str, float], None]
) -> tuple[Analysis, Analysis, int, AnalyzerError | None]:
    """Return both runs with fresh launches in place of those that they hold, the number of rounds, and what ended them early.

    Without layouts, launch what both runs have measured, as far as it fits the host and the time.
    Ctrl-C (KeyboardInterrupt) ends the measuring; what there is by then is kept.

    Raises:
        UsageError: no layout can be launched here, or not in this time.
        InputFunctionError, LaunchError, Interrupted: one of the two could not be measured.
    """
    runs, host, max_seconds = again.runs, again.host, again.options.max_seconds
    chosen = again.layouts or _common(again)
    while len(chosen) > 1 and not again.layouts and 2 * shortest_round_s(chosen, launcher) > max_seconds:
        chosen = chosen[:-1]
    if not chosen:
        raise UsageError("the runs have no launch in common that fits this host; name launches, for example --layouts 1x1x1,1x2x1")
    for layout in chosen:
        problem = misfit(layout, host)
        if problem is not None:
            raise UsageError(f"--layouts {layout}: {problem}")
    check_round(chosen, launcher, max_seconds, sides=2)
    sides = [
        Probing(run.pipeline.target, None, replace(run.options, max_seconds=max_seconds), host, launcher, progress, "validate")
        for run in runs
    ]
    done, stopped = measured_rounds(sides, chosen, again.rounds, "the same of two runs, in turns")
    for run, side in zip(runs, sides, strict=True):
        if not side.results.has_rate:
            raise stopped or InputFunctionError(f"no launch of {run.pipeline.target} had a rate")
    old, new = (
        replace(run, measurements=tuple(side.results.measurements), host=host) for run, side in zip(runs, sides, strict=True)
    )
    return old, new, max(1, done), stopped  # both have launches, so the first round was begun


def measured_rounds(sides: Sequence[Probing], layouts: Sequence[Layout], rounds: int, why: str) -> tuple[int, AnalyzerError | None]:
    """Return the number of whole rounds that there was time for, and the error that stopped them.

    Earlier measurements stay valid.
    """
    done = 0
    try:
        for whole in sides[0].measure_rounds(layouts, rounds, why, *sides[1:]):
            done = whole
    except LaunchError as error:  # the disk is full, no process can be started
        return done, error
    except KeyboardInterrupt:
        return done, Interrupted("interrupted before anything was measured")
    return done, None


def _common(again: Relaunch) -> tuple[Layout, ...]:
    """Return launches on one node that both have measured whole and that fit this host, by rising size."""
    pairs = [pair for pair in pairs_of(*again.runs) if pair.num_workers == pair.layout.tasks]
    return tuple(dict.fromkeys(pair.layout for pair in pairs if misfit(pair.layout, again.host) is None))
