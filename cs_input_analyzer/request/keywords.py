"""The keywords of the Python interface: their types, what to say of one that is not known, and errors that name them.

Each group lists keywords once, for editors and type checkers, for `known_among`, and for `Analysis.plan`. They are the fields of
`records.Options`, in the forms in which they may be given.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypedDict

from cs_input_analyzer.errors import AnalyzerError, InputFunctionError, Mistakes, UsageError
from cs_input_analyzer.gone import gone_message
from cs_input_analyzer.records import CacheChoice, Estimate, Feed, Launcher, Layout, Mode

# Keywords that are not the name of a field, and the field that they fill.
SHORT = {"demand": "demand_samples_per_s", "step_time": "step_time_s"}

# Numbers may be texts with a unit: `7k`, `160ms`, `128GiB`, `5GB/s`. Lists may be one text with commas.
Rate: TypeAlias = float | str | None
Seconds: TypeAlias = float | str
Size: TypeAlias = int | str | None
Words: TypeAlias = str | Iterable[str]
Layouts: TypeAlias = str | Layout | Iterable[str | Layout]


class DemandKeywords(TypedDict, total=False):
    """Keywords about the rate that the accelerator takes."""

    demand: Rate
    demand_samples_per_s: Rate
    step_time: Seconds | None
    step_time_s: Seconds | None
    batch_size: int | None
    samples_per_element: int | None
    wafer: str | None
    system: str | None
    wafer_mode: str | None
    sequence_length: int | None
    compile_report: str | None
    performance_json: str | None


class ClusterKeywords(TypedDict, total=False):
    """Keywords about the nodes to plan for."""

    nodes: int | None
    cpus_per_node: int | None
    memory_bytes_per_node: Size
    storage_bytes_per_s: Rate
    node_speed_ratio: Estimate | float | str | None
    partition: str | None
    exclude_nodes: Words


class LaunchKeywords(TypedDict, total=False):
    """Keywords about the launch in use and the rules of a plan."""

    current: Layout | str | None
    fresh: bool
    shared_nodes: bool
    single_task_nodes: int | None
    cyclic: bool
    feed: Feed
    headroom_ratio: float


class LineKeywords(TypedDict, total=False):
    """Keywords about the launch lines."""

    train_command: str | None
    srun_args: str | None
    sbatch_args: str | None
    container: str | None
    mount_dirs: Words


class PlanKeywords(DemandKeywords, ClusterKeywords, LaunchKeywords, LineKeywords, total=False):
    """Keywords of `Analysis.plan`."""


class _RunKeywords(TypedDict, total=False):
    max_seconds: Seconds | None
    start_timeout_s: Seconds
    cpus: int | None
    on_own_files: bool
    no_network: bool


class _SlurmKeywords(TypedDict, total=False):
    launcher: Launcher
    slurm_nodes: int | None
    queue_timeout_s: Seconds
    shared_dir: str | None


class AnalyzeKeywords(PlanKeywords, _RunKeywords, _SlurmKeywords, total=False):
    """Keywords of `analyze`."""

    mode: Mode
    input_context: bool
    stand_ins: Words
    target_error_ratio: float
    probe_layouts: Layouts
    cache: CacheChoice
    worker_memory_bytes: Size
    measure_fixes: bool
    select: Words
    ignore: Words
    seed: int


class CompareKeywords(_RunKeywords, total=False):
    """Keywords of `compare`, with `measure=True`. `set`: `key=value` of params that the runs do not hold."""

    layouts: Layouts
    rounds: int
    set: Words


class ValidateKeywords(CompareKeywords, _SlurmKeywords, total=False):
    """Keywords of `Analysis.validate`."""

    partition: str | None
    exclude_nodes: Words
    sbatch_args: str | None


def fields_of(group: Any) -> tuple[str, ...]:
    """Return the fields of `Options` that the keywords of a group fill."""
    return tuple(dict.fromkeys(SHORT.get(name, name) for name in group.__annotations__))


def known_among(choices: Mapping[str, Any], group: Any, mistakes: Mistakes, *more: str) -> dict[str, Any]:
    """Return the choices that are keywords of a group, or are named as `more`. Note the others, a line each."""
    names = (*group.__annotations__, *more)
    for name in sorted(set(choices) - set(names)):
        near = difflib.get_close_matches(name, names, n=1)
        advice = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(names))}"
        mistakes.note(gone_message("option", name) or f"unknown keyword {name}: {advice}")
    return {name: choice for name, choice in choices.items() if name in names}


# --- errors -----------------------------------------------------------------------------------------------------------------------

# Options whose keyword has another name.
OTHER_NAMES = {
    "--headroom": "headroom_ratio",
    "--memory-per-node": "memory_bytes_per_node",
    "--node-speed": "node_speed_ratio",
    "--queue-timeout": "queue_timeout_s",
    "--stand-in": "stand_ins",
    "--start-timeout": "start_timeout_s",
    "--storage-bandwidth": "storage_bytes_per_s",
    "--target-error": "target_error_ratio",
    "--worker-memory": "worker_memory_bytes",
}
KEYWORDS = {"cluster", "params", "measure", *AnalyzeKeywords.__annotations__, *ValidateKeywords.__annotations__}
# An option outside of a command in backticks, and its value: a number, a word in capitals, or what stands before a colon.
_OPTION = re.compile(
    r"`[^`]*`"
    r"|(?P<option>--[a-z][a-z-]*)"
    r"(?:[ =](?P<value>-?\d[^\s:;]*|[A-Z]+(?:=[A-Z]+)?\b|slurm\b|[^\s:]+(?=:)))?"
)


def in_keywords(text: str) -> str:
    """Return a message with keywords in place of options: `step_time` of `--step-time`, `nodes=0` of `--nodes 0`."""

    def keyword(match: re.Match[str]) -> str:
        option, value = match["option"], match["value"]
        name = OTHER_NAMES.get(option or "", (option or "").removeprefix("--").replace("-", "_"))
        if name not in KEYWORDS:
            return match[0]
        return name if value is None else f"{name}={value}"

    return _OPTION.sub(keyword, text)


@contextlib.contextmanager
def naming_keywords() -> Iterator[None]:
    """Name keywords, not options, in what a function of the Python interface raises. The user's own errors stay as they are."""
    try:
        yield
    except InputFunctionError:
        raise
    except AnalyzerError as error:
        error.args = tuple(in_keywords(part) if isinstance(part, str) else part for part in error.args)
        if isinstance(error, UsageError):
            error.lines = tuple(map(in_keywords, error.lines))
        raise
