"""The Python interface: keywords in, an Analysis out. The command line goes through the same door."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cs_input_analyzer import __version__, analysis, capture, engine, load, prove, records, report
from cs_input_analyzer.commands import check_lines, expand_nodelist
from cs_input_analyzer.demand import check_sources, consumption_of, with_mode
from cs_input_analyzer.errors import Interrupted, TargetError, UsageError
from cs_input_analyzer.launch import Launcher
from cs_input_analyzer.measure import host
from cs_input_analyzer.monitor.in_process import Recommendation
from cs_input_analyzer.monitor.in_process import recommend_for as measured_here
from cs_input_analyzer.patching import analyze_and_patch
from cs_input_analyzer.recommend import check_streaming_nodes
from cs_input_analyzer.records import Cluster, Layout, Options, Tool
from cs_input_analyzer.rules import check_codes
from cs_input_analyzer.units import parse_estimate
from cs_input_analyzer.validate import Trial
from cs_input_analyzer.validate import validate as launch_and_compare

PICKLED = "function.pkl"
# What the vendor's launcher takes where its options say nothing.
SITE_DEFAULTS = ("DEF_NODES", "DEF_TASKS", "DEF_CPUS")
MIN_SECONDS = 5.0
MIN_START_S = 5.0
VALIDATE_SECONDS = 120.0
TUNE_SECONDS = 30.0
RECOMMEND_SECONDS = 10.0
VALIDATE_ROUNDS = 3
# Samples of a step: a thousand times as many as the largest batches that networks were trained with.
MOST_BATCH_SAMPLES = 10**9
# What a validation takes of the options of an analysis: where and how long workers start, and where on Slurm.
PLACE_CHOICES = ("launcher", "start_timeout_s")
SLURM_CHOICES = ("partition", "exclude_nodes", "slurm_nodes", "queue_timeout_s", "shared_dir", "sbatch_args")
Target = str | Callable[..., object]
Story = Callable[[analysis.Job, Launcher, analysis.Progress], records.Analysis]


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis(records.Analysis):
    """A run, with the ways to write it down."""

    def to_json(self, path: str | Path) -> None:
        """Writes the run file that `load_analysis` and `cs_input_analyzer report` read."""
        report.write_text_atomically(path, report.render(self, "json"))

    def to_html(self, path: str | Path) -> None:
        """Writes the self-contained HTML report."""
        report.write_text_atomically(path, report.render(self, "html"))

    def to_csv(self, path: str | Path, table: str = "workers") -> None:
        """Writes one row per worker and layout; or another `table`, by its name in `tables()`."""
        report.write_text_atomically(path, report.render_table(self, table))

    def tables(self) -> dict[str, Any]:
        """Every table of the run as a pandas DataFrame: workers, measurements, ops, costs, launches, findings and more."""
        return report.data_frames(self)

    def _repr_html_(self) -> str:
        """The card that a notebook shows: the verdict, the launch, the findings with their gains."""
        return report.render_card(self)

    def validate(
        self,
        *,
        layouts: Sequence[Layout | str] = (),
        rounds: int = VALIDATE_ROUNDS,
        max_seconds: float = VALIDATE_SECONDS,
        cpus: int | None = None,
        progress: analysis.Progress | None = None,
        **choices: Any,
    ) -> Analysis:
        """This run with its `validation`: real workers launched here or on Slurm's nodes, beside what was predicted for them.

        Imports and runs the code that the run names: of a file that `load_analysis` read, trust its origin first.

        Args:
            layouts: what to launch, as `NxTxC`; none: the recommended layout, its part that fits, and its neighbours.
            rounds: fresh launches of each, if there is time.
            cpus: how many CPUs may be used; None: as many as in the run.
            choices: `launcher="slurm"`, and what says where on Slurm: `partition`, `exclude_nodes`, `slurm_nodes`,
                `queue_timeout_s`, `shared_dir`, `sbatch_args`.

        Raises:
            As the function `analyze`; Interrupted holds the run with what was measured.
        """
        found = validate(
            self, layouts=layouts, rounds=rounds, max_seconds=max_seconds, cpus=cpus, progress=progress or _silent, **choices
        )
        if found.validation is not None and found.validation.interrupted:
            error = Interrupted("interrupted; what was measured is in this error's `analysis`")
            error.analysis = found
            raise error
        return found

    def __str__(self) -> str:
        return report.render(self, "console")


def analyze(
    target: Target,
    params: Mapping[str, Any] | None = None,
    *,
    cluster: Cluster | str | None = None,
    progress: analysis.Progress | None = None,
    **choices: Any,
) -> Analysis:
    """Measures an input function and recommends a launch.

    Args:
        target: the input function, or its name: `package.module:function`, `path/file.py:function`.
        params: what the function is called with; None calls it without.
        cluster: the nodes to plan for: a Cluster, a YAML file, a preset's name, `slurm`, `local`; None is this host, or with
            `launcher="slurm"` what Slurm has.
        progress: called with what is going on and the share of the time budget that is spent.
        choices: the options of the command line, as in `records.Options`; `demand` (samples/s), `step_time` (s) with
            `batch_size`, or a `wafer` model say how fast the accelerator consumes; `current` and `probe_layouts` may be texts,
            `NxTxC`.

    Raises:
        UsageError, TargetError: something the caller can put right.
        InputFunctionError: the input function raised, hung, exited or gave no element.
        LaunchError: workers could not be started.
        Interrupted: Ctrl-C; its `analysis` holds what was measured, or None.
    """
    declared = cluster if isinstance(cluster, Cluster) else None
    name = cluster if isinstance(cluster, str) else None
    params_json = _params_json(params)
    options = make_options(params_json=params_json, cluster=name or (declared.name if declared else None), **choices)
    found = run(target, options, declared=declared, progress=progress or _silent, command="cs_input_analyzer.analyze(…)")
    if found.interrupted:
        error = Interrupted("interrupted; what was measured is in this error's `analysis`")
        error.analysis = found
        raise error
    return found


def run(
    target: Target,
    options: Options,
    *,
    declared: Cluster | None,
    progress: analysis.Progress,
    command: str,
    story: Story = analysis.analyze,
) -> Analysis:
    """One analysis, with the workers of the engine that is asked for. An interrupted one comes back marked.

    `story`: the stages to run. See `analyze` for what it raises.
    """
    if isinstance(target, str):
        _check_target(target)
        if capture.is_script(target):
            options = with_mode(options, script=(capture.parse_script(target).python,))
    consumption = consumption_of(options)
    options = with_mode(options, consumption=consumption)
    check_streaming_nodes(options)
    isolates = isinstance(target, str) and capture.is_script(target)
    opened = engine.open_engine(options, declared=declared, told=lambda what: progress(what, 0.0), isolates=isolates)
    launcher = opened.launcher
    try:
        job = analysis.Job(
            target=target if isinstance(target, str) else f"{target.__module__}:{getattr(target, '__qualname__', 'function')}",
            pickled=None if isinstance(target, str) else str(_pickle(target, launcher.folder)),
            options=options,
            host=opened.host,
            cluster=opened.cluster,
            consumption=consumption,
            tool=Tool(name="cs_input_analyzer", version=__version__),
            command=command,
            created_at=host.utc_now(),
        )
        found = story(job, launcher, progress)
    finally:
        launcher.close()
    return _public(found)


def tune_source(target: str, options: Options, *, progress: analysis.Progress, command: str) -> Analysis:
    """One analysis whose kept fixes are also a patch of the source, tried in a worker. See `analyze` for what it raises."""
    return run(target, options, declared=None, progress=progress, command=command, story=analyze_and_patch)


def validate(
    found: records.Analysis,
    *,
    layouts: Sequence[Layout | str],
    rounds: int,
    max_seconds: float,
    cpus: int | None,
    progress: analysis.Progress,
    **choices: Any,
) -> Analysis:
    """The validation of a run by real workers. An interrupted one comes back marked; see `Analysis.validate`."""
    if rounds < 1:
        raise UsageError(f"--rounds {rounds}: must be 1 or more")
    _check_seconds(max_seconds, choices.get("start_timeout_s", records.START_TIMEOUT_S))
    _check_importable(found.pipeline.target)
    is_local = choices.get("launcher", "local") == "local"
    limit = found.options.cpus
    if cpus is None and limit is not None:
        cpus = max(1, min(limit, len(os.sched_getaffinity(0)))) if is_local else limit
    unknown = sorted(set(choices) - {*PLACE_CHOICES, *SLURM_CHOICES})
    if unknown:
        raise UsageError(f"unknown option {', '.join(unknown)}; there are: {', '.join((*PLACE_CHOICES, *SLURM_CHOICES))}")
    choices["exclude_nodes"] = _node_names(choices.get("exclude_nodes", ()))
    options = Options(cpus=cpus, max_seconds=max_seconds, worker_memory_bytes=found.options.worker_memory_bytes, **choices)
    _check_slurm(options)
    isolates = capture.is_script(found.pipeline.target)
    opened = engine.open_engine(options, declared=None, told=lambda what: progress(what, 0.0), isolates=isolates)
    trial = Trial(
        run=found,
        layouts=tuple(layout for text in layouts if (layout := _layout(text))),
        rounds=rounds,
        max_seconds=max_seconds,
        host=opened.host,
        tool=Tool(name="cs_input_analyzer", version=__version__),
        nodes=opened.launcher.nodes,
    )
    try:
        return _public(launch_and_compare(trial, opened.launcher, progress))
    finally:
        opened.launcher.close()


def tune(dataset: Any, *, seconds: float = TUNE_SECONDS) -> Any:
    """`dataset`, made faster where that can be proven to change nothing else; the very same object where nothing gains.

    For training scripts: nothing is cut off, put on disk, printed, or given another order than it promised. See `tuning` for what
    was done, and what is raised.
    """
    return tuning(dataset, seconds=seconds).dataset


def tuning(dataset: Any, *, seconds: float = TUNE_SECONDS, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> prove.Tuned:
    """As `tune`, with the record of it: the dataset, every finding with its proof and gain, and what the kept fixes do together.

    Args:
        dataset: a `tf.data.Dataset`, before it is distributed over a strategy.
        seconds: for proving and measuring, about; they are spent in this process, so call it before training begins.
        select, ignore: codes of the rules whose fixes are wanted, or not; as `--select` and `--ignore`.

    Raises:
        UsageError: not a `tf.data.Dataset`, inside a `tf.function`, or an unknown code.
    """
    if not (math.isfinite(seconds) and seconds > 0):
        raise UsageError(f"seconds={seconds:g}: give the seconds that measuring may take, for example 30")
    return prove.tune(dataset, seconds=seconds, select=check_codes(select), ignore=check_codes(ignore))


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
        samples_per_element: how many samples one element holds, where the dataset does not tell.
        headroom: what is to be left over, as a ratio of the demand.
        seconds: for reading, about.

    Raises:
        UsageError: not a `tf.data.Dataset`, a number that makes no sense or contradicts the dataset, or a dataset that cannot be
            read here (says why).
    """
    if not (math.isfinite(seconds) and seconds > 0):
        raise UsageError(f"seconds={seconds:g}: give the seconds that measuring may take, for example {RECOMMEND_SECONDS:g}")
    here = Layout(nodes=1, tasks_per_node=1, cpus_per_task=1)  # no launch is judged, whatever the site's defaults are
    options = make_options(
        demand=demand,
        step_time=step_time,
        batch_size=batch_size,
        samples_per_element=samples_per_element,
        headroom_ratio=headroom,
        current=here,
    )
    return measured_here(
        dataset,
        consumption_of(options),
        batch_size=batch_size,
        samples_per_element=samples_per_element,
        headroom_ratio=headroom,
        seconds=seconds,
    )


def load_analysis(path: str | Path) -> Analysis:
    """Reads a run file, or the run inside a saved HTML report. Raises UsageError naming the file and what is wrong in it."""
    return _public(report.load(path))


def make_options(
    *,
    demand: float | None = None,
    step_time: float | None = None,
    current: Layout | str | None = None,
    probe_layouts: tuple[Layout | str, ...] = (),
    **choices: Any,
) -> Options:
    """The options record, checked. Raises UsageError naming the option."""
    known = {field.name for field in fields(Options)}
    speed = choices.get("node_speed_ratio")
    unknown = sorted(set(choices) - known)
    if unknown:
        raise UsageError(f"unknown option {', '.join(unknown)}; there are: demand, step_time, {', '.join(sorted(known))}")
    options = Options(
        **{
            **choices,
            "demand_samples_per_s": demand if demand is not None else choices.get("demand_samples_per_s"),
            "step_time_s": step_time if step_time is not None else choices.get("step_time_s"),
            "node_speed_ratio": parse_estimate(speed) if isinstance(speed, (str, int, float)) else speed,
            "select": _codes(choices.get("select", ())),
            "ignore": _codes(choices.get("ignore", ())),
            "mount_dirs": _folders(choices.get("mount_dirs", ())),
            "stand_ins": _packages(choices.get("stand_ins", ())),
            "exclude_nodes": _node_names(choices.get("exclude_nodes", ())),
            "current": _layout(current) or current_from(os.environ),
            "probe_layouts": tuple(layout for text in probe_layouts if (layout := _layout(text))),
        }
    )
    options = with_mode(options)
    _check(options)
    return options


def current_from(environ: Mapping[str, str]) -> Layout | None:
    """The launch in use today, where the site's DEF_NODES, DEF_TASKS and DEF_CPUS are all set.

    Raises:
        UsageError: one of them is no number; also where another is not set.
    """
    values = {name: environ.get(name, "").strip() for name in SITE_DEFAULTS}
    for name, value in values.items():
        if value and not re.fullmatch("[1-9][0-9]{0,6}", value):
            raise UsageError(f"{name}={value}: must be a whole number, 1 or more; set it right, unset it, or give --current NxTxC")
    return Layout.parse("x".join(values.values())) if all(values.values()) else None


def unset_defaults(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Which of the site's variables lack for a launch in use today; none where all are set, or at most DEF_NODES, which alone says
    how many nodes there are."""
    unset = tuple(name for name in SITE_DEFAULTS if not environ.get(name, "").strip())
    return () if set(unset) >= set(SITE_DEFAULTS[1:]) else unset


def _check(options: Options) -> None:
    check_sources(options)
    if options.node_speed_ratio is not None and options.node_reference is not None:
        raise UsageError("--node-speed and --node-reference both say how fast a node's CPU is: give one of them")
    for name, count in (("--batch-size", options.batch_size), ("--samples-per-element", options.samples_per_element)):
        if count is not None and count < 1:
            raise UsageError(f"{name} {count}: must be 1 or more")
        if count is not None and count > MOST_BATCH_SAMPLES:
            raise UsageError(f"{name}: more than {MOST_BATCH_SAMPLES:,} samples is a typing error")
    _check_seconds(options.max_seconds, options.start_timeout_s)
    if not 0 < options.target_error_ratio < 1:
        raise UsageError(f"--target-error {options.target_error_ratio:g}: a ratio between 0 and 1, for example 0.02")
    if not 0 <= options.headroom_ratio <= 10:
        raise UsageError(f"--headroom {options.headroom_ratio:g}: a ratio of the demand, for example 0.1 for 10 %")
    if options.single_task_nodes is not None and options.single_task_nodes < 0:
        raise UsageError(f"--single-task-nodes {options.single_task_nodes}: must be 0 or more")
    check_streaming_nodes(options)
    check_lines(options)
    _check_slurm(options)
    for layout in options.probe_layouts:
        if layout.nodes != 1 and options.launcher != "slurm":
            raise UsageError(f"--probe-layouts {layout}: this host is one node; --launcher slurm measures on several")
    if options.probe_layouts and not any(layout.tasks == 1 for layout in options.probe_layouts):
        raise UsageError("--probe-layouts needs a layout of one task, for example 1x1x1: the others are compared with it")


def _check_slurm(options: Options) -> None:
    if options.slurm_nodes is not None and options.slurm_nodes < 1:
        raise UsageError(f"--slurm-nodes {options.slurm_nodes}: must be 1 or more")
    if not (math.isfinite(options.queue_timeout_s) and options.queue_timeout_s > 0):
        raise UsageError(f"--queue-timeout {options.queue_timeout_s:g}: must be a positive number of seconds")
    if options.launcher != "slurm":
        only = {"--slurm-nodes": options.slurm_nodes, "--shared-dir": options.shared_dir}
        idle = [name for name, value in only.items() if value is not None]
        if options.cluster != "slurm":
            both = {"--partition": options.partition, "--exclude-nodes": options.exclude_nodes or None}
            idle += [name for name, value in both.items() if value is not None]
        if idle:
            raise UsageError(f"{', '.join(idle)}: nothing asks Slurm here; add --launcher slurm, or --cluster slurm to plan alone")


def _check_seconds(max_seconds: float, start_timeout_s: float) -> None:
    if not (math.isfinite(max_seconds) and max_seconds >= MIN_SECONDS):
        raise UsageError(f"--max-seconds {max_seconds:g}: too short to measure anything; give {MIN_SECONDS:g} or more")
    if not (math.isfinite(start_timeout_s) and start_timeout_s >= MIN_START_S):
        raise UsageError(
            f"--start-timeout {start_timeout_s:g}: importing TensorFlow alone takes seconds; give {MIN_START_S:g} or more"
        )


def _check_importable(target: str) -> None:
    """Whether workers can be told this target by its name. Raises TargetError."""
    if capture.is_script(target):
        capture.parse_script(target)
        return
    module, _, name = target.rpartition(":")
    if module == "__main__" or "<" in name:
        raise TargetError(
            f"this run is of {target}, a function handed over in Python, which no worker can import by that name; put the function "
            "into a file, analyze path/file.py:function, and validate the run of that"
        )
    load.parse_target(target)


def _check_target(target: str) -> None:
    """Whether a file that the target names is there. Raises TargetError."""
    if capture.is_script(target):
        capture.parse_script(target)
    else:
        load.parse_target(target)


def _codes(codes: str | Sequence[str]) -> tuple[str, ...]:
    """Codes of rules as a tuple or as `CSI101,CSI2`. Raises UsageError for one that fits no rule."""
    return check_codes([part.strip() for part in codes.split(",") if part.strip()] if isinstance(codes, str) else codes)


def _folders(folders: str | Sequence[str]) -> tuple[str, ...]:
    """Folders as a tuple or as `/a,/b`."""
    return tuple(part for part in folders.split(",") if part) if isinstance(folders, str) else tuple(folders)


def _packages(names: str | Sequence[str]) -> tuple[str, ...]:
    """Names of packages as a tuple or as `spacy,horovod`. Raises UsageError for what cannot be one."""
    packages = tuple(part.strip() for part in (names.split(",") if isinstance(names, str) else names) if part.strip())
    for name in packages:
        if not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(f"--stand-in {name!r}: write the names by which packages are imported, for example spacy,horovod")
    return packages


def _node_names(nodes: str | Sequence[str]) -> tuple[str, ...]:
    """Names of nodes, from node lists or as `n[1-3],n7`. Raises UsageError."""
    lists = [nodes] if isinstance(nodes, str) else nodes
    return tuple(name for text in lists if text.strip() for name in expand_nodelist(text))


def _layout(layout: Layout | str | None) -> Layout | None:
    """Raises UsageError, also for a record with numbers that cannot be written."""
    return None if layout is None else Layout.parse(str(layout))


def _params_json(params: Mapping[str, Any] | None) -> str | None:
    if params is None:
        return None
    try:
        return json.dumps(params)
    except (TypeError, ValueError) as error:
        raise UsageError(f"params must be plain values (numbers, texts, lists, mappings) to reach the workers: {error}") from None


def _pickle(function: Callable[..., object], folder: Path) -> Path:
    """The function, and where its modules are found, in a file for the workers."""
    import cloudpickle

    if type(function).__module__.startswith("tensorflow"):
        raise TargetError(
            "the target is a TensorFlow object; pass the function that builds the dataset, so that workers can call it "
            "(of a dataset itself, recommend_for(dataset) tells what can be told inside this process)"
        )
    try:
        content = cloudpickle.dumps((list(sys.path), cloudpickle.dumps(function)))
    except Exception as error:  # whatever the user's objects raise when they are pickled
        raise TargetError(
            f"the input function cannot travel to the workers: {type(error).__name__}: {error}. Define it in a module, and let it "
            "build datasets, tables and locks itself instead of capturing them"
        ) from None
    path = folder / PICKLED
    path.write_bytes(content)
    return path


def _public(found: records.Analysis) -> Analysis:
    return Analysis(**{field.name: getattr(found, field.name) for field in fields(found)})


def _silent(what: str, spent_ratio: float) -> None:
    del what, spent_ratio
