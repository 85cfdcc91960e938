"""The plan has more workers than the pipeline has files to share out.

The input function gives each worker its own files. A worker without a file has nothing to stream: it fails at start, or the
accelerator waits for it for ever.

Fix: write the dataset into at least as many files as there are workers; some multiple of it keeps the shards even.

Silent without a plan, for pipelines that do not shard, and where the files suffice.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.records import Case, Finding

CODE = "CSI301"
NAME = "fewer-files-than-workers"


def find(case: Case) -> Iterator[Finding]:
    files, plan = case.pipeline.files, case.plan
    if files is None or plan is None or not case.is_sharded:
        return
    workers = plan.input_workers
    if plan.meets_demand is False and plan.limited_by == "files":
        workers = max(workers, files.count + 1)
    if workers <= files.count:
        return
    shard = next((op for op in case.pipeline.ops if op.kind == "Shard"), None)
    yield Finding(
        code=CODE,
        severity="warning",
        message=f"the demand needs more input workers than the {files.count} files can be shared out to",
        op=shard.name if shard else None,
        source=shard.source if shard else None,
        evidence={"files": files.count, "workers": workers},
        fix=f"write the dataset into {4 * workers} files or more",
    )
