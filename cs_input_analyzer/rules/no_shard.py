"""The plan has several workers, and all of them stream the same data.

Each worker runs the whole input function. Unless it takes its own part of the files, every worker reads every file: the
accelerator sees each sample once per worker and pass, an epoch is as many times longer as there are workers, each node reads
and caches the whole dataset, and without a seedless shuffle all workers deliver the same batch at the same time.

Fix: `files = files.shard(num_workers, index)` with the numbers of the running launch (from `TF_CONFIG` or a `tf.distribute`
input context), directly after the list of file names and before anything that reads them.

Of a function whose `input_context` is None by default it says whether one was given (`--input-context`), or left out.

A warning, because some want it so (every worker shuffles all of the data). An error where the code does shard, but not by the
launch: several workers were announced and it took one shard of one, or Python code that divides the files gave all of them to
every worker. A number of shards that is not that of the plan's workers, and was not that of the measured launch either, is a
warning.

Silent without a plan or with one worker, where workers read their own files (a `shard` op, or Python code), and where no files
were found.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.records import Case, Finding, Op, Severity

_FIX = "shard the list of file names by the number and index of the workers in TF_CONFIG, before anything reads them"
_FIXES = {
    "given": "shard the list of file names by input_context.num_input_pipelines and input_pipeline_id, before anything reads them",
    "left": "measure with --input-context what the function does with it, or shard the list of file names by TF_CONFIG",
}


def find(case: Case) -> Iterator[Finding]:
    workers = case.plan.input_workers if case.plan is not None else 1
    if workers < 2 or case.pipeline.files is None:
        return
    shard = next((op for op in case.pipeline.ops if op.kind == "Shard"), None)
    if shard is not None:
        yield from _wrong_number(case, shard, workers)
    elif not case.is_sharded:
        announced = max((m.num_workers for m in case.measurements if m.measured_workers), default=1)
        tried = f"also in a launch of {announced}" if announced > 1 else "no launch of several was measured"
        severity: Severity = "warning" if announced > 1 else "info"
        message = f"all {workers} workers of the plan stream the same files ({tried}{_context_tried(case)})"
        yield _finding(case, severity, message, announced, workers)
    else:
        for measurement in case.measurements:
            counts = [worker.file_count for worker in measurement.measured_workers]
            if len(counts) > 1 and all(count == case.pipeline.files.count for count in counts):
                message = f"the code divides the files, but in a launch of {measurement.num_workers} each worker saw all of them"
                yield _finding(case, "error", message, measurement.num_workers, workers)
                return


def _wrong_number(case: Case, shard: Op, workers: int) -> Iterator[Finding]:
    """A `shard` whose number is not that of the launch whose graph this is: the first that was measured."""
    number = shard.parameters.get("num_shards")
    announced = case.measurements[0].num_workers if case.measurements else None
    if announced is None or not isinstance(number, int) or number in (announced, workers):
        return
    if number == 1:
        message = f"{announced} workers were announced, but the code took one shard of one: every worker streams all files"
        message += _context_tried(case)
        yield _finding(case, "error", message, announced, workers, shard)
    else:
        message = f"the files are divided by {number} whatever the launch, and the plan has {workers} workers"
        yield _finding(case, "warning", message, announced, workers, shard)


def _context_tried(case: Case) -> str:
    """What the function did with the numbers of the launch, where it takes them as an input context."""
    uses = {
        "given": "; called with input_context",
        "left": "; its input_context was left at its default, try --input-context",
    }
    return uses.get(case.pipeline.input_context or "", "")


def _finding(case: Case, severity: Severity, message: str, announced: int, workers: int, shard: Op | None = None) -> Finding:
    source = shard or next((op for op in case.pipeline.ops if op.within is None), None)
    return Finding(
        severity=severity,
        message=message,
        op=source.name if source else None,
        evidence={
            "workers": workers,
            "workers_announced": announced,
            "files": case.pipeline.files.count if case.pipeline.files else None,
            **({"input_context": case.pipeline.input_context} if case.pipeline.input_context else {}),
        },
        fix=_FIXES.get(case.pipeline.input_context or "", _FIX),
    )
