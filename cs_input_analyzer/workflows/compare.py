"""The workflow of `compare`: two runs of one input function, and the changes between them beyond noise. Pure.

`changes` has the parts and the law that distinguishes a change from noise (`changes.rates`).
"""

from __future__ import annotations

from cs_input_analyzer.errors import AnalyzerError, Interrupted, UsageError
from cs_input_analyzer.records import SCHEMA_VERSION, Analysis, ComparedRun, Comparison, Tool
from cs_input_analyzer.workflows.changes.circumstances import counted_otherwise, doubts
from cs_input_analyzer.workflows.changes.costs import finding_changes, op_changes
from cs_input_analyzer.workflows.changes.rates import launches_in_words, not_compared, pairs_of, rate_changes


def compare(
    old: Analysis,
    new: Analysis,
    *,
    tool: Tool,
    old_path: str = "old",
    new_path: str = "new",
    rounds: int = 0,
    stopped: AnalyzerError | None = None,
) -> Comparison:
    """Return the new run beside the old one.

    Args:
        old, new: the runs.
        tool: the program that compares.
        old_path, new_path: the files of the runs, for readers.
        rounds: number of launches of both in turns, if they were measured so (`remeasure`); `stopped`: what ended them early.

    Raises:
        UsageError: there is no launch that both runs measured, or they count different things as a sample.
    """
    counts = counted_otherwise(old, new)
    if counts is not None:
        raise UsageError(
            f"the runs count differently: {old_path}: {counts[0]}; {new_path}: {counts[1]}; analyze both with the same "
            "--samples-per-element N"
        )
    pairs = pairs_of(old, new)
    if not pairs:
        raise UsageError(
            f"no launch was measured in both runs: {old_path} has {launches_in_words(old)}, {new_path} has "
            f"{launches_in_words(new)}; analyze both with the same --probe-layouts, for example --probe-layouts 1x1x1,1x2x1"
        )
    rates, spread_ratio = rate_changes(pairs, are_in_turns=rounds > 0)
    return Comparison(
        schema_version=SCHEMA_VERSION,
        tool=tool,
        old=_side(old, old_path),
        new=_side(new, new_path),
        rates=rates,
        spread_ratio=spread_ratio,
        ops=op_changes(old, new, pairs),
        findings=finding_changes(old.findings, new.findings),
        doubts=doubts(old, new, pairs),
        not_compared=(*not_compared(old, new), *(() if stopped is None else (f"the measuring ended early: {stopped}",))),
        rounds=rounds,
        interrupted=isinstance(stopped, Interrupted),
    )


def is_slower_by(found: Comparison, ratio: float) -> bool:
    """Return whether some launch is surely slower by more than `ratio`: its whole interval lies below 1 - `ratio`.

    The intervals hold for all rows together, so a new run that is slower by exactly `ratio`, or by less, trips this once in twenty,
    at most, however many launches are compared.
    """
    return any(row.ratio.high < 1 - ratio for row in found.rates)


def _side(run: Analysis, path: str) -> ComparedRun:
    plan = run.recommendation
    return ComparedRun(
        path=path,
        target=run.pipeline.target,
        created_at=run.created_at,
        hostname=run.host.hostname,
        tensorflow_version=run.host.tensorflow_version,
        verdict=run.verdict,
        verdict_layout=run.verdict_layout,
        demand_samples_per_s=run.consumption.samples_per_s if run.consumption is not None else None,
        plan=plan.layout if plan is not None else None,
        predicted_samples_per_s=plan.predicted_samples_per_s if plan is not None else None,
        meets_demand=plan.meets_demand if plan is not None else None,
        memory_bytes_per_node=plan.memory_bytes_per_node if plan is not None else None,
        bottleneck=run.stations[0] if run.stations else None,
        is_planned_as_measured=run.is_planned_as_measured,
        idle_factor=run.idle_factor,
    )
