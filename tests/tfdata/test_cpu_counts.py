"""Which numbers of a pipeline the user's code takes from the CPUs. In-process TensorFlow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer.tfdata import graph
from cs_input_analyzer.tfdata.op_traits import PRIVATE_THREADS

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")

HOST, PROCESS = 6, 5
HEAD = "import multiprocessing, os\nimport tensorflow as tf\n"


def marked(text: str, pipeline: str, folder: Path) -> dict[str, tuple[str, ...]]:
    """Return `Op.by_cpus` of the ops that have one, of a `pipeline` that begins with `ds` in a file with this text before it."""
    path = folder / "data.py"
    path.write_text(f"{HEAD}{text}\nds = tf.data.Dataset.range(64)\nds = {pipeline}\n")
    space: dict[str, Any] = {}
    with graph.recorded_sources() as log:
        exec(compile(path.read_text(), str(path), "exec"), space)
    return {op.name: op.by_cpus for op in graph.read_graph(space["ds"], log, target="here:build").ops if op.by_cpus}


@pytest.fixture(autouse=True)
def cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the host 6 CPUs, and this process 5 of them."""
    monkeypatch.setattr(os, "cpu_count", lambda: HOST)
    monkeypatch.setattr("multiprocessing.cpu_count", lambda: HOST)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(PROCESS)))


CALLS, CYCLE = ("num_parallel_calls",), ("cycle_length",)
DEFAULT = "def made(ds, threads=os.cpu_count()):\n    return ds.map(tf.abs, num_parallel_calls=threads)"
BY_NAME = "def made(ds, *, threads=os.cpu_count()):\n    return ds.map(tf.abs, num_parallel_calls=threads)"
CONFIG = "COUNT = multiprocessing.cpu_count()\nclass Config:\n    threads: int = COUNT or 1"
POOL = "options = tf.data.Options()\noptions.threading.private_threadpool_size = os.cpu_count()"
FILES = 'tf.data.TFRecordDataset(["a", "b"], num_parallel_reads=os.cpu_count())'


@pytest.mark.parametrize(
    ("text", "pipeline", "expected"),
    [
        ("", "ds.map(tf.abs, num_parallel_calls=os.cpu_count())", {"map": CALLS}),
        ("", "ds.map(tf.abs, multiprocessing.cpu_count())", {"map": CALLS}),
        ("", "ds.map(tf.abs, num_parallel_calls=len(os.sched_getaffinity(0)))", {"map": CALLS}),
        (
            "",
            "(ds.map(tf.abs, num_parallel_calls=2)\n  .map(tf.abs, num_parallel_calls=(os.cpu_count()  # all\n  )))",
            {"map_2": CALLS},
        ),
        ("", "ds.batch(4, num_parallel_calls=os.cpu_count() or 1)", {"batch": CALLS}),
        ("THREADS = os.cpu_count()", "ds.map(tf.abs, num_parallel_calls=THREADS)", {"map": CALLS}),
        (CONFIG, "ds.map(tf.abs, num_parallel_calls=Config.threads)", {"map": CALLS}),
        (DEFAULT, "made(made(ds))", {"map": CALLS, "map_2": CALLS}),
        (BY_NAME, "made(made(ds), threads=2)", {"map": CALLS}),
        (
            "",
            "ds.interleave(tf.data.Dataset.from_tensors, os.cpu_count(), num_parallel_calls=os.cpu_count())",
            {"interleave": (*CALLS, *CYCLE)},
        ),
        (
            "",
            "ds.interleave(tf.data.Dataset.from_tensors, cycle_length=os.cpu_count(), num_parallel_calls=2)",
            {"interleave": CYCLE},
        ),
        ("", FILES, {"interleave": CYCLE}),
        (POOL, "ds.with_options(options)", {"with_options": (PRIVATE_THREADS,)}),
    ],
)
def test_a_number_that_the_code_takes_from_the_cpus_is_marked(
    text: str, pipeline: str, expected: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    assert marked(text, pipeline, tmp_path) == expected


@pytest.mark.parametrize(
    ("text", "pipeline"),
    [
        ("", f"ds.map(tf.abs, num_parallel_calls={HOST})"),
        ("", f"ds.map(tf.abs, num_parallel_calls={PROCESS})"),
        (POOL.replace("os.cpu_count()", "6"), "ds.with_options(options)"),
        ("THREADS = 6", "ds.map(tf.abs, num_parallel_calls=THREADS)"),
        ("", "ds.map(tf.abs, num_parallel_calls=6).batch(os.cpu_count())"),  # another call asks for the CPUs
        ("", "ds.map(lambda x: x + os.cpu_count(), num_parallel_calls=6)"),
        ("", "ds.map(tf.abs, num_parallel_calls=min(2, os.cpu_count()))"),  # another number than that of the CPUs
        ("", "ds.map(tf.abs, num_parallel_calls=tf.data.AUTOTUNE)"),
        (
            "def made(threads):\n    return ds.map(tf.abs, num_parallel_calls=threads)\nds = 1",
            "tf.data.Dataset.range(os.cpu_count())",
        ),
    ],
)
def test_a_number_that_is_written_or_another_is_not_marked(text: str, pipeline: str, tmp_path: Path) -> None:
    assert marked(text, pipeline, tmp_path) == {}
