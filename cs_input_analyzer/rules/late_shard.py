"""The `shard` comes after the reading, so every worker reads everything and throws most of it away.

`shard(n, i)` keeps one element in n. Before the readers it drops file names, which costs nothing. After them every worker
opens, reads and unpacks all files, and maybe decodes all samples, to keep an n-th: n workers deliver hardly more than one, and
the storage is asked for n times the data.

Fix: shard the list of file names: `list_files(pattern, shuffle=False).shard(n, i)` before `interleave` or `TFRecordDataset`.
The samples of a worker are then those of its files, another division of the data than now.

For your information only where a late shard is the only way: fewer files than workers (write more, smaller files), and data
that Python code makes.

Silent where only file names pass the shard, and where one worker streams.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.lineage import reads_names_only, upstream
from cs_input_analyzer.pipeline.op_kinds import BATCHING, OPENS, TRANSFORMS
from cs_input_analyzer.pipeline.threads import reader_ops
from cs_input_analyzer.planning.evidence import share_of, workers_of
from cs_input_analyzer.records import Case, Finding, Op

COSTLY = TRANSFORMS | OPENS | BATCHING


def find(case: Case) -> Iterator[Finding]:
    workers = workers_of(case)
    for shard in case.pipeline.ops:
        passed = upstream(shard, case.pipeline.ops) if shard.kind == "Shard" else ()
        if not passed or reads_names_only(shard, case.pipeline.ops) or workers == 1:
            continue
        readers, makers = reader_ops(passed), [op for op in passed if op.kind == "Generator"]
        if not readers and not makers:
            continue
        files = case.pipeline.files
        number = shard.parameters.get("num_shards")
        needed = workers or (number if isinstance(number, int) else 1)
        is_only_way = not readers or (files is not None and files.count < needed)
        wasted = [op for op in passed if op in readers or op in makers or op.kind in COSTLY]
        yield Finding(
            severity="info" if is_only_way else "warning",
            message=f"every worker {_doing(wasted)} everything and keeps one {_unit(passed)} in {needed}",
            op=shard.name,
            evidence={
                "num_shards": number if isinstance(number, int) else None,
                "workers": workers,
                "files": files.count if files else None,
                "share_ratio_before_shard": share_of(case, passed),
            },
            fix=_fix(files.count if files else None, needed, bool(readers)),
        )


def _doing(ops: list[Op]) -> str:
    return "reads and transforms" if any(op.kind in TRANSFORMS - BATCHING for op in ops) else "reads"


def _unit(passed: tuple[Op, ...]) -> str:
    return "batch" if any(op.kind in BATCHING for op in passed) else "sample"


def _fix(files: int | None, workers: int, has_readers: bool) -> str:
    if not has_readers:
        return "let the Python code make only this worker's part of the data"
    if files is not None and files < workers:
        return f"write the data into {4 * workers} files or more, and shard the list of their names"
    return "shard the list of file names, before anything reads them"
