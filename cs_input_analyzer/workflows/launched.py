"""Tell the stories that launch workers: open the engine, launch in it, keep what was learned of the host, close the engine.

The command line and the Python interface both begin here. No error of a story holds a secret of the params or of a command.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from cs_input_analyzer import report
from cs_input_analyzer.engines import selection as engine
from cs_input_analyzer.errors import AnalyzerError, UsageError
from cs_input_analyzer.host import history
from cs_input_analyzer.masking import Secrets, hide_in
from cs_input_analyzer.records import Analysis, Cluster, Comparison, Options
from cs_input_analyzer.request.again import Relaunch, read_relaunch
from cs_input_analyzer.request.keywords import CompareKeywords, ValidateKeywords
from cs_input_analyzer.request.request import TOOL, Request
from cs_input_analyzer.request.target import pickled_into
from cs_input_analyzer.workflows import kept
from cs_input_analyzer.workflows.analyze import Progress
from cs_input_analyzer.workflows.analyze import analyze as analyze_in
from cs_input_analyzer.workflows.compare import compare as compare_runs
from cs_input_analyzer.workflows.remeasure import measured_in_turns
from cs_input_analyzer.workflows.validate import validate as launch_and_compare


def analyze(request: Request, *, function: Callable[..., object] | None = None, progress: Progress) -> Analysis:
    """Run one analysis. An interrupted one comes back marked.

    Args:
        function: the input function, if it was given as such and not by its name.

    Raises:
        As `csia.analyze`.
    """
    options, secrets = request.options, report.secrets_of(request.options, request.target)
    place = engine.Place(host=request.host, cluster=request.cluster)
    with hidden_in_errors(secrets), _opened(options, place, progress, request.declared) as opened:
        pickled = None if function is None else str(pickled_into(opened.launcher.folder, function))
        complete = replace(request, pickled=pickled, host=opened.host, cluster=opened.cluster)
        found = analyze_in(complete, opened.launcher, progress)
    kept.remember(found)
    return found


def validate(found: Analysis, *, progress: Progress, **choices: Any) -> Analysis:
    """Return a run with its validation by real workers. An interrupted one comes back marked. `choices`: `ValidateKeywords`."""
    again = read_relaunch((found,), ValidateKeywords, choices)
    with _opened_again(again, progress) as opened:
        here = replace(again, host=opened.host, nodes=opened.launcher.nodes)
        validated = launch_and_compare(here, opened.launcher, progress)
        with contextlib.suppress(OSError, AnalyzerError):  # without a cache folder every run stands alone
            tried = validated.validation
            history.remember_errors(opened.host, tried.errors_log if tried is not None and tried.is_alike else ())
        return validated


def compare(
    old: Analysis | str | Path, new: Analysis | str | Path, *, measure: bool = False, progress: Progress, **choices: Any
) -> Comparison:
    """Return two runs beside each other. `measure`: launch both again, in turns. `choices`: `CompareKeywords` for that."""
    runs = [report.load(run) if isinstance(run, str | Path) else run for run in (old, new)]
    names = [str(run) if isinstance(run, str | Path) else name for run, name in ((old, "old"), (new, "new"))]
    done = 0
    if choices and not measure:
        raise UsageError(f"{', '.join(sorted(choices))}: these are for --measure, which launches both again")
    stopped: AnalyzerError | None = None
    if measure:
        again = read_relaunch(runs, CompareKeywords, choices)
        _refuse_same_code(*runs)
        with _opened_again(again, progress) as opened:
            *runs, done, stopped = measured_in_turns(replace(again, host=opened.host), opened.launcher, progress)
    before, after = map(report.masked, runs)  # a comparison names params and targets
    return compare_runs(before, after, tool=TOOL, old_path=names[0], new_path=names[1], rounds=done, stopped=stopped)


def _refuse_same_code(old: Analysis, new: Analysis) -> None:
    """Raise UsageError if both runs would launch the same input function, as it is today, with the same params."""
    before, after = ((run.pipeline.target, run.options.params_json, run.options.mode) for run in (old, new))
    if before == after:
        raise UsageError(
            f"--measure launches what the runs name, as it is today, and both name {report.masked(new).pipeline.target} with the "
            "same params: keep the old version in a folder of its own (git worktree), and analyze it there by its full path"
        )


@contextlib.contextmanager
def _opened(
    options: Options,
    place: engine.Place,
    progress: Progress,
    declared: Cluster | None = None,
) -> Iterator[engine.Engine]:
    """Open the engine that is asked for, and close it in the end."""
    opened = engine.open_engine(options, place, declared=declared, on_status=lambda what: progress(what, 0.0))
    try:
        yield opened
    finally:
        opened.launcher.close()


@contextlib.contextmanager
def _opened_again(again: Relaunch, progress: Progress) -> Iterator[engine.Engine]:
    """Open the engine for saved runs. Take their secrets out of what is raised."""
    secrets = Secrets()
    for run in again.runs:
        secrets |= report.secrets_of(run.options, run.pipeline.target)
    place = engine.Place(host=again.host, cluster=again.cluster)
    with hidden_in_errors(secrets), _opened(again.options, place, progress) as opened:
        yield opened


@contextlib.contextmanager
def hidden_in_errors(secrets: Secrets) -> Iterator[None]:
    """Take secrets out of what is raised: a traceback of the user's function may hold what it was called with."""
    try:
        yield
    except AnalyzerError as error:
        hide_in(error, secrets)
        raise
