"""The Python interface: keywords in, an Analysis out. The command line calls the same functions."""

from __future__ import annotations

import contextlib
import html
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cs_input_analyzer import records, report
from cs_input_analyzer.errors import Interrupted, Mistakes, UsageError, typed
from cs_input_analyzer.gone import gone_message
from cs_input_analyzer.records import Cluster
from cs_input_analyzer.request.again import VALIDATE_SECONDS
from cs_input_analyzer.request.keywords import AnalyzeKeywords, known_among, naming_keywords
from cs_input_analyzer.request.options import NO_LAUNCH, as_cluster, read_options
from cs_input_analyzer.request.request import read_request
from cs_input_analyzer.request.target import Target, params_json_of
from cs_input_analyzer.units import format_seconds, parse_seconds
from cs_input_analyzer.workflows import launched, replan
from cs_input_analyzer.workflows import tune as tuning_here
from cs_input_analyzer.workflows.analyze import Progress

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cs_input_analyzer.request.keywords import CompareKeywords, PlanKeywords, ValidateKeywords

TUNE_SECONDS = 30.0
Public = TypeVar("Public")


class _Shown:
    """How a record is shown: `print` gives the report of the console, a notebook the answer card."""

    __slots__ = ()

    def to_html(self: Any, path: str | Path) -> None:
        """Write the self-contained page."""
        report.write_report(path, report.render(self, "html"), "html")

    def _repr_html_(self: Any) -> str:
        return report.card(self)

    def __str__(self: Any) -> str:
        return report.render(self, "console")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Analysis(_Shown, records.Analysis):
    """A run, with the ways to write it down. `print` shows the report of the console, `repr` one line."""

    def to_json(self, path: str | Path) -> None:
        """Write the run file that `load_analysis` and `cs_input_analyzer report` read."""
        report.write_report(path, report.render(self, "json"), "json")

    def to_csv(self, path: str | Path, table: str | None = None) -> None:
        """Write one row for each worker of each measurement. Raise UsageError if a `table` is named: there is one only."""
        if table is not None:
            raise UsageError(gone_message("option", "table") or "")
        report.write_report(path, report.render(self, "csv"), "csv")

    @naming_keywords()
    def validate(self, *, progress: Progress | None = None, **choices: Unpack[ValidateKeywords]) -> Analysis:
        """Return this run with its `validation`: real workers launched here or on Slurm's nodes, beside what was predicted.

        This imports and runs the code that the run names. For a file that `load_analysis` read, trust its origin first.

        Args:
            choices: the options of the command `validate`: `layouts` (default: the recommended one, its part that fits, and its
                neighbours), `rounds` (3), `max_seconds` (120), `cpus` (as many as in the run), `launcher="slurm"` and its own.
                `set`: texts `key=value` of params that a file does not hold, because they are secrets.

        Raises:
            As the function `analyze`; Interrupted holds the run with the measurements so far.
        """
        with _shown(progress, _budget_s(choices.get("max_seconds"))) as shown:
            found = _public(launched.validate(self, progress=shown, **choices))
        if found.validation is not None and found.validation.interrupted:
            raise _interrupted(found)
        return found

    @naming_keywords()
    def plan(self, *, cluster: Cluster | Mapping[str, Any] | str | Path | None = None, **choices: Unpack[PlanKeywords]) -> Analysis:
        """Return this run planned again: the verdict, the launch and its alternatives. Nothing is measured.

        Args:
            cluster: as for the function `analyze`; `local` is the machine that measured. Default: the cluster of the run, whose
                sizes `nodes`, `cpus_per_node` and others replace.
            choices: the options of `analyze` about the demand, the cluster, the launch and its lines. The others stay as in this
                run, which becomes the `parent`.

        Raises:
            UsageError: an invalid choice, or a cluster on which no launch of this pipeline can run.
        """
        return _public(replan.plan(self, command="Analysis.plan(…)", cluster=cluster, **choices))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(_Shown, records.Comparison):
    """Two runs beside each other, as `compare` gives them. `print` shows the report of the console."""


@naming_keywords()
def compare(
    old: records.Analysis | str | Path,
    new: records.Analysis | str | Path,
    *,
    measure: bool = False,
    progress: Progress | None = None,
    **choices: Unpack[CompareKeywords],
) -> Comparison:
    """Return what changed between two runs beyond noise: two analyses, or the files that they were written to.

    Args:
        measure: launch both input functions again, in turns, on this host, so that neither meets a quieter one. Imports and runs
            the code that the runs name: of files, trust their origin first. What follows is of these launches.
        choices: with `measure`, `layouts` (without them what both have measured), `rounds`, `max_seconds`, `cpus`, `set`, as for
            `Analysis.validate`.

    Raises:
        UsageError: a file cannot be read, or the two have no launch in common.
        As `Analysis.validate`, with `measure`.
    """
    with _shown(progress, _budget_s(choices.get("max_seconds"))) as shown:
        return _as(Comparison, launched.compare(old, new, measure=measure, progress=shown, **choices))


@naming_keywords()
def analyze(
    target: Target,
    params: Mapping[str, Any] | None = None,
    *,
    cluster: Cluster | Mapping[str, Any] | str | Path | None = None,
    progress: Progress | None = None,
    **choices: Unpack[AnalyzeKeywords],
) -> Analysis:
    """Measure an input function and recommend a launch.

    Args:
        target: the input function, or its name: `package.module:function`, `path/file.py:function`.
        params: what the function is called with; None calls it without.
        cluster: the nodes to plan for: a Cluster or a dictionary of its fields, a YAML file, a preset's name, `slurm`, `local`;
            None is this host, or with `launcher="slurm"` what Slurm has.
        progress: called with what is going on and the share of the time budget that is spent; None shows a bar in a notebook.
        choices: the options of the command line. Numbers with a unit and lists may be texts, as they are typed there:
            `demand="7k"`, `memory_bytes_per_node="128GiB"`, `probe_layouts="1x1x1,1x2x1"`.

    Raises:
        UsageError, TargetError: something the caller can put right; all that is wrong with the call, found before it begins.
        InputFunctionError: the input function raised, hung, exited or gave no element.
        LaunchError: workers could not be started.
        Interrupted: Ctrl-C; its `analysis` holds what was measured, or None.
    """
    mistakes = Mistakes()
    declared, name = as_cluster(cluster, mistakes)
    params_json = None
    with mistakes:
        params_json = params_json_of(params)
    known = known_among(choices, AnalyzeKeywords, mistakes)
    command = "cs_input_analyzer.analyze(…)"
    request = read_request(mistakes, target, params_json=params_json, declared=declared, command=command, cluster=name, **known)
    mistakes.raise_any()
    assert request is not None
    with _shown(progress, request.options.max_seconds) as shown:
        function = None if isinstance(target, str) else target
        found = _public(launched.analyze(request, function=function, progress=shown))
    if found.interrupted:
        raise _interrupted(found)
    return found


def _interrupted(found: Analysis) -> Interrupted:
    error = Interrupted("interrupted; what was measured is in this error's `analysis`")
    error.analysis = found
    return error


def tune(dataset: Any, *, seconds: float = TUNE_SECONDS, select: Sequence[str] | str = (), ignore: Sequence[str] | str = ()) -> Any:
    """Return the dataset, made faster if that provably changes nothing else; the same object if nothing gains.

    For training scripts: nothing is cut off, put on disk, printed, or reordered beyond the dataset's promise. See
    `tuning` for the arguments, the record of the changes, and the errors.
    """
    return tuning(dataset, seconds=seconds, select=select, ignore=ignore).dataset


@naming_keywords()
def tuning(
    dataset: Any, *, seconds: float = TUNE_SECONDS, select: Sequence[str] | str = (), ignore: Sequence[str] | str = ()
) -> tuning_here.Tuned:
    """As `tune`, with the record of it: the dataset, every finding with its proof and gain, and what the kept fixes do together.

    Args:
        dataset: a `tf.data.Dataset`, before it is distributed over a strategy.
        seconds: for proving and measuring, about; they are spent in this process, so call it before training begins.
        select, ignore: codes of the rules whose fixes are wanted, or not; as `--select` and `--ignore`.

    Raises:
        UsageError: not a `tf.data.Dataset`, inside a `tf.function`, or an unknown code.
    """
    mistakes = Mistakes()
    with mistakes:
        if not 0 < typed("seconds", seconds, float) < math.inf:
            raise UsageError(f"seconds={seconds:g}: give the seconds that measuring may take, for example {TUNE_SECONDS:g}")
    options = read_options(mistakes, current=NO_LAUNCH, select=select, ignore=ignore)
    mistakes.raise_any()
    assert options is not None
    return tuning_here.tune(dataset, seconds=seconds, select=options.select, ignore=options.ignore)


def load_analysis(path: str | Path) -> Analysis:
    """Read a run file, or the run inside a saved HTML report. Raise UsageError with the file and its fault."""
    return _public(report.load(path))


def _public(found: records.Analysis) -> Analysis:
    return _as(Analysis, found)


def _as(public: type[Public], found: Any) -> Public:
    return public(**{field.name: getattr(found, field.name) for field in fields(found)})


def _budget_s(given: Any) -> float:
    """Return the seconds of `max_seconds`; the default if none are given, or they cannot be read."""
    with contextlib.suppress(UsageError):
        return VALIDATE_SECONDS if given is None else parse_seconds(given)
    return VALIDATE_SECONDS


@contextlib.contextmanager
def _shown(progress: Progress | None, max_seconds: float) -> Iterator[Progress]:
    """Yield the caller's function; else a bar for the length of the run in a notebook, and nothing elsewhere."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if progress is not None or not hasattr(shell, "kernel"):
        yield progress or (lambda what, spent_ratio: None)
        return
    notebook = sys.modules["IPython.display"]
    bar = notebook.display(notebook.HTML(""), display_id=True)

    def show(what: str, spent_ratio: float) -> None:
        left = f", up to {format_seconds(round(max_seconds * (1 - spent_ratio)))} left" if spent_ratio > 0 else ""
        bar.update(notebook.HTML(f'<progress max="1" value="{spent_ratio:.3f}"></progress> {html.escape(what + left)}'))

    try:
        yield show
    finally:
        bar.update(notebook.HTML(""))
