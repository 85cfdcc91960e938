"""Options that commands share, in the groups in which docs/interfaces.md lists them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cs_input_analyzer import units
from cs_input_analyzer.errors import UsageError

if TYPE_CHECKING:
    from cs_input_analyzer.records import Layout

Function = TypeVar("Function", bound=Callable[..., Any])


def parsed(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """A callback that reads an option's text and blames the option when it cannot."""

    def convert(context: click.Context, option: click.Parameter, text: str | None) -> Any:
        try:
            return None if text is None else parse(text)
        except UsageError as error:
            raise click.BadParameter(str(error), context, option) from None

    return convert


def _layouts(text: str) -> tuple[Layout, ...]:
    from cs_input_analyzer import choices

    return choices.as_layouts("layouts", text)


def _nodes(text: str) -> tuple[str, ...]:
    from cs_input_analyzer import choices

    return choices.as_node_names(text)


def _codes(text: str) -> tuple[str, ...]:
    from cs_input_analyzer import choices

    return choices.as_codes(text)


SIZE, RATE, ESTIMATE = parsed(units.parse_bytes), parsed(units.parse_bytes_per_s), parsed(units.parse_estimate)
PER_S, SECONDS = parsed(units.parse_per_s), parsed(units.parse_seconds)
LAYOUTS, CODES, NODES = parsed(_layouts), parsed(_codes), parsed(_nodes)


def max_seconds(default: float) -> tuple[Callable[[Function], Function], ...]:
    return (
        click.option(
            "--max-seconds", callback=SECONDS, default=f"{default:g}", show_default=True, metavar="S", help="Time for measuring."
        ),
        click.option(
            "--start-timeout",
            "start_timeout_s",
            callback=SECONDS,
            default="300",
            show_default=True,
            metavar="S",
            help="Seconds a worker may take to import TensorFlow and to build the pipeline; not part of --max-seconds.",
        ),
    )


INPUT_CONTEXT = click.option(
    "--input-context", is_flag=True, help="Give the function a tf.distribute.InputContext where its default is None, too."
)
TARGET = (
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
    INPUT_CONTEXT,
)
STAND_INS = (
    click.option(
        "--stand-in",
        "stand_ins",
        default="",
        metavar="PACKAGES",
        help="Packages to do without where they are not installed and the data need nothing of them: spacy,horovod.",
    ),
)
WAFER_MODES = click.Choice(["pipelined", "weight_streaming"])
DTYPES = click.Choice(["fp16", "cbfloat16", "fp32"])
WAFER = (
    click.option("--system", metavar="CS-2", help="The wafer: CS-1, CS-2 (default), CS-3, or one of --system-file."),
    click.option("--system-file", metavar="FILE", help="A YAML file with systems of your own."),
    click.option("--sequence-length", type=int, metavar="N", help="Tokens of a sample, for a --wafer model that has them."),
    click.option("--systems", type=int, default=1, show_default=True, help="Wafers that train together."),
    click.option("--dtype", type=DTYPES, default="fp16", show_default=True, help="What the wafer computes in."),
    click.option(
        "--calibrate", "calibrate_samples_per_s", callback=PER_S, metavar="RATE", help="A rate measured with exactly these options."
    ),
)
DEMAND = (
    click.option("--demand", callback=PER_S, metavar="SAMPLES/s", help="What the accelerator consumes: 7000, 7,000, 7k."),
    click.option(
        "--step-time", callback=SECONDS, metavar="S", help="Time of one accelerator step, 0.16 or 160ms; with --batch-size."
    ),
    click.option(
        "--batch-size",
        type=int,
        metavar="N",
        help="Samples of a step of the accelerator. What the pipeline's elements hold is read from them.",
    ),
    click.option(
        "--samples-per-element", type=int, metavar="N", help="Samples that one element holds, where the pipeline does not say."
    ),
    click.option(
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
    click.option("--compile-report", metavar="FILE", help="The compiler's compile_report.txt: its estimate is the demand."),
    click.option("--performance-json", metavar="FILE", help="The performance.json of a finished run: its rate is the demand."),
)
CLUSTER = (
    click.option(
        "--cluster",
        metavar="FILE|PRESET|slurm|local",
        help="The nodes to plan for: a YAML file, a preset, what Slurm has, or this host (default; Slurm's with --launcher slurm).",
    ),
    click.option("--nodes", type=int, metavar="N", help="Nodes of the cluster."),
    click.option("--cpus-per-node", type=int, metavar="N", help="CPUs of a node as Slurm counts them."),
    click.option("--memory-per-node", "memory_bytes_per_node", callback=SIZE, metavar="128GiB", help="Memory of a node."),
    click.option(
        "--storage-bandwidth", "storage_bytes_per_s", callback=RATE, metavar="5GB/s", help="Ceiling of the shared file system."
    ),
    click.option(
        "--network-bandwidth", "network_bytes_per_s_per_node", callback=RATE, metavar="12GB/s", help="Of one node, each way."
    ),
    click.option("--threads-per-core", type=int, metavar="N", help="Hardware threads of a core of a node: 2 where SMT is on."),
    click.option(
        "--memory-bandwidth", "memory_bandwidth_bytes_per_s_per_node", callback=RATE, metavar="100GB/s", help="Of one node."
    ),
    click.option(
        "--node-speed",
        "node_speed_ratio",
        callback=ESTIMATE,
        metavar="RATIO",
        help="Speed of a node's CPU over one of this host: 1.2, or 1.2+-5% with its error.",
    ),
    click.option(
        "--current",
        callback=LAYOUTS,
        metavar="NxTxC",
        help="The launch in use today, to be judged; by default DEF_NODES, DEF_TASKS and DEF_CPUS, if set.",
    ),
    click.option(
        "--previous", metavar="RUN.json", help="Keep the launch that this run planned while it will do, at a probability of 0.8."
    ),
    click.option("--shared-nodes", is_flag=True, help="Other jobs share the nodes: save CPUs, and do not ask for nodes alone."),
    click.option(
        "--single-task-nodes",
        type=int,
        metavar="S",
        help="Nodes of one task that does not stream (default: 1, on one node 0; for weight streaming 2, at least).",
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
        help="Supply to spare, as a ratio of the demand; a plan reaches it at a probability of 0.9.",
    ),
)
NODE_REFERENCE = click.option("--node-reference", metavar="RATE", help="The same by measuring: what `reference` prints on a node.")
CPUS = click.option("--cpus", type=int, metavar="N", help="Use at most so many CPUs of a host that measures.")
LAUNCHER = click.option(
    "--launcher",
    type=click.Choice(["local", "slurm"]),
    default="local",
    show_default=True,
    help="Where workers run: on this host, or as tasks of Slurm on its nodes.",
)
MEASURE = (
    NODE_REFERENCE,
    click.option(
        "--target-error", "target_error_ratio", type=float, default=0.02, show_default=True, help="Stop at this half-width."
    ),
    click.option(
        "--probe-layouts", callback=LAYOUTS, default="", metavar="NxTxC,…", help="What to measure, instead of our choice."
    ),
    click.option(
        "--cache",
        type=click.Choice(["as-is", "warm", "cold"]),
        default="as-is",
        show_default=True,
        help="Page cache of the pipeline's own files before each window: left, filled, or emptied.",
    ),
    click.option(
        "--egress",
        type=click.Choice(["none", "measure"]),
        default="none",
        show_default=True,
        help="Measure what serializing batches and writing them to a socket costs, and plan with it.",
    ),
    click.option(
        "--soak",
        "soak_s",
        callback=parsed(units.parse_duration),
        metavar="10m",
        help="Also follow the memory of one worker for so long, beside --max-seconds; names the op whose buffer grew.",
    ),
    click.option(
        "--host-history/--no-host-history",
        default=True,
        help="Use, and add to, what earlier runs saw of this host when it was quiet.",
    ),
    CPUS,
    click.option("--worker-memory", "worker_memory_bytes", callback=SIZE, metavar="8GiB", help="End a worker that holds more."),
    click.option(
        "--measure-fixes/--no-measure-fixes", default=True, show_default=True, help="Prove and measure what the findings propose."
    ),
    LAUNCHER,
)
PARTITION = click.option(
    "--partition", metavar="NAME", help="Slurm's partition; default: that of the job we are in, else its default one."
)
EXCLUDE_NODES = click.option(
    "--exclude-nodes",
    callback=NODES,
    default="",
    metavar="n[1-3],…",
    help="Nodes that are not to be used; the accelerator's own is left out anyway.",
)
SLURM = (
    PARTITION,
    EXCLUDE_NODES,
    click.option("--slurm-nodes", type=int, metavar="N", help="Measure on so many nodes; default: the allocation's, else up to 4."),
    click.option(
        "--queue-timeout",
        "queue_timeout_s",
        callback=SECONDS,
        default="600",
        show_default=True,
        metavar="S",
        help="Time to wait in the queue.",
    ),
    click.option("--shared-dir", metavar="FOLDER", help="A folder that all nodes see; default: the current one."),
)
SBATCH_ARGS = (
    click.option("--sbatch-args", metavar="ARGS", help="More arguments for sbatch, in launch lines and for our own job."),
)

LAUNCH = (
    click.option("--train-command", metavar="COMMAND", help="Your training command, for the launch lines."),
    click.option("--srun-args", metavar="ARGS", help="More arguments for srun."),
    *SBATCH_ARGS,
    click.option("--container", metavar="IMAGE", help="Singularity image that the tasks run in."),
    click.option("--mount-dirs", metavar="A,B", help="Folders to mount in the container."),
)
FILES = (
    click.option("--json", "json_file", metavar="FILE", help="Write the run; `report FILE` shows it again."),
    click.option("--html", "html_file", metavar="FILE", help="Write the self-contained report."),
    click.option("--csv", "csv_file", metavar="FILE", help="Write the workers' table."),
    click.option("-q", "--quiet", is_flag=True, help="No progress, no report: only files and the exit code."),
    click.option("-v", "--verbose", is_flag=True, help="Show the traceback of our own errors too."),
)
RULES = (
    click.option(
        "--select",
        callback=CODES,
        default="",
        metavar="CODES",
        help="Only findings of these rules: codes or their beginnings, CSI103,CSI2 (default: all).",
    ),
    click.option("--ignore", callback=CODES, default="", metavar="CODES", help="No findings of these rules."),
)
FULL = click.option("--full", is_flag=True, help="Print all of the report; through your pager on a terminal.")
OUTPUT = (
    FULL,
    click.option(
        "--fail-on", type=click.Choice(["input-bound", "warning"]), help="Exit 1 on this verdict, or on a warning or error."
    ),
    *FILES,
)


def with_options(*groups: tuple[Callable[[Function], Function], ...]) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        for option in reversed([option for group in groups for option in group]):
            function = option(function)
        return function

    return decorate
