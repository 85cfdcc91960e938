"""The Python interface: keywords in, an Analysis out. The command line calls the same functions."""

from __future__ import annotations

import contextlib
import functools
import html
import math
import os
import reprlib
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from cs_input_analyzer import __version__, records, report
from cs_input_analyzer.choices import SHORT, as_cluster, as_layouts, read_options
from cs_input_analyzer.engines import selection as engine
from cs_input_analyzer.errors import AnalyzerError, Interrupted, Mistakes, TargetError, UsageError, check_text, typed
from cs_input_analyzer.machines import history, host
from cs_input_analyzer.masking import Secrets, hide_in, masked_command, masked_options
from cs_input_analyzer.monitoring.in_process import Recommendation
from cs_input_analyzer.monitoring.in_process import recommend_for as measured_here
from cs_input_analyzer.planning.params import filled, params_to_json
from cs_input_analyzer.planning.recommend import check_streaming_nodes
from cs_input_analyzer.records import Cluster, Consumption, Layout, Options, Tool
from cs_input_analyzer.studies import analyze as analysis
from cs_input_analyzer.studies import replan
from cs_input_analyzer.studies import tune as tuning_here
from cs_input_analyzer.studies.compare import compare as compare_runs
from cs_input_analyzer.studies.demand import consumption_of, with_mode
from cs_input_analyzer.studies.remeasure import measured_in_turns
from cs_input_analyzer.studies.validate import Trial
from cs_input_analyzer.studies.validate import validate as launch_and_compare
from cs_input_analyzer.units import format_seconds
from cs_input_analyzer.worker import capture, load

VALIDATE_SECONDS = 120.0
TUNE_SECONDS = 30.0
RECOMMEND_SECONDS = 10.0
VALIDATE_ROUNDS = 3
COMPARE_CHOICES = ("layouts", "rounds", "max_seconds", "cpus", "start_timeout_s", "on_own_files", "no_network", "set")
SLURM_CHOICES = ("partition", "exclude_nodes", "slurm_nodes", "queue_timeout_s", "shared_dir", "sbatch_args")
VALIDATE_CHOICES = (*COMPARE_CHOICES, "launcher", *SLURM_CHOICES)
# In place of the site's defaults, where no launch in use today is judged.
_NO_LAUNCH = Layout(nodes=1, tasks_per_node=1, cpus_per_task=1)
TOOL = Tool(name="cs_input_analyzer", version=__version__)
Public = TypeVar("Public")
Target = str | Callable[..., object]


class _Shown:
    """How a record is shown: `print` gives the report of the console, a notebook the card, or Markdown where it shows no HTML."""

    __slots__ = ()

    def to_html(self: Any, path: str | Path) -> None:
        """Writes the self-contained page."""
        report.write_report(path, report.render(self, "html"), "html")

    def _repr_markdown_(self: Any) -> str:
        return report.render(self, "md")

    def __str__(self: Any) -> str:
        return report.render(self, "console")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Analysis(_Shown, records.Analysis):
    """A run, with the ways to write it down. `print` shows the report of the console, `repr` one line."""

    def to_json(self, path: str | Path) -> None:
        """Writes the run file that `load_analysis` and `cs_input_analyzer report` read."""
        report.write_report(path, report.render(self, "json"), "json")

    def to_csv(self, path: str | Path, table: str = "workers") -> None:
        """Writes one row per worker and layout; or another `table`, by its name in `tables()`."""
        report.write_text_atomically(path, report.render_table(self, table))

    def tables(self) -> dict[str, Any]:
        """Every table of the run as a pandas DataFrame: workers, measurements, ops, costs, launches, findings and more."""
        return report.data_frames(self)

    def validate(self, *, progress: analysis.Progress | None = None, **choices: Any) -> Analysis:
        """This run with its `validation`: real workers launched here or on Slurm's nodes, beside what was predicted for them.

        Imports and runs the code that the run names: of a file that `load_analysis` read, trust its origin first.

        Args:
            choices: the options of the command `validate`: `layouts` (without them the recommended one, its part that fits, and its
                neighbours), `rounds` (3), `max_seconds` (120), `cpus` (as many as in the run), `launcher="slurm"` and its own.
                `set`: texts `key=value` of params that a file does not hold, as they are secrets.

        Raises:
            As the function `analyze`; Interrupted holds the run with what was measured.
        """
        with _shown(progress, choices.get("max_seconds", VALIDATE_SECONDS)) as shown:
            found = validate(self, progress=shown, **choices)
        if found.validation is not None and found.validation.interrupted:
            raise _interrupted(found)
        return found

    def plan(self, *, cluster: Cluster | Mapping[str, Any] | str | Path | None = None, **choices: Any) -> Analysis:
        """This run planned again: the verdict, the launch and its alternatives for what is given here. Nothing is measured.

        Args:
            cluster: as for the function `analyze`; `local` is the machine that measured. Without it that of the run, on which
                `nodes`, `cpus_per_node` and its other sizes win.
            choices: the options of `analyze` about the demand, the cluster, the launch and its lines; those left out stay as they
                are in this run, which is named as the `parent`.

        Raises:
            UsageError: a choice that cannot be, or a cluster on which no launch of this pipeline can run.
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
    """What changed between two runs beyond noise: two analyses, or the files that they were written to.

    Args:
        measure: launch both input functions again, in turns, on this host, so that neither meets a quieter one. Imports and runs
            the code that the runs name: of files, trust their origin first. What follows is of these launches.
        choices: `layouts` (without them what both have measured), `rounds`, `max_seconds`, `cpus`, `set`, as for
            `Analysis.validate`.

    Raises:
        UsageError: a file cannot be read, or the two have no launch in common.
        As `Analysis.validate`, with `measure`.
    """
    runs = [report.load(run) if isinstance(run, str | Path) else run for run in (old, new)]
    names = [str(run) if isinstance(run, str | Path) else name for run, name in ((old, "old"), (new, "new"))]
    done = 0
    if measure:
        runs, options, layouts, rounds = _launching_again(runs, COMPARE_CHOICES, choices)
        with (
            _shown(progress, options.max_seconds) as shown,
            _without_secrets(*runs),
            _opened(options, [run.pipeline.target for run in runs], shown) as opened,
        ):
            *runs, done = measured_in_turns(
                (runs[0], runs[1]),
                layouts,
                rounds=rounds,
                max_seconds=options.max_seconds,
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
    """Measures an input function and recommends a launch.

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
    options = read_options(mistakes, cluster=name, **choices)
    with mistakes:
        params_json = _params_json(params)
        options = None if options is None else replace(options, params_json=params_json)
    check(target, options, mistakes, declared=declared)
    mistakes.raise_any()
    assert options is not None
    with _shown(progress, options.max_seconds) as shown:
        found = run(target, options, declared=declared, progress=shown, command="cs_input_analyzer.analyze(…)")
    if found.interrupted:
        raise _interrupted(found)
    return found


def _interrupted(found: Analysis) -> Interrupted:
    error = Interrupted("interrupted; what was measured is in this error's `analysis`")
    error.analysis = found
    return error


def check(target: Any, options: Options | None, mistakes: Mistakes, *, declared: Cluster | None = None) -> None:
    """Notes what would end a run of this target with these options, as far as it shows before anything is started."""
    with mistakes:
        _check_target(target)
    if options is not None:
        with mistakes:
            _consumption(target, options)
        engine.check(options, mistakes, declared=declared)


def run(
    target: Target,
    options: Options,
    *,
    declared: Cluster | None = None,
    progress: analysis.Progress,
    command: str,
    is_tuning: bool = False,
) -> Analysis:
    """One analysis, with the workers of the engine that is asked for. An interrupted one comes back marked.

    `is_tuning`: fixes are what it is for, so they get more of the time, and become a patch. See `analyze` for what it raises.
    """
    options, consumption = _consumption(target, options)
    name = target if isinstance(target, str) else _name_of(target)
    with hidden_in_errors(report.secrets_of(options, name)), _opened(options, (target,), progress, declared) as opened:
        job = analysis.Job(
            target=name,
            pickled=None if isinstance(target, str) else str(_pickle(target, opened.launcher.folder)),
            options=options,
            host=opened.host,
            cluster=opened.cluster,
            consumption=consumption,
            tool=TOOL,
            command=command,
            created_at=host.utc_now(),
            is_tuning=is_tuning,
        )
        found = analysis.analyze(job, opened.launcher, progress)
    if options.host_history and options.launcher == "local":
        with contextlib.suppress(OSError):  # without a cache folder every run stands alone
            history.remember(opened.host, found.measurements, found.capacity.host_ratio.estimate if found.capacity else None)
    return _public(found)


@contextlib.contextmanager
def _opened(
    options: Options, targets: Iterable[Any], progress: analysis.Progress, declared: Cluster | None = None
) -> Iterator[engine.Engine]:
    """The engine that is asked for, with the host and the cluster; it is closed in the end."""
    is_script = any(isinstance(target, str) and capture.is_script(target) for target in targets)
    opened = engine.open_engine(options, declared=declared, on_status=lambda what: progress(what, 0.0), is_script=is_script)
    try:
        yield opened
    finally:
        opened.launcher.close()


def _consumption(target: Any, options: Options) -> tuple[Options, Consumption | None]:
    """The demand, and the options with the mode that it, the script and they agree on. Raises UsageError."""
    if isinstance(target, str) and capture.is_script(target):
        options = with_mode(options, script=(capture.parse_script(target).python,))
    consumption = consumption_of(options)
    options = with_mode(options, consumption=consumption)
    check_streaming_nodes(options)
    return options, consumption


def validate(found: records.Analysis, *, progress: analysis.Progress, **choices: Any) -> Analysis:
    """The validation of a run by real workers. An interrupted one comes back marked; see `Analysis.validate`."""
    (found,), options, layouts, rounds = _launching_again((found,), VALIDATE_CHOICES, choices)
    with _without_secrets(found), _opened(options, (found.pipeline.target,), progress) as opened:
        trial = Trial(
            run=found,
            layouts=layouts,
            rounds=rounds,
            max_seconds=options.max_seconds,
            host=opened.host,
            tool=TOOL,
            nodes=opened.launcher.nodes,
        )
        return _public(launch_and_compare(trial, opened.launcher, progress))


def _launching_again(
    runs: Sequence[records.Analysis], known: Sequence[str], choices: Mapping[str, Any]
) -> tuple[list[records.Analysis], Options, tuple[Layout, ...], int]:
    """Return saved runs with their secrets, how their workers are launched, and the layouts and rounds that are asked for.

    Raises UsageError, TargetError: all that is wrong, at once. `known`: the names that there may be among the choices.
    """
    mistakes = Mistakes()
    left = {"max_seconds": VALIDATE_SECONDS, "cpus": None, **_known(choices, known, mistakes)}
    layouts, rounds = left.pop("layouts", ()), left.pop("rounds", VALIDATE_ROUNDS)
    wanted: tuple[Layout, ...] = ()
    runs = _with_secrets(runs, left.pop("set", ()), mistakes)
    with mistakes:
        wanted = as_layouts("layouts", layouts)
    with mistakes:
        if typed("rounds", rounds, int) < 1:
            raise UsageError(f"--rounds {rounds}: must be 1 or more")
    with mistakes:
        for run in runs:
            _check_importable(run.pipeline.target)
    limit = runs[0].options.cpus
    if left["cpus"] is None and limit is not None:
        is_local = left.get("launcher", "local") == "local"
        left["cpus"] = max(1, min(limit, len(os.sched_getaffinity(0)))) if is_local else limit
    options = read_options(mistakes, worker_memory_bytes=runs[0].options.worker_memory_bytes, current=_NO_LAUNCH, **left)
    if options is not None:
        engine.check(options, mistakes)
    mistakes.raise_any()
    assert options is not None
    return list(runs), options, wanted, rounds


def _with_secrets(runs: Sequence[records.Analysis], overrides: Any, mistakes: Mistakes) -> list[records.Analysis]:
    """Return the runs with the values that are not in their files, as they are secrets; what is still missing is noted.

    `overrides`: `key=value`, as `--set` takes them.
    """
    given: dict[str, Any] = {}
    for override in (overrides,) if isinstance(overrides, str) else overrides:
        key, equals, text = str(override).partition("=")
        with mistakes:
            if not equals:
                raise UsageError(f"--set {key}: write key=value or section.key=value")
            given[key.strip()] = load.value_of(key, text)
    found, used, masks = [], frozenset[str](), frozenset[str]()
    for run in runs:
        params_json, filled_keys, missing = filled(run.options.params_json, given)
        used |= filled_keys
        masks |= filled_keys | {*missing}
        for key in missing:
            mistakes.note(f"{key} of the params is not in the run, as it is a secret: give it, --set {key}=VALUE")
        found.append(replace(run, options=replace(run.options, params_json=params_json)))
        _check_words(run.pipeline.target, mistakes)
    for key in sorted({*given} - used):
        only = f"only secrets can be given, which are not in it: {', '.join(sorted(masks))}" if masks else "no value is missing"
        mistakes.note(f"--set {key}=…: the run has its params, so that it is launched as it was; {only}")
    return found


def _check_words(target: str, mistakes: Mistakes) -> None:
    """Note a script's command that was saved without its secrets."""
    if capture.is_script(target):
        with mistakes:
            words = shlex.split(capture.parse_script(target).command)
            for name in masked_options(words):
                mistakes.note(
                    f"{name} of the script's command is not in the run, as it is a secret: validate takes the whole command by "
                    "--target 'python …'; a script that reads it from its environment needs none"
                )


@contextlib.contextmanager
def hidden_in_errors(secrets: Secrets) -> Iterator[None]:
    """Take secrets out of what is raised: a traceback of the user's function may hold what it was called with."""
    try:
        yield
    except AnalyzerError as error:
        hide_in(error, secrets)
        raise


@contextlib.contextmanager
def _without_secrets(*runs: records.Analysis) -> Iterator[None]:
    """As `hidden_in_errors`, for runs that are launched again."""
    secrets = Secrets()
    for run in runs:
        secrets |= report.secrets_of(run.options, run.pipeline.target)
    with hidden_in_errors(secrets):
        yield


def _known(choices: Mapping[str, Any], names: Sequence[str], mistakes: Mistakes) -> dict[str, Any]:
    """The choices of these names; that there are others is noted."""
    unknown = sorted(set(choices) - set(names))
    if unknown:
        mistakes.note(f"unknown option {', '.join(unknown)}; there are: {', '.join(names)}")
    return {name: choice for name, choice in choices.items() if name in names}


def plan(
    found: records.Analysis,
    *,
    path: str | None = None,
    command: str = "Analysis.plan(…)",
    cluster: Cluster | Mapping[str, Any] | str | Path | None = None,
    mistakes: Mistakes | None = None,
    **choices: Any,
) -> Analysis:
    """A saved run planned again, see `Analysis.plan`. `path`: the file that it was read from."""
    noted = Mistakes() if mistakes is None else mistakes
    short = [name for name, field in SHORT.items() if field in replan.CHOICES]
    known = _known(choices, (*short, *replan.CHOICES), noted)
    declared, name = as_cluster(cluster, noted)
    if name is not None or declared is not None:
        known["cluster"] = name
    wanted = {SHORT.get(name, name): choice for name, choice in known.items() if choice is not None}
    merged = replan.with_choices(found, wanted, declared)
    options = read_options(noted, **merged | {"current": merged["current"] or _NO_LAUNCH})
    noted.raise_any()
    assert options is not None
    again = replan.plan_again(
        found,
        analysis.Job(
            target=found.pipeline.target,
            pickled=None,
            options=options if merged["current"] is not None else replace(options, current=None),
            host=found.host,
            cluster=found.cluster,
            consumption=found.consumption,
            tool=TOOL,
            command=command,
            created_at=host.utc_now(),
        ),
        tuple(wanted),
        declared=declared,
        path=path,
    )
    return _public(again)


def tune(dataset: Any, *, seconds: float = TUNE_SECONDS, select: Sequence[str] | str = (), ignore: Sequence[str] | str = ()) -> Any:
    """`dataset`, made faster where that can be proven to change nothing else; the very same object where nothing gains.

    For training scripts: nothing is cut off, put on disk, printed, or given another order than it promised. See `tuning` for the
    arguments, what was done, and what is raised.
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
    """What a `tf.data.Dataset` gives where it is used, in this process, and what is to be said about it.

    For training scripts and notebooks, before training begins. It reads the dataset itself, through an iterator of its own: a
    source that can be read only once loses elements, and the next order that `shuffle` gives is another one. What it finds is
    marked `isolation: none` and is no launch plan; `analyze` measures a function in processes of their own, and makes one.

    Args:
        demand: samples per second that the accelerator takes; or `step_time` in seconds, with `batch_size`.
        samples_per_element: how many samples one element holds, where the dataset does not say.
        headroom: what is to be left over, as a ratio of the demand.
        seconds: for reading, about.

    Raises:
        UsageError: not a `tf.data.Dataset`, a number that makes no sense or contradicts the dataset, or a dataset that cannot be
            read here (says why).
    """
    counts = {"batch_size": batch_size, "samples_per_element": samples_per_element}
    options = _for_here(seconds, RECOMMEND_SECONDS, demand=demand, step_time=step_time, headroom_ratio=headroom, **counts)
    return measured_here(dataset, options, consumption_of(options), seconds=seconds)


def _for_here(seconds: float, example: float, **choices: Any) -> Options:
    """The options of what is done inside this process. Raises UsageError: all that is wrong with them, or with the seconds."""
    mistakes = Mistakes()
    with mistakes:
        if not 0 < typed("seconds", seconds, float) < math.inf:
            raise UsageError(f"seconds={seconds:g}: give the seconds that measuring may take, for example {example:g}")
    options = read_options(mistakes, current=_NO_LAUNCH, **choices)
    mistakes.raise_any()
    assert options is not None
    return options


def load_analysis(path: str | Path) -> Analysis:
    """Reads a run file, or the run inside a saved HTML report. Raises UsageError naming the file and what is wrong in it."""
    return _public(report.load(path))


def _check_importable(target: str) -> None:
    """Raises TargetError for a target that workers cannot find by its name."""
    module, _, name = target.rpartition(":")
    if not capture.is_script(target) and (module == "__main__" or "<" in name):
        raise TargetError(
            f"this run is of {target}, a function handed over in Python, which no worker can import by that name; put the function "
            "into a file, analyze path/file.py:function, and validate the run of that"
        )
    _check_target(target)


def _check_target(target: Any) -> None:
    """Check that this is a function that can be handed over, or names a file that is there. Raises TargetError."""
    if isinstance(target, str):
        check_text("the target", target, TargetError)
        with contextlib.suppress(FileNotFoundError):  # it was removed: who looks for files there says so
            check_text("the current folder", os.getcwd(), TargetError)
        if capture.is_script(target):
            capture.parse_script(target)
        else:
            load.parse_target(target)
    elif type(target).__module__.startswith("tensorflow"):
        raise TargetError(
            "the target is a TensorFlow object; pass the function that builds the dataset, so that workers can call it "
            "(of a dataset itself, recommend_for(dataset) says what can be said inside this process)"
        )
    elif not callable(target):
        raise TargetError(
            f"the target is {reprlib.repr(target)}: pass the input function, or its name, path/file.py:function or "
            "package.module:function"
        )


def _name_of(function: Callable[..., object]) -> str:
    """`package.module:function`; of a partial, that of its function."""
    inner: Any = function.func if isinstance(function, functools.partial) else function
    return f"{inner.__module__}:{getattr(inner, '__qualname__', 'function')}"


def _params_json(params: Mapping[str, Any] | None) -> str | None:
    if params is None:
        return None
    if not isinstance(params, Mapping):
        raise UsageError(f"params={reprlib.repr(params)}: a dictionary is needed, as the input function gets it")
    try:
        return params_to_json(params)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"params must be plain values (numbers, texts, lists, mappings) to reach the workers: {error}") from None


def _pickle(function: Callable[..., object], folder: Path) -> Path:
    """The function, and where its modules are found, in a file for the workers."""
    import cloudpickle

    try:
        content = cloudpickle.dumps((list(sys.path), cloudpickle.dumps(function)))
    except Exception as error:  # whatever the user's objects raise when they are pickled
        raise TargetError(
            f"the input function cannot travel to the workers: {type(error).__name__}: {error}. Define it in a module, and let it "
            "build datasets, tables and locks itself instead of capturing them"
        ) from None
    return load.write_pickled(content, folder)


def _public(found: records.Analysis) -> Analysis:
    return _as(Analysis, found)


def _as(public: type[Public], found: Any) -> Public:
    return public(**{field.name: getattr(found, field.name) for field in fields(found)})


@contextlib.contextmanager
def _shown(progress: analysis.Progress | None, max_seconds: float) -> Iterator[analysis.Progress]:
    """The caller's function; without one a bar that lasts as long as the run does in a notebook, and nothing elsewhere."""
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
