"""Tune a dataset in a training script: try the fixes of its graph in the caller's own process, and give back a dataset.

No source is run anew there, so a fix is always a change of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from cs_input_analyzer import rules
from cs_input_analyzer.host.cluster import this_host
from cs_input_analyzer.host.machine import read_host
from cs_input_analyzer.records import Case, Finding, Fixes, Layout
from cs_input_analyzer.runs.in_process import check_dataset
from cs_input_analyzer.tfdata.lineage import deals_out_files
from cs_input_analyzer.trial.fixes import outcomes_of, try_fixes
from cs_input_analyzer.worker.stopwatch import Stopwatch
from cs_input_analyzer.workflows.prove import OUT_OF_TIME, filled_in, fixes_in, fixes_together

NOT_HERE = "source files are not run anew in your own process"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The result of `tune`. `dataset` is the given one if nothing gains; `why` says why nothing could be tried, if so.

    Measured in the caller's own process, with whatever else runs there: `isolation` is `none`, and no plan should rest on it.
    """

    dataset: Any
    findings: tuple[Finding, ...]
    fixes: Fixes | None
    why: str = ""
    isolation: Literal["none"] = "none"


def tune(dataset: Any, *, seconds: float, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> Tuned:
    """Find, prove and measure fixes of a `tf.data.Dataset` right here, and apply those that gain together.

    The user's own dataset is not iterated: copies of its graph are, with caches and shuffle generators of their own. A pipeline
    whose copies would still touch something of the user's (Python functions, variables, files it writes) is left as it is.

    Raises:
        UsageError: not a `tf.data.Dataset`, or called inside a `tf.function`.
    """
    from cs_input_analyzer.tfdata import edits as rewrite
    from cs_input_analyzer.tfdata import graph
    from cs_input_analyzer.tfdata.edits import traits
    from cs_input_analyzer.tfdata.edits.difference import incomparable, read

    check_dataset(dataset, "tune")
    copy = read(dataset)
    held = traits.held_state(copy.text)
    why = incomparable(copy) or (f"it holds {held}" if held else None)
    if why is None and copy.calls_python:
        why = "it calls Python, which may not be run more often than training does"
    pipeline = graph.read_graph(dataset, graph.SourceLog(), target="a dataset in this process")
    host = read_host()
    case = Case(
        pipeline=pipeline,
        mode="train",
        is_sharded=deals_out_files(pipeline.ops),
        measurements=(),
        profile=None,
        plan=None,
        cluster=this_host(host),
        host=host,
    )
    sifted = rules.sift(case, select, ignore).findings
    findings = tuple(replace(one, source_check=NOT_HERE) if one.change is not None else one for one in sifted)
    candidates = fixes_in(findings, texts=())
    if why is not None or not candidates:
        because = f"left as it is: {why}" if why else ""
        found = tuple(replace(one, unproven_because=because) if one.edits else one for one in findings)
        return Tuned(dataset=dataset, findings=found, fixes=None, why=because)
    events: list[dict[str, Any]] = []

    def record(name: str, **fields: Any) -> None:
        events.append({"event": name, **fields})

    try_fixes(record, dataset, [fix.candidate for fix in candidates], seconds=seconds, watch=Stopwatch())
    outcomes = outcomes_of(events, len(candidates))
    layout = Layout(nodes=1, tasks_per_node=1, cpus_per_task=host.cpu_budget)
    fixes = fixes_together(candidates, outcomes, layout)
    return Tuned(
        dataset=rewrite.apply(dataset, fixes.edits) if fixes.edits else dataset,
        findings=filled_in(findings, candidates, dict(enumerate(outcomes.each)), OUT_OF_TIME[0]),
        fixes=fixes,
    )
