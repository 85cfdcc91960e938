"""Fields of a run file that are checked before they are believed: a run may be a stranger's.

Decided once, when a run is read. Launch lines are text to paste, so they are made again of the options, the plan and the cluster.
Ops that read their own elements, texts beyond any size and params that are no params are refused.
"""

from __future__ import annotations

import graphlib
from dataclasses import replace

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model.launch_lines import launch_lines
from cs_input_analyzer.model.params import params_from_json
from cs_input_analyzer.records import Analysis, LaunchLines
from cs_input_analyzer.units import counted, visible

# Functions of functions: those of real pipelines are three deep.
MOST_LEVELS = 50
# Loops that make an op for each of many files have made 2,000.
MOST_OPS = 20_000
NAMES_SHOWN, LETTERS_SHOWN = 4, 40

OTHER_LINES = (
    "the file held other launch lines, of another release or edited by hand: "
    "these follow from its plan, its options and its cluster"
)


def check(run: Analysis) -> None:
    """Raise UsageError if the params are no params, or no walk over the ops would end in a bounded time."""
    try:
        params_from_json(run.options.params_json or "null")
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise UsageError("options.params_json: this is not the JSON of params") from None
    ops = run.pipeline.ops
    if len(ops) > MOST_OPS:
        raise UsageError(f"pipeline.ops: {counted(len(ops), 'op')} are more than any pipeline has, which is {MOST_OPS:,} at most")
    holders = {op.name: op.within for op in ops}
    needs: dict[str, set[str]] = {op.name: set() for op in ops}
    for op in ops:
        needs[op.name].update(name for name in op.inputs if name in needs)
        if op.within in needs:
            needs[op.within].add(op.name)
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        names = [_short(name) for name in error.args[1]]
        more = " -> …" if len(names) > NAMES_SHOWN else ""
        raise UsageError(
            f"pipeline.ops: an op reads its own elements, which no pipeline does: {' -> '.join(names[:NAMES_SHOWN])}{more}"
        ) from None
    for op in ops:
        levels, holder = 0, op.within
        while holder is not None and levels <= MOST_LEVELS:
            levels, holder = levels + 1, holders.get(holder)
        if levels > MOST_LEVELS:
            raise UsageError(f"pipeline.ops: {_short(op.name)} lies more than {MOST_LEVELS} functions deep, which no op does")


def _short(name: str) -> str:
    shown = visible(name).replace("\n", " ")
    return shown if len(shown) <= LETTERS_SHOWN else f"{shown[:LETTERS_SHOWN]}…"


def with_own_lines(run: Analysis) -> Analysis:
    """Return the run with launch lines made of its plan, options and cluster, and with a note where those of the file differ."""
    plan = run.recommendation
    if plan is None:
        return run
    lines, note = None, ""
    if plan.launch is not None:
        lines, note = own_lines(run)
        if lines is not None and lines != plan.launch:
            note = OTHER_LINES
    return replace(run, recommendation=replace(plan, launch=lines, launch_note=note))


def own_lines(run: Analysis) -> tuple[LaunchLines | None, str]:
    """Return the launch lines of a run with a plan, or None with the reason why there can be none."""
    assert run.recommendation is not None
    try:
        return launch_lines(run.recommendation, run.cluster, run.options, run.pipeline.target), ""
    except UsageError as error:
        return None, f"this run has no launch lines: {error}"
