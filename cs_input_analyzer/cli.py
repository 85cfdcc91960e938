"""The command line: options in, exit code out. Nothing but this module catches our errors or prints."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cs_input_analyzer import __version__
from cs_input_analyzer.errors import AnalyzerError, LaunchError, UsageError

if TYPE_CHECKING:
    from cs_input_analyzer import records
    from cs_input_analyzer.api import Analysis
    from cs_input_analyzer.records import Estimate, Layout, Options
    from cs_input_analyzer.report import Format

Function = TypeVar("Function", bound=Callable[..., Any])

EXIT_TRIPPED = 1
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
# The public run that the demo plans for: FC-MNIST at 479,188.55 samples/s on a CS-2, release 1.5 (Argonne's AI testbed
# documentation, "Steps to run a model"), whose support cluster is the preset.
DEMO_SAMPLE = "fc_mnist"
DEMO_DEMAND_PER_S = 479_188.55
DEMO_CLUSTER = "alcf-cs2-01"


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "-V", "--version", prog_name="cs_input_analyzer")
def cli() -> None:
    """Measure a tf.data input function; learn how many nodes, tasks and CPUs feed the accelerator."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; the table of codes is in docs/interfaces.md."""
    try:
        result = cli.main(
            args=list(arguments) if arguments is not None else None, prog_name="cs_input_analyzer", standalone_mode=False
        )
        return result if isinstance(result, int) else 0
    except click.Abort:
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except AnalyzerError as error:
        _complain(str(error), getattr(error, "details", ""))
        return error.exit_code
    except KeyboardInterrupt:
        _complain("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output left, as `head` does
        _hide_stdout()
        return EXIT_BUG
    except _OutputError as error:
        _hide_stdout()
        _complain(f"the report could not be printed: {error}; free some space there, or save it with --json FILE elsewhere")
        return LaunchError.exit_code
    except Exception:
        traceback.print_exc()
        _complain("this is a bug of cs_input_analyzer; please report it with the lines above")
        return EXIT_BUG


# --- options shared by the commands that measure -----------------------------------------------------------------------------


def _parsed(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """A callback that reads an option's text and blames the option when it cannot."""

    def convert(context: click.Context, option: click.Parameter, text: str | None) -> Any:
        try:
            return None if text is None else parse(text)
        except UsageError as error:
            raise click.BadParameter(str(error), context, option) from None

    return convert


def _size(text: str) -> int:
    from cs_input_analyzer import units

    return units.parse_bytes(text)


def _rate(text: str) -> float:
    from cs_input_analyzer import units

    return units.parse_bytes_per_s(text)


def _layouts(text: str) -> tuple[Layout, ...]:
    from cs_input_analyzer import records

    return tuple(records.Layout.parse(part) for part in text.split(",") if part.strip())


def _estimate(text: str) -> Estimate:
    from cs_input_analyzer import units

    return units.parse_estimate(text)


_SIZE, _RATE, _LAYOUTS, _ESTIMATE = _parsed(_size), _parsed(_rate), _parsed(_layouts), _parsed(_estimate)


def _max_seconds(default: float) -> tuple[Callable[[Function], Function]]:
    return (click.option("--max-seconds", type=float, default=default, show_default=True, help="Time for the whole run."),)


_TARGET_OPTIONS = (
    click.option("--params", "params_file", metavar="FILE.yaml", help="Params for the input function."),
    click.option(
        "--set",
        "overrides",
        metavar="KEY=VALUE",
        multiple=True,
        help="Override one value of the params; a.b=3 goes into section a.",
    ),
    click.option(
        "--mode", type=click.Choice(["train", "eval"]), default="train", show_default=True, help="What the function is asked for."
    ),
)
_WAFER_MODES = click.Choice(["pipelined", "weight_streaming"])
_DTYPES = click.Choice(["fp16", "cbfloat16", "fp32"])
_WAFER_OPTIONS = (
    click.option("--system", metavar="CS-2", help="The wafer: CS-1, CS-2 (default) or CS-3."),
    click.option("--sequence-length", type=int, metavar="N", help="Tokens of a sample, for a --wafer model that has them."),
    click.option("--systems", type=int, default=1, show_default=True, help="Wafers that train together."),
    click.option("--dtype", type=_DTYPES, default="fp16", show_default=True, help="What the wafer computes in."),
    click.option(
        "--calibrate", "calibrate_samples_per_s", type=float, metavar="RATE", help="A rate measured with exactly these options."
    ),
)
_DEMAND_OPTIONS = (
    click.option("--demand", type=float, metavar="SAMPLES/s", help="What the accelerator consumes."),
    click.option("--step-time", type=float, metavar="S", help="Seconds of one accelerator step; with --batch-size."),
    click.option("--batch-size", type=int, metavar="N", help="Samples per step; without one: samples per element, where unknown."),
    click.option("--wafer", metavar="MODEL", help="The network that trains: a built-in name or a YAML file; with --batch-size."),
    click.option("--wafer-mode", type=_WAFER_MODES, help="How the wafer runs it; by default whichever fits."),
    *_WAFER_OPTIONS,
    click.option("--compile-report", metavar="FILE", help="The compiler's compile_report.txt: its estimate is the demand."),
    click.option("--performance-json", metavar="FILE", help="The performance.json of a finished run: its rate is the demand."),
)
_CLUSTER_OPTIONS = (
    click.option(
        "--cluster", metavar="FILE|PRESET|local", help="The nodes to plan for: a YAML file, a preset, or this host (default)."
    ),
    click.option("--nodes", type=int, metavar="N", help="Nodes of the cluster."),
    click.option("--cpus-per-node", type=int, metavar="N", help="CPUs of a node as Slurm counts them."),
    click.option("--memory-per-node", "memory_bytes_per_node", callback=_SIZE, metavar="128GiB", help="Memory of a node."),
    click.option(
        "--storage-bandwidth", "storage_bytes_per_s", callback=_RATE, metavar="5GB/s", help="Ceiling of the shared file system."
    ),
    click.option(
        "--network-bandwidth", "network_bytes_per_s_per_node", callback=_RATE, metavar="12GB/s", help="Of one node, each way."
    ),
    click.option("--threads-per-core", type=int, metavar="N", help="Hardware threads of a core of a node: 2 where SMT is on."),
    click.option(
        "--memory-bandwidth", "memory_bandwidth_bytes_per_s_per_node", callback=_RATE, metavar="100GB/s", help="Of one node."
    ),
    click.option(
        "--node-speed",
        "node_speed_ratio",
        callback=_ESTIMATE,
        metavar="RATIO",
        help="Speed of a node's CPU over one of this host: 1.2, or 1.2+-5% with its error.",
    ),
    click.option("--node-reference", metavar="RATE", help="The same by measuring: what `reference` prints on a node."),
    click.option(
        "--current",
        callback=_LAYOUTS,
        metavar="NxTxC",
        help="The launch in use today, to be judged; DEF_NODES, DEF_TASKS, DEF_CPUS.",
    ),
    click.option(
        "--single-task-nodes", type=int, metavar="S", help="Nodes of one task that does not stream (default: 1, on one node 0)."
    ),
    click.option("--cyclic", is_flag=True, help="Distribute tasks over nodes in turn."),
    click.option(
        "--feed",
        type=click.Choice(["round-robin", "first-come"]),
        default="round-robin",
        show_default=True,
        help="How the accelerator takes batches: from each worker in turn, or from whichever is ready.",
    ),
    click.option(
        "--headroom",
        "headroom_ratio",
        type=float,
        default=0.1,
        show_default=True,
        help="Supply to spare, as a ratio of the demand.",
    ),
)
_CPUS = click.option("--cpus", type=int, metavar="N", help="Use at most so many CPUs of this host.")
_MEASURE_OPTIONS = (
    click.option(
        "--target-error", "target_error_ratio", type=float, default=0.02, show_default=True, help="Stop at this half-width."
    ),
    click.option(
        "--probe-layouts", callback=_LAYOUTS, default="", metavar="NxTxC,…", help="What to measure, instead of our choice."
    ),
    click.option(
        "--cache",
        type=click.Choice(["as-is", "warm", "cold"]),
        default="as-is",
        show_default=True,
        help="Page cache of the pipeline's own files before each window: left, filled, or emptied.",
    ),
    _CPUS,
    click.option("--worker-memory", "worker_memory_bytes", callback=_SIZE, metavar="8GiB", help="End a worker that holds more."),
    click.option("--launcher", type=click.Choice(["local"]), default="local", show_default=True, help="Where workers run."),
)

_LAUNCH_OPTIONS = (
    click.option("--train-command", metavar="COMMAND", help="Your training command, for the launch lines."),
    click.option("--srun-args", metavar="ARGS", help="More arguments for srun."),
    click.option("--sbatch-args", metavar="ARGS", help="More arguments for sbatch."),
    click.option("--container", metavar="IMAGE", help="Singularity image that the tasks run in."),
    click.option("--mount-dirs", metavar="A,B", help="Folders to mount in the container."),
)
_FILE_OPTIONS = (
    click.option("--json", "json_file", metavar="FILE", help="Write the run; `report FILE` shows it again."),
    click.option("--html", "html_file", metavar="FILE", help="Write the self-contained report."),
    click.option("--csv", "csv_file", metavar="FILE", help="Write the workers' table."),
    click.option("-q", "--quiet", is_flag=True, help="No progress, no report: only files and the exit code."),
    click.option("-v", "--verbose", is_flag=True, help="Show the traceback of our own errors too."),
)
_OUTPUT_OPTIONS = (
    click.option(
        "--fail-on", type=click.Choice(["input-bound", "warning"]), help="Exit 1 on this verdict, or on a warning or error."
    ),
    *_FILE_OPTIONS,
)


def _with(*groups: tuple[Callable[[Function], Function], ...]) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        for option in reversed([option for group in groups for option in group]):
            function = option(function)
        return function

    return decorate


# --- commands ----------------------------------------------------------------------------------------------------------------


@cli.command()
@click.argument("target")
@_with(_TARGET_OPTIONS, _DEMAND_OPTIONS, _CLUSTER_OPTIONS, _max_seconds(60.0), _MEASURE_OPTIONS, _LAUNCH_OPTIONS, _OUTPUT_OPTIONS)
def analyze(target: str, params_file: str | None, overrides: tuple[str, ...], **choices: Any) -> int:
    """Measure TARGET, plan a launch, and report.

    TARGET is an input function, package.module:function or path/file.py:function.
    """
    return _analyze(target, params_file, overrides, choices)


@cli.command()
@click.option("--sample", metavar="NAME", default=DEMO_SAMPLE, show_default=True, help="Which of the sample pipelines.")
@_with(_DEMAND_OPTIONS, _CLUSTER_OPTIONS, _max_seconds(35.0), _MEASURE_OPTIONS, _OUTPUT_OPTIONS)
def demo(sample: str, **choices: Any) -> int:
    """Run the whole analysis on a small dataset that is written for it.

    The data go to your cache folder; the report goes to the terminal, to demo_report.html and to demo_run.json.
    """
    import platformdirs

    import sample_pipelines

    try:
        found = sample_pipelines.find(sample)
    except KeyError as error:
        raise UsageError(f"--sample {sample}: {error.args[0]}") from None
    folder = Path(platformdirs.user_cache_dir("cs_input_analyzer")) / "samples" / sample
    with _Progress(choices["quiet"]) as progress:
        params_file = _write_sample(sample, folder, progress)
    choices["json_file"] = choices["json_file"] or "demo_run.json"
    choices["html_file"] = choices["html_file"] or "demo_report.html"
    if sample == DEMO_SAMPLE and choices["demand"] is None and choices["step_time"] is None:
        choices["demand"] = DEMO_DEMAND_PER_S
    if all(choices[name] is None for name in ("cluster", "nodes", "cpus_per_node", "memory_bytes_per_node")):
        choices["cluster"] = DEMO_CLUSTER
    return _analyze(found.target, str(params_file), (), choices)


@cli.command()
@click.argument("run_file", metavar="RUN.json|RUN.html")
@click.option(
    "--format",
    "form",
    type=click.Choice(["console", "html", "json", "csv", "sbatch"]),
    help="By the ending of FILE when not given; console on the terminal.",
)
@click.option("-o", "--output", metavar="FILE", help="Write there instead of to the terminal.")
def report(run_file: str, form: Format | None, output: str | None) -> int:
    """Render a saved run again, from its JSON or its HTML."""
    from cs_input_analyzer import report as reports

    found = reports.load(run_file)
    _tell_versions(found)
    wanted: Format = form or (reports.format_of(output) if output else "console")
    if output is not None:
        reports.write_text_atomically(output, reports.render(found, wanted))
    else:
        _print(reports.render(found, wanted, width=_width(), color=_is_terminal(sys.stdout)))
    return 0


@cli.command()
@click.argument("run_file", metavar="RUN.json|RUN.html")
@click.option("--layouts", callback=_LAYOUTS, metavar="1xTxC,…", help="What to launch, instead of the plan and its neighbours.")
@click.option("--rounds", type=int, default=3, show_default=True, help="Fresh launches of each layout, if there is time.")
@_with((_CPUS,), _max_seconds(120.0), _FILE_OPTIONS)
def validate(run_file: str, layouts: tuple[Layout, ...] | None, **choices: Any) -> int:
    """Launch what a saved run recommends, and its neighbours, on this host; show predicted against measured.

    The input function runs again, so its code and its data must be where they were. RUN stays as it is; --json FILE writes the run
    with the result in it.
    """
    from cs_input_analyzer import api
    from cs_input_analyzer import report as reports

    if layouts == ():
        raise UsageError("--layouts names no layout; write for example --layouts 1x1x1,1x2x1")
    run = reports.load(run_file)
    outputs, is_quiet, is_verbose = _outputs(choices), choices.pop("quiet"), choices.pop("verbose")
    found = _measured(is_quiet, is_verbose, lambda told: api.validate(run, layouts=layouts or (), progress=told, **choices))
    tried = found.validation
    assert tried is not None
    _deliver(found, outputs, is_quiet, lambda **shape: reports.render_validation(tried, **shape))
    if not outputs and not is_quiet:
        click.echo("this is written nowhere: --json FILE writes the run with it, --html FILE its report", err=True)
    return _interrupted() if tried.interrupted else 0


@cli.command("tf-config")
def tf_config() -> int:
    """Print the TF_CONFIG of this Slurm task; the sbatch file uses it."""
    from cs_input_analyzer import commands

    click.echo(commands.tf_config(os.environ))
    return 0


@cli.command()
@click.argument("model")
@click.option("--mode", type=_WAFER_MODES, help="How the wafer runs it; by default whichever fits.")
@click.option("--batch-size", type=int, metavar="N", required=True, help="Samples per step, of all systems together.")
@_with(_WAFER_OPTIONS)
@click.option("--system-file", metavar="FILE", help="A YAML file with systems of your own.")
@click.option("--json", "json_file", metavar="FILE", help="Write the numbers there too.")
def wafer(model: str, json_file: str | None, system: str | None, system_file: str | None, **choices: Any) -> int:
    """Predict how fast a wafer consumes samples when it trains MODEL.

    MODEL is a built-in network (bert_large, gpt2_small, gptj_6b, unet, ...) or a YAML file.
    """
    from cs_input_analyzer import report
    from wafer_model import WaferModelError
    from wafer_model.ask import ask

    try:
        found = ask(model, system=system or "CS-2", system_file=Path(system_file) if system_file else None, **choices)
    except WaferModelError as error:
        raise UsageError(str(error)) from None
    _print(report.render_wafer(found, width=_width(), color=_is_terminal(sys.stdout)))
    if json_file is not None:
        report.write_text_atomically(json_file, report.wafer_json(found))
    return 0


@cli.command()
@_with((_CPUS,))
def reference(cpus: int | None) -> int:
    """Print how fast this host's CPUs run a fixed loop, as --node-reference takes it on another host.

    The loop runs for a second, on one CPU of every core at once.
    """
    from cs_input_analyzer import cluster
    from cs_input_analyzer.measure import host, node_speed

    here = host.read_host(cpus)
    cores = node_speed.one_cpu_per_core(here.cpu_budget)
    click.echo(cluster.format_reference(node_speed.node_rate(cores), here.python_version))
    _complain(f"steps in a CPU second, the loop on {len(cores)} core(s) at once; on the host that measures: --node-reference")
    return 0


@cli.command("rules")
def list_rules() -> int:
    """List the rules that findings come from."""
    from cs_input_analyzer import rules

    for rule in rules.RULES:
        click.echo(f"{rule.CODE}  {rule.NAME:28s} {_first_line(rule)}")
    return 0


@cli.command()
@click.argument("code")
def explain(code: str) -> int:
    """Explain the rule CODE: what it means, what to do, when it is silent."""
    from cs_input_analyzer import rules

    for rule in rules.RULES:
        if code.upper() == rule.CODE or code == rule.NAME:
            click.echo(f"{rule.CODE} {rule.NAME}\n\n{(rule.__doc__ or '').strip()}")
            return 0
    raise UsageError(f"there is no rule {code}; `cs_input_analyzer rules` lists them")


# --- the main job ------------------------------------------------------------------------------------------------------------


def _analyze(target: str, params_file: str | None, overrides: tuple[str, ...], choices: dict[str, Any]) -> int:
    import json

    from cs_input_analyzer import api, load
    from cs_input_analyzer import report as reports

    outputs = _outputs(choices)
    fail_on, is_quiet, is_verbose = choices.pop("fail_on"), choices.pop("quiet"), choices.pop("verbose")
    params = load.load_params(params_file, overrides)
    options = _options(api.make_options, None if params is None else json.dumps(params, default=str), choices)
    command = shlex.join(["cs_input_analyzer", *sys.argv[1:]])
    found = _measured(is_quiet, is_verbose, lambda told: api.run(target, options, declared=None, progress=told, command=command))
    _deliver(found, outputs, is_quiet, lambda **shape: reports.render(found, "console", **shape))
    if found.interrupted:
        return _interrupted()
    return EXIT_TRIPPED if _is_tripped(found, fail_on) else 0


def _outputs(choices: dict[str, Any]) -> dict[Format, str]:
    """Takes the files to write out of the choices. Raises UsageError for one that cannot be written."""
    from cs_input_analyzer import report as reports
    from cs_input_analyzer.report.files import check_writable

    outputs = {form: file for form in reports.FORMATS if (file := choices.pop(f"{form}_file", None))}
    for path in outputs.values():
        check_writable(path)
    return outputs


def _measured(is_quiet: bool, is_verbose: bool, measure: Callable[[Callable[[str, float], None]], Analysis]) -> Analysis:
    """What `measure` found. It is told how to show progress, and may be stopped by Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Slurm's way to say stop: keep what was measured
    try:
        with _Progress(is_quiet) as progress:
            return measure(progress)
    except AnalyzerError:
        if is_verbose:
            traceback.print_exc()
        raise


def _interrupted() -> int:
    _complain("interrupted: the report holds what was measured until then")
    return EXIT_INTERRUPTED


def _deliver(found: Analysis, outputs: dict[Format, str], is_quiet: bool, rendered: Callable[..., str]) -> None:
    """Writes all the files and prints what is `rendered`. One that cannot be written does not take the others along.

    Nor what was measured: then the report is printed even if quiet was asked for. Raises the last failure.
    """
    from cs_input_analyzer import report as reports

    written, failures = [], []
    for form, path in outputs.items():
        try:
            reports.write_text_atomically(path, reports.render(found, form))
            written.append(f"{form} written to {path}")
        except AnalyzerError as error:
            failures.append(error)
    if failures or not is_quiet:
        _print(rendered(width=_width(), color=_is_terminal(sys.stdout)))
    if not is_quiet:
        for line in written:
            click.echo(line, err=True)
    for failure in failures[:-1]:
        _complain(str(failure))
    if failures:
        raise failures[-1]


def _write_sample(sample: str, folder: Path, progress: Callable[[str, float], None]) -> Path:
    """Writes the data in a process of its own, so that TensorFlow and its chatter stay out of this one. Gives the params file."""
    import subprocess

    root = str(Path(__file__).resolve().parent.parent)
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "-1",
        "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-m", "sample_pipelines", sample, str(folder)]
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as writer:
        assert writer.stdout is not None
        assert writer.stderr is not None
        for line in writer.stdout:
            last = line.strip()
            done, slash, whole = last.partition("/")
            if slash and done.isdigit() and whole.isdigit():
                progress(f"writing the {sample} data", int(done) / max(1, int(whole)))
        errors = writer.stderr.read()
    if writer.returncode != 0:
        lines = errors.strip().splitlines() or ["no word why"]
        raise LaunchError(f"the sample data could not be written to {folder}: {lines[-1]}")
    return Path(last)


def _options(make: Callable[..., Options], params_json: str | None, choices: dict[str, Any]) -> Options:
    current = choices.pop("current", None)
    if current is not None and len(current) != 1:
        raise UsageError("--current takes one layout, for example 4x8x4")
    mounts = choices.pop("mount_dirs", None)
    return make(
        params_json=params_json,
        current=current[0] if current else None,
        mount_dirs=tuple(part for part in (mounts or "").split(",") if part),
        **choices,
    )


def _is_tripped(found: Analysis, fail_on: str | None) -> bool:
    if fail_on == "input-bound":
        return found.verdict == "input_bound"
    return fail_on == "warning" and any(finding.severity in ("warning", "error") for finding in found.findings)


# --- the terminal ------------------------------------------------------------------------------------------------------------


class _Progress:
    """Progress on stderr: a live bar on a terminal, one plain line per step elsewhere, nothing when quiet."""

    def __init__(self, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._bar: Any = None
        self._task: Any = None
        self._last = ""

    def __enter__(self) -> _Progress:
        if not self._is_quiet and _is_terminal(sys.stderr):
            from rich.console import Console
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("starting", total=1.0)
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, what: str, done_ratio: float) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=what, completed=min(1.0, done_ratio))
        elif not self._is_quiet and what != self._last:
            click.echo(f"cs_input_analyzer: {what}", err=True)
        self._last = what


def _tell_versions(found: records.Analysis) -> None:
    """Says on stderr that a saved run is of another TensorFlow than the one that is installed here."""
    from cs_input_analyzer.measure.host import tensorflow_version

    then, here = found.host.tensorflow_version, tensorflow_version()
    if then is not None and here is not None and then != here:
        _complain(
            f"warning: this run was measured with TensorFlow {then}, here is {here}: the pipeline may be faster or slower with it; "
            "analyze it again before you launch with this version"
        )


def _complain(message: str, details: str = "") -> None:
    if details:
        click.echo(details.rstrip(), err=True)
    click.echo(f"cs_input_analyzer: {message}", err=True)


class _OutputError(Exception):
    """Standard output goes to a full disk."""


def _print(text: str) -> None:
    try:
        click.echo(text.rstrip("\n"), color=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _OutputError((error.strerror or str(error)).lower()) from None


def _hide_stdout() -> None:
    """So that the interpreter does not fail once more when it flushes what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_terminal(stream: Any) -> bool:
    return bool(stream.isatty()) and "NO_COLOR" not in os.environ


def _width() -> int | None:
    return None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "") or 80)


def _first_line(module: Any) -> str:
    return (module.__doc__ or "").strip().splitlines()[0]
