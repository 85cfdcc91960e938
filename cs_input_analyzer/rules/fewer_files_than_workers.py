"""The plan has more workers than the pipeline has files to share out.

The input function gives each worker its own files. A worker without a file has nothing to stream: it fails at start, or the
accelerator waits for it for ever.

Fix: write the dataset into at least as many files as there are workers; some multiple of it keeps the shards even. The finding
gives the number, and for TFRecord files the lines that do it: they read all records once and deal them out in turn.

Silent without a plan, for pipelines that do not shard, where the files suffice, and for a dataset of TensorFlow Datasets: its
files belong to its description, and are not to be written anew by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from cs_input_analyzer.records import Case, FileSet, Finding, Op

FILES_PER_WORKER = 4
RECIPE = """\
import contextlib, glob
import tensorflow as tf
with contextlib.ExitStack() as stack:
    names = ["new/part-%05d-of-{shards:05d}.tfrecord" % number for number in range({shards})]
    files = [stack.enter_context(tf.io.TFRecordWriter(name{options})) for name in names]
    records = tf.data.TFRecordDataset(sorted(glob.glob("{directory}/*")){compression})
    for number, record in enumerate(records.as_numpy_iterator()):
        files[number % {shards}].write(record)"""


def find(case: Case) -> Iterator[Finding]:
    files, plan = case.pipeline.files, case.plan
    if files is None or plan is None or not case.is_sharded or _is_prepared(files):
        return
    workers = plan.input_workers
    if plan.meets_demand is False and plan.limited_by == "files":
        workers = max(workers, files.count + 1)
    if workers <= files.count:
        return
    shard = next((op for op in case.pipeline.ops if op.kind == "Shard"), None)
    wanted = FILES_PER_WORKER * workers
    recipe = _recipe(case.pipeline.ops, files, wanted)
    yield Finding(
        severity="warning",
        message=f"the demand needs more input workers than the {files.count} files can be shared out to",
        op=shard.name if shard else None,
        evidence={"files": files.count, "workers": workers, "files_wanted": wanted},
        fix=f"write the dataset into {wanted} files or more" + (", in a folder `new` for example" if recipe else ""),
        after=recipe,
    )


def _is_prepared(files: FileSet) -> bool:
    """Whether TensorFlow Datasets wrote the files: its folders are named by version (`mnist/3.0.1`)."""
    return re.fullmatch(r"\d+\.\d+\.\d+", PurePath(files.directory or "").name) is not None


def _recipe(ops: tuple[Op, ...], files: FileSet, shards: int) -> str | None:
    """Lines of Python that deal the records out to `shards` files in turn; None where they are no TFRecord files."""
    reader = next((op for op in ops if op.kind == "TFRecord"), None)
    if reader is None or files.directory is None:
        return None
    packed = reader.parameters.get("compression_type")
    return RECIPE.format(
        shards=shards,
        directory=files.directory.replace("\\", "\\\\").replace('"', '\\"'),
        options=f', "{packed}"' if packed else "",
        compression=f', compression_type="{packed}"' if packed else "",
    )
