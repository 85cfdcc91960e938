"""The Python interface: keywords in, an Analysis out. The command line calls the same functions."""

from __future__ import annotations

import contextlib
import html
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from cs_input_analyzer import records, report
from cs_input_analyzer.engines import selection as engine
from cs_input_analyzer.errors import AnalyzerError, Interrupted, Mistakes, UsageError, typed
from cs_input_analyzer.gone import gone_message
from cs_input_analyzer.host import history, machine
from cs_input_analyzer.masking import Secrets, hide_in, masked_command
from cs_input_analyzer.records import Cluster, Options
from cs_input_analyzer.request.again import VALIDATE_SECONDS, Relaunch, known_among, read_relaunch
from cs_input_analyzer.request.demand import resolved
from cs_input_analyzer.request.options import NO_LAUNCH, SHORT, as_cluster, read_options, with_cluster_file
from cs_input_analyzer.request.request import TOOL, Request, read_request
from cs_input_analyzer.request.target import Target, params_json_of, pickled_into
from cs_input_analyzer.runs.in_process import Recommendation
from cs_input_analyzer.runs.in_process import recommend_for as measured_here
from cs_input_analyzer.units import format_seconds
from cs_input_analyzer.worker import capture
from cs_input_analyzer.workflows import analyze as analysis
from cs_input_analyzer.workflows import kept, replan
from cs_input_analyzer.workflows import tune as tuning_here
from cs_input_analyzer.workflows.compare import compare as compare_runs
from cs_input_analyzer.workflows.remeasure import measured_in_turns
from cs_input_analyzer.workflows.validate import Trial
from cs_input_analyzer.workflows.validate import validate as launch_and_compare

TUNE_SECONDS = 30.0
RECOMMEND_SECONDS = 10.0
COMPARE_CHOICES = ("layouts", "rounds", "max_seconds", "cpus", "start_timeout_s", "on_own_files", "no_network", "set")
SLURM_CHOICES = ("partition", "exclude_nodes", "slurm_nodes", "queue_timeout_s", "shared_dir", "sbatch_args")
VALIDATE_CHOICES = (*COMPARE_CHOICES, "launcher", *SLURM_CHOICES)
Public = TypeVar("Public")


class _Shown:
    """How a record is shown: `print` gives the report of the console, a notebook the card, or Markdown where it shows no HTML."""

    __slots__ = ()

    def to_html(self: Any, path: str | Path) -> None:
        """Write the self-contained page."""
        report.write_report(path, report.render(self, "html"), "html")

    def _repr_markdown_(self: Any) -> str:
        return report.render(self, "md")

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

    def validate(self, *, progress: analysis.Progress | None = None, **choices: Any) -> Analysis:
        """Return this run with its `validation`: real workers, here or on Slurm's nodes, beside the predictions for them.

        This imports and runs the code that the run names. For a file that `load_analysis` read, trust its origin first.

        Args:
            choices: the options of the command `validate`: `layouts` (default: the recommended one, its part that fits, and its
                neighbours), `rounds` (3), `max_seconds` (120), `cpus` (as many as in the run), `launcher="slurm"` and its own.
                `set`: texts `key=value` of params that a file does not hold, because they are secrets.

        Raises:
            As the function `analyze`; Interrupted holds the run with the measurements so far.
        """
        with _shown(progress, choices.get("max_seconds", VALIDATE_SECONDS)) as shown:
            found = validate(self, progress=shown, **choices)
        if found.validation is not None and found.validation.interrupted:
            raise _interrupted(found)
        return found

    def plan(self, *, cluster: Cluster | Mapping[str, Any] | str | Path | None = None, **choices: Any) -> Analysis:
        """Return this run planned again for the options given here. Nothing is measured.

        Args:
            cluster: as for the function `analyze`; `local` is the machine that measured. Default: the cluster of the run, whose
                sizes `nodes`, `cpus_per_node` and others replace.
            choices: the options of `analyze` about the demand, the cluster, the launch and its lines. The others stay as in this
                run, which becomes the `parent`.

        Raises:
            UsageError: an invalid choice, or a cluster on which no launch of this pipeline can run.
        """
        return plan(self, cluster=cluster, **choices)

    def __repr__(self) -> str:
        plan = "no plan" if self.recommendation is None else f"plan {self.recommendation.layout}"
        return f"<Analysis of {masked_command(self.pipeline.target)[0]}, {self.created_at}: {self.verdict}, {plan}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(_Shown, records.Comparison):
    """Two runs beside each other, as `compare` gives them. `print` shows the report of the console."""


def compare(
    old: records.Analysis | str | Path,
    new: records.Analysis | str | Path,
    *,
    measure: bool = False,
    progress: analysis.Progress | None = None,
    **choices: Any,
) -> Comparison:
    """Return the changes between two runs beyond noise: two analyses, or the files that they were written to.

    Args:
        old, new: the runs.
        measure: launch both input functions again, in turns, on this host, so that both meet the same conditions. It imports and
            runs the code that the runs name; trust the origin of files first. The result is about these launches.
        choices: `layouts` (default: those that both have measured), `rounds`, `max_seconds`, `cpus`, `set`, as for
            `Analysis.validate`.

    Raises:
        UsageError: a file cannot be read, or the two have no launch in common.
        As `Analysis.validate`, with `measure`.
    """
    runs = [report.load(run) if isinstance(run, str | Path) else run for run in (old, new)]
    names = [str(run) if isinstance(run, str | Path) else name for run, name in ((old, "old"), (new, "new"))]
    done = 0
    if measure:
        again = read_relaunch(runs, COMPARE_CHOICES, choices)
        with (
            _shown(progress, again.options.max_seconds) as shown,
            _without_secrets(*again.runs),
            _opened_again(again, shown) as opened,
        ):
            *runs, done = measured_in_turns(
                (again.runs[0], again.runs[1]),
                again.layouts,
                rounds=again.rounds,
                max_seconds=again.options.max_seconds,
                host=opened.host,
                launcher=opened.launcher,
                progress=shown,
            )
    before, after = map(report.masked, runs)  # a comparison names params and targets
    return _as(Comparison, compare_runs(before, after, tool=TOOL, old_path=names[0], new_path=names[1], rounds=done))


def analyze(
    target: Target,
    params: Mapping[str, Any] | None = None,
    *,
    cluster: Cluster | Mapping[str, Any] | str | Path | None = None,
    progress: analysis.Progress | None = None,
    **choices: Any,
) -> Analysis:
    """Measure an input function and recommend a launch.

    Args:
        target: the input function, or its name: `package.module:function`, `path/file.py:function`.
        params: what the function is called with; None calls it without.
        cluster: the nodes to plan for: a Cluster or a dictionary of its fields, a YAML file, a preset's name, `slurm`, `local`;
            None is this host, or with `launcher="slurm"` what Slurm has.
        progress: called with what is going on and the share of the time budget that is spent; None shows a bar in a notebook.
        choices: the options of the command line, as in `records.Options`; `demand`, `step_time`, `current` and `probe_layouts` may
            be texts, as they are typed there.

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
    command = "cs_input_analyzer.analyze(…)"
    request = read_request(mistakes, target, params_json=params_json, declared=declared, command=command, cluster=name, **choices)
    mistakes.raise_any()
    assert request is not None
    with _shown(progress, request.options.max_seconds) as shown:
        found = run(request, function=None if isinstance(target, str) else target, progress=shown)
    if found.interrupted:
        raise _interrupted(found)
    return found


def _interrupted(found: Analysis) -> Interrupted:
    error = Interrupted("interrupted; what was measured is in this error's `analysis`")
    error.analysis = found
    return error


def run(
    request: Request,
    *,
    function: Callable[..., object] | None = None,
    progress: analysis.Progress,
) -> Analysis:
    """Run one analysis with the workers of the engine that is asked for. An interrupted one comes back marked.

    Args:
        function: the input function, if it was given as such and not by its name.

    Raises:
        As `analyze`.
    """
    options, secrets = request.options, report.secrets_of(request.options, request.target)
    place = engine.Place(host=request.host, cluster=request.cluster)
    with hidden_in_errors(secrets), _opened(options, place, (request.target,), progress, request.declared) as opened:
        pickled = None if function is None else str(pickled_into(opened.launcher.folder, function))
        complete = replace(request, pickled=pickled, host=opened.host, cluster=opened.cluster)
        found = analysis.analyze(complete, opened.launcher, progress)
    kept.remember(found)
    if options.launcher == "local" and found.capacity is not None:
        with contextlib.suppress(OSError, AnalyzerError):  # without a cache folder every run stands alone
            history.remember(opened.host, found.capacity.host_ratio.estimate)
    return _public(found)


@contextlib.contextmanager
def _opened(
    options: Options,
    place: engine.Place,
    targets: Iterable[str],
    progress: analysis.Progress,
    declared: Cluster | None = None,
) -> Iterator[engine.Engine]:
    """Open the engine that is asked for, and close it in the end."""
    is_script = any(capture.is_script(target) for target in targets)
    opened = engine.open_engine(options, place, declared=declared, on_status=lambda what: progress(what, 0.0), is_script=is_script)
    try:
        yield opened
    finally:
        opened.launcher.close()


def _opened_again(again: Relaunch, progress: analysis.Progress) -> contextlib.AbstractContextManager[engine.Engine]:
    place = engine.Place(host=again.host, cluster=again.cluster)
    return _opened(again.options, place, [run.pipeline.target for run in again.runs], progress)


@contextlib.contextmanager
def hidden_in_errors(secrets: Secrets) -> Iterator[None]:
    """Take secrets out of raised errors: a traceback of the user's function may hold its arguments."""
    try:
        yield
    except AnalyzerError as error:
        hide_in(error, secrets)
        raise


@contextlib.contextmanager
def _without_secrets(*runs: records.Analysis) -> Iterator[None]:
    """Take the secrets of these runs out of raised errors."""
    secrets = Secrets()
    for run in runs:
        secrets |= report.secrets_of(run.options, run.pipeline.target)
    with hidden_in_errors(secrets):
        yield


def validate(found: records.Analysis, *, progress: analysis.Progress, **choices: Any) -> Analysis:
    """Return the validation of a run by real workers. An interrupted one comes back marked; see `Analysis.validate`."""
    again = read_relaunch((found,), VALIDATE_CHOICES, choices)
    with _without_secrets(*again.runs), _opened_again(again, progress) as opened:
        trial = Trial(
            run=again.runs[0],
            layouts=again.layouts,
            rounds=again.rounds,
            max_seconds=again.options.max_seconds,
            host=opened.host,
            tool=TOOL,
            nodes=opened.launcher.nodes,
        )
        validated = launch_and_compare(trial, opened.launcher, progress)
        with contextlib.suppress(OSError, AnalyzerError):  # without a cache folder every run stands alone
            history.remember_errors(opened.host, validated.validation.errors_log if validated.validation else ())
        return _public(validated)


def plan(
    found: records.Analysis,
    *,
    path: str | None = None,
    command: str = "Analysis.plan(…)",
    cluster: Cluster | Mapping[str, Any] | str | Path | None = None,
    mistakes: Mistakes | None = None,
    **choices: Any,
) -> Analysis:
    """Return a saved run planned again, see `Analysis.plan`. `path`: the file that it was read from."""
    noted = Mistakes() if mistakes is None else mistakes
    short = [name for name, field in SHORT.items() if field in replan.CHOICES]
    known = known_among(choices, (*short, *replan.CHOICES), noted)
    declared, name = as_cluster(cluster, noted)
    if name is not None or declared is not None:
        known["cluster"] = name
    wanted = {SHORT.get(name, name): choice for name, choice in known.items() if choice is not None}
    wanted = with_cluster_file(wanted, declared)
    merged = replan.with_choices(found, wanted, declared)
    options = read_options(noted, **merged | {"current": merged["current"] or NO_LAUNCH})
    noted.raise_any()
    assert options is not None
    again = replan.plan_again(
        found,
        Request(
            target=found.pipeline.target,
            pickled=None,
            options=options if merged["current"] is not None else replace(options, current=None),
            host=found.host,
            cluster=found.cluster,
            consumption=found.consumption,
            command=command,
            created_at=machine.utc_now(),
        ),
        tuple(wanted),
        declared=declared,
        path=path,
    )
    return _public(again)


def tune(dataset: Any, *, seconds: float = TUNE_SECONDS, select: Sequence[str] | str = (), ignore: Sequence[str] | str = ()) -> Any:
    """Return the dataset, made faster if that provably changes nothing else; the same object if nothing gains.

    For training scripts: nothing is cut off, put on disk, printed, or reordered beyond the dataset's promise. See
    `tuning` for the arguments, the record of the changes, and the errors.
    """
    return tuning(dataset, seconds=seconds, select=select, ignore=ignore).dataset


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
    options = _for_here(seconds, TUNE_SECONDS, select=select, ignore=ignore)
    return tuning_here.tune(dataset, seconds=seconds, select=options.select, ignore=options.ignore)


def recommend_for(
    dataset: Any,
    *,
    demand: float | None = None,
    step_time: float | None = None,
    batch_size: int | None = None,
    samples_per_element: int | None = None,
    headroom: float = 0.1,
    seconds: float = RECOMMEND_SECONDS,
) -> Recommendation:
    """Measure a `tf.data.Dataset` in this process, and return its rate with recommendations.

    Use it in training scripts and notebooks, before training begins. It reads the dataset itself, through an iterator
    of its own. So a source that can be read only once loses elements, and the next order of `shuffle` differs. The
    result is marked `isolation: none` and is no launch plan. `analyze` measures a function in separate processes, and
    makes a plan.

    Args:
        dataset: the dataset of the training.
        demand: samples per second that the accelerator takes; or `step_time` in seconds, with `batch_size`.
        samples_per_element: how many samples one element holds, if the dataset does not say.
        headroom: the reserve to leave, as a ratio of the demand.
        seconds: time for reading, about.

    Raises:
        UsageError: not a `tf.data.Dataset`, an invalid number or one that contradicts the dataset, or a dataset that cannot be
            read here (with the reason).
    """
    counts = {"batch_size": batch_size, "samples_per_element": samples_per_element}
    options = _for_here(seconds, RECOMMEND_SECONDS, demand=demand, step_time=step_time, headroom_ratio=headroom, **counts)
    options, consumption = resolved(options)
    return measured_here(dataset, options, consumption, seconds=seconds)


def _for_here(seconds: float, example: float, **choices: Any) -> Options:
    """Return the options of a measurement inside this process.

    Raise UsageError for all mistakes in them, or in the seconds.
    """
    mistakes = Mistakes()
    with mistakes:
        if not 0 < typed("seconds", seconds, float) < math.inf:
            raise UsageError(f"seconds={seconds:g}: give the seconds that measuring may take, for example {example:g}")
    options = read_options(mistakes, current=NO_LAUNCH, **choices)
    mistakes.raise_any()
    assert options is not None
    return options


def load_analysis(path: str | Path) -> Analysis:
    """Read a run file, or the run inside a saved HTML report. Raise UsageError with the file and its fault."""
    return _public(report.load(path))


def _public(found: records.Analysis) -> Analysis:
    return _as(Analysis, found)


def _as(public: type[Public], found: Any) -> Public:
    return public(**{field.name: getattr(found, field.name) for field in fields(found)})


@contextlib.contextmanager
def _shown(progress: analysis.Progress | None, max_seconds: float) -> Iterator[analysis.Progress]:
    """Yield the caller's function; without one a bar that lasts as long as the run does in a notebook, and nothing elsewhere."""
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
