"""Options that commands share, in the groups in which docs/interfaces.md lists them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from cs_input_analyzer import units
from cs_input_analyzer.cli.terminal import complain
from cs_input_analyzer.errors import UsageError

Function = TypeVar("Function", bound=Callable[..., Any])


def parsed(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Return a callback that reads the text of an option. Its error names the option."""

    def convert(context: click.Context, option: click.Parameter, text: str | None) -> Any:
        try:
            return None if text is None else parse(text)
        except UsageError as error:
            raise click.BadParameter(str(error), context, option) from None

    return convert


def chosen(reader: str, *names: str) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Return a callback for a reader of `choices`. Reading imports that module: `--help` must be quick."""

    def parse(text: str) -> Any:
        from cs_input_analyzer.request import options as choices

        return getattr(choices, reader)(*names, text)

    return parsed(parse)


SIZE, RATE, ESTIMATE = parsed(units.parse_bytes), parsed(units.parse_bytes_per_s), parsed(units.parse_estimate)
PER_S, SECONDS = parsed(units.parse_per_s), parsed(units.parse_seconds)
LAYOUTS, NODES = chosen("as_layouts", "layouts"), chosen("as_node_names")
LAYOUT = chosen("as_layout")


def _codes(text: str) -> tuple[str, ...]:
    """Return the codes of rules. Say on stderr which of them are gone."""
    from cs_input_analyzer.request.options import as_codes
    from cs_input_analyzer.rules import gone_among

    codes = as_codes(text)
    if said := gone_among(codes):
        complain(f"warning: {said}")
    return codes


CODES = parsed(_codes)


POSITIVE = click.IntRange(min=1)


def count(*names: str, help: str) -> Callable[[Function], Function]:
    """Return an option that takes a whole number."""
    return click.option(*names, type=int, metavar="N", help=help)


def switch(name: str, *, help: str) -> Callable[[Function], Function]:
    """Return an option and its opposite, for what a cluster file may turn on, too. It is None if neither is given."""
    return click.option(f"{name}/--no-{name.removeprefix('--')}", default=None, help=help)


def one_of(name: str, *values: str, help: str) -> Callable[[Function], Function]:
    """Return an option that takes one of these words, the first by default."""
    return click.option(name, type=click.Choice(values), default=values[0], show_default=True, help=help)


def value(
    *names: str, help: str, metavar: str = "FILE", read: Callable[..., Any] | None = None, default: str | None = None
) -> Callable[[Function], Function]:
    """Return an option that takes a text. The help shows its default, unless it is empty."""
    return click.option(*names, callback=read, metavar=metavar, default=default, show_default=bool(default), help=help)


# Of a command with many options, `--help` shows these.
COMMON = frozenset(
    [
        "--params",
        "--set",
        "--demand",
        "--step-time",
        "--batch-size",
        "--wafer",
        "--cluster",
        "--nodes",
        "--cpus-per-node",
        "--memory-per-node",
        "--current",
        "--max-seconds",
        "--launcher",
        "--on-own-files",
        "--full",
        "--fail-on",
        "--json",
        "--html",
    ]
)


def grouped(title: str, *options: Callable[[Function], Function]) -> tuple[Callable[[Function], Function], ...]:
    """Return these options with the title under which the help of a command lists them."""

    def with_title(option: Callable[[Function], Function]) -> Callable[[Function], Function]:
        def decorate(function: Function) -> Function:
            decorated = option(function)
            made = decorated.__click_params__[-1]  # type: ignore[attr-defined]  # where click keeps what a command will have
            made.group, made.is_common = title, not COMMON.isdisjoint(made.opts)
            return decorated

        return decorate

    return tuple(map(with_title, options))


BY_LAUNCHER = " [default: 60, with --launcher slurm 180]"


def max_seconds(default: float | None) -> tuple[Callable[[Function], Function], ...]:
    """Return the options about the time for measuring."""
    shown = None if default is None else f"{default:g}"
    waiting = "Seconds a worker may take to import TensorFlow and to build the pipeline; not part of --max-seconds."
    return (
        value("--max-seconds", read=SECONDS, default=shown, metavar="S", help=f"Time for measuring{'' if shown else BY_LAUNCHER}."),
        value("--start-timeout", "start_timeout_s", read=SECONDS, default="300", metavar="S", help=waiting),
    )


RUN = click.argument("run_file", metavar="[RUN.json|RUN.html]", required=False)
INPUT_CONTEXT = click.option(
    "--input-context", is_flag=True, help="Give the function a tf.distribute.InputContext where its default is None, too."
)
TARGET = grouped(
    "What runs",
    value("--params", "params_file", metavar="FILE.yaml", help="Params for the input function."),
    click.option(
        "--set",
        "overrides",
        metavar="KEY=VALUE",
        multiple=True,
        help="Override one value of the params; a.b=3 goes into section a.",
    ),
    one_of("--mode", "train", "eval", help="What the function is asked for."),
    INPUT_CONTEXT,
)
OWN_FILES = grouped(
    "What runs",
    click.option(
        "--on-own-files", is_flag=True, help="Run the code on your own files, not on private copies: what it writes is real."
    ),
    click.option("--no-network", is_flag=True, help="Run the code without a network; what is read over one cannot be."),
)
SECRETS = click.option(
    "--set",
    "set",
    metavar="KEY=VALUE",
    multiple=True,
    help="A value of the params that is not in the file, because it is a secret.",
)
STAND_INS = grouped(
    "What runs",
    click.option(
        "--stand-in",
        "stand_ins",
        default="",
        metavar="PACKAGES",
        help="Packages to do without where they are not installed and the data need nothing of them: spacy,horovod.",
    ),
)


class _ModeChoice(click.Choice):  # type: ignore[type-arg]  # before click 8.2 it took no type
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        # Python takes the mode with a hyphen, too.
        mode: str = super().convert("weight_streaming" if value == "weight-streaming" else value, param, ctx)
        return mode


WAFER_MODES = _ModeChoice(["pipelined", "weight_streaming"])
WAFER = (
    value("--system", metavar="CS-2", help="The wafer: CS-1, CS-2 (default) or CS-3."),
    count("--sequence-length", help="Tokens of a sample, for a wafer model that has them."),
)
DEMAND = grouped(
    "What the accelerator takes",
    value("--demand", read=PER_S, metavar="SAMPLES/s", help="What the accelerator consumes: 7000, 7,000, 7k."),
    value("--step-time", read=SECONDS, metavar="S", help="Time of one accelerator step, 0.16 or 160ms; with --batch-size."),
    count("--batch-size", help="Samples of a step of the accelerator. What the pipeline's elements hold is read from them."),
    count("--samples-per-element", help="Samples that one element holds, where the pipeline does not say."),
    value(
        "--wafer",
        metavar="MODEL",
        help="The network that trains: a built-in name or a YAML file; with --batch-size, or the pipeline's.",
    ),
    click.option(
        "--wafer-mode",
        type=WAFER_MODES,
        help="How the wafer runs; default: as python-ws or --compile-report say, else whichever fits the --wafer model.",
    ),
    *WAFER,
    value("--compile-report", help="The compiler's compile_report.txt: its estimate is the demand."),
    value("--performance-json", help="The performance.json of a finished run: its rate is the demand."),
)
CLUSTER = grouped(
    "The nodes to plan for",
    value(
        "--cluster",
        metavar="FILE|PRESET|slurm|local",
        help="The nodes to plan for: a file (command `cluster` writes one), a preset, what Slurm has, or this host "
        "(default; Slurm's with --launcher slurm).",
    ),
    count("--nodes", help="Nodes of the cluster."),
    count("--cpus-per-node", help="CPUs of a node as Slurm counts them."),
    value("--memory-per-node", "memory_bytes_per_node", read=SIZE, metavar="128GiB", help="Memory of a node."),
    value("--storage-bandwidth", "storage_bytes_per_s", read=RATE, metavar="5GB/s", help="Ceiling of the shared file system."),
    value(
        "--node-speed",
        "node_speed_ratio",
        read=ESTIMATE,
        metavar="RATIO",
        help="Speed of a node's CPU over one of this host: 1.2, or 1.2+-5% with its error.",
    ),
    value(
        "--current",
        read=LAYOUT,
        metavar="NxTxC",
        help="The launch in use today, to be judged; by default DEF_NODES, DEF_TASKS and DEF_CPUS, if set.",
    ),
    click.option(
        "--fresh", is_flag=True, help="Look at no earlier run: not at the plan made for the same, nor at what validate found."
    ),
    switch("--shared-nodes", help="Other jobs share the nodes: save CPUs, and do not ask for nodes alone."),
    click.option(
        "--single-task-nodes",
        type=int,
        metavar="S",
        help="Nodes of one task that does not stream (default: 1, on one node 0; for weight streaming 2, at least).",
    ),
    switch("--cyclic", help="Distribute tasks over nodes in turn."),
    one_of(
        "--feed",
        "round-robin",
        "first-come",
        help="How the accelerator takes batches: from each worker in turn, or from whichever is ready.",
    ),
    click.option(
        "--headroom",
        "headroom_ratio",
        type=float,
        default=0.1,
        show_default=True,
        help="Supply to spare, as a ratio of the demand; a plan reaches it at a probability of 0.9.",
    ),
)
CPUS = count("--cpus", help="Use at most N CPUs of this machine.")
LAUNCHER = one_of("--launcher", "local", "slurm", help="Where workers run: on this host, or on nodes of Slurm.")
MEASURE = grouped(
    "How to measure",
    click.option(
        "--target-error", "target_error_ratio", type=float, default=0.02, show_default=True, help="Stop at this half-width."
    ),
    value("--probe-layouts", read=LAYOUTS, default="", metavar="NxTxC,…", help="What to measure, instead of our choice."),
    one_of(
        "--cache",
        "as-is",
        "warm",
        "cold",
        help="Page cache of the pipeline's own files before each window: left, filled, or emptied.",
    ),
    CPUS,
    value("--worker-memory", "worker_memory_bytes", read=SIZE, metavar="8GiB", help="End a worker that holds more."),
    click.option(
        "--measure-fixes/--no-measure-fixes", default=True, show_default=True, help="Prove and measure what the findings propose."
    ),
    LAUNCHER,
)
PARTITION = value(
    "--partition", metavar="NAME", help="Slurm's partition; default: that of the job we are in, else its default one."
)
EXCLUDE_NODES = value(
    "--exclude-nodes",
    read=NODES,
    default="",
    metavar="n[1-3],…",
    help="Nodes that are not to be used; the accelerator's own is left out anyway.",
)
SLURM = grouped(
    "Measuring on Slurm",
    PARTITION,
    EXCLUDE_NODES,
    count("--slurm-nodes", help="Measure on N nodes; default: the allocation's, else up to 4."),
    value("--queue-timeout", "queue_timeout_s", read=SECONDS, default="600", metavar="S", help="Time to wait in the queue."),
    value("--shared-dir", metavar="FOLDER", help="A folder that all nodes see; default: the current one."),
)


def analysis(seconds: float | None = None) -> tuple[Callable[[Function], Function], ...]:
    """Return all options of a command that measures and plans, by default in so many seconds; None: by the launcher."""
    return (*DEMAND, *CLUSTER, *grouped("How to measure", *max_seconds(seconds)), *MEASURE, *SLURM, *OWN_FILES)


SBATCH_ARGS = grouped(
    "Launch lines",
    value("--sbatch-args", metavar="ARGS", help="More arguments for sbatch, in launch lines and for our own job."),
)

LAUNCH = grouped(
    "Launch lines",
    value("--train-command", metavar="COMMAND", help="Your training command, for the launch lines."),
    value("--srun-args", metavar="ARGS", help="More arguments for srun."),
    *SBATCH_ARGS,
    value("--container", metavar="IMAGE", help="Singularity image that the tasks run in."),
    value("--mount-dirs", metavar="A,B", help="Folders to mount in the container."),
)
FILES = grouped(
    "Output",
    value("--json", "json_file", help="Write the run; `report FILE` shows it again."),
    value("--html", "html_file", help="Write the self-contained report."),
    value("--csv", "csv_file", help="Write a row for each worker."),
    click.option("-q", "--quiet", is_flag=True, help="No progress, no report: only files and the exit code."),
    click.option("-v", "--verbose", is_flag=True, help="Show the traceback of our own errors too."),
)
CODES_HELP = "Only findings of these rules: codes or their beginnings, CSI103,CSI2 (default: all)."
RULES = grouped(
    "Output",
    value("--select", read=CODES, default="", metavar="CODES", help=CODES_HELP),
    value("--ignore", read=CODES, default="", metavar="CODES", help="No findings of these rules."),
)
FULL = click.option("--full", is_flag=True, help="Print all of the report; through your pager on a terminal.")
QUIET = click.option("-q", "--quiet", is_flag=True, help="No report: only files and the exit code.")
OUTPUT = grouped(
    "Output",
    FULL,
    click.option(
        "--fail-on", type=click.Choice(["input-bound", "warning"]), help="Exit 1 on this verdict, or on a warning or error."
    ),
    *FILES,
)


def with_options(*groups: tuple[Callable[[Function], Function], ...]) -> Callable[[Function], Function]:
    """Return a decorator that adds groups of options to a command."""

    def decorate(function: Function) -> Function:
        for option in reversed([option for group in groups for option in group]):
            function = option(function)
        return function

    return decorate
