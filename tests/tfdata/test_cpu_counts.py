"""Which numbers of a pipeline the user's code takes from the CPUs. In-process TensorFlow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer.tfdata import graph

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


CALLS, CYCLE = {"num_parallel_calls": 1024}, {"cycle_length": 1024}
DEFAULT = "def made(ds, threads=os.cpu_count()):\n    return ds.map(tf.abs, num_parallel_calls=threads)"
BY_NAME = "def made(ds, *, threads=os.cpu_count()):\n    return ds.map(tf.abs, num_parallel_calls=threads)"
NONE = """
def made(ds, threads=None):
    threads = threads or os.cpu_count() // 2
    return ds.map(tf.abs, num_parallel_calls=threads)"""
PARAMS = "params = dict(os.environ)\nthreads = int(params.get('threads', os.cpu_count()))"
CONFIG = "COUNT = multiprocessing.cpu_count()\nclass Config:\n    threads: int = COUNT or 1"
FIELD = """
class Config:
    def __init__(self, threads=os.cpu_count() * 2):
        self.threads = threads
config = Config()"""
ENTRY = 'CONFIG = {"threads": os.cpu_count() - 1, "folder": os.getcwd()}'
FILES = 'tf.data.TFRecordDataset(["a", "b"], num_parallel_reads=os.cpu_count())'
CHOSEN = {"cycle_length": 342}
OPEN = "tf.data.Dataset.from_tensors"


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
        (FIELD, "ds.map(tf.abs, num_parallel_calls=config.threads)", {"map": {"num_parallel_calls": 2048}}),
        (ENTRY, 'ds.map(tf.abs, num_parallel_calls=CONFIG["threads"])', {"map": {"num_parallel_calls": 1023}}),
        (PARAMS, "ds.map(tf.abs, num_parallel_calls=threads)", {"map": CALLS}),
        (NONE, "made(ds)", {"map": {"num_parallel_calls": 512}}),
        (DEFAULT, "made(made(ds))", {"map": CALLS, "map_2": CALLS}),
        (BY_NAME, "made(made(ds), threads=2)", {"map": CALLS}),
        ("", "ds.map(tf.abs, num_parallel_calls=os.cpu_count() // 2)", {"map": {"num_parallel_calls": 512}}),
        ("", "ds.map(tf.abs, num_parallel_calls=max(1, os.cpu_count() - 1))", {"map": {"num_parallel_calls": 1023}}),
        ("import math", "ds.map(tf.abs, num_parallel_calls=math.ceil(0.3 * os.cpu_count()))", {"map": {"num_parallel_calls": 308}}),
        ("", "ds.map(tf.abs, num_parallel_calls=min(16, os.cpu_count()))", {"map": {"num_parallel_calls": 16}}),
        ("", f"ds.interleave({OPEN}, os.cpu_count(), num_parallel_calls=os.cpu_count())", {"interleave": CALLS | CYCLE}),
        ("", f"ds.interleave({OPEN}, cycle_length=os.cpu_count(), num_parallel_calls=2)", {"interleave": CYCLE}),
        ("", FILES, {"interleave": CYCLE}),
    ],
)
def test_a_number_that_the_code_takes_from_the_cpus_has_its_number_on_many(
    text: str, pipeline: str, expected: dict[str, dict[str, int]], tmp_path: Path
) -> None:
    assert marked(text, pipeline, tmp_path) == expected


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        (FILES.replace("os.cpu_count()", "tf.data.AUTOTUNE"), CHOSEN),
        (f"ds.interleave({OPEN}, num_parallel_calls=tf.data.AUTOTUNE)", CHOSEN),
        (f"ds.interleave({OPEN}, num_parallel_calls=999)", {"cycle_length": 999}),
        (f"ds.interleave({OPEN}, num_parallel_calls=os.cpu_count())", CALLS | CYCLE),
    ],
)
def test_a_cycle_that_tensorflow_chooses_grows_with_the_cpus(
    pipeline: str, expected: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a third of the CPUs of the process, or as long as there are calls. TensorFlow counts the CPUs itself."""
    monkeypatch.undo()
    assert marked("", pipeline, tmp_path) == {"interleave": expected}


AMONG_OTHERS = "def first(threads=6):\n    pass\ndef second(threads=os.cpu_count()):\n    pass\nthreads = 6"


@pytest.mark.parametrize(
    ("text", "pipeline"),
    [
        ("", f"ds.map(tf.abs, num_parallel_calls={HOST})"),
        ("", f"ds.map(tf.abs, num_parallel_calls={PROCESS})"),
        ("THREADS = 6", "ds.map(tf.abs, num_parallel_calls=THREADS)"),
        (AMONG_OTHERS, "ds.map(tf.abs, num_parallel_calls=threads)"),
        ("", "ds.map(tf.abs, num_parallel_calls=6).batch(os.cpu_count())"),  # another call asks for the CPUs
        ("", "ds.map(lambda x: x + os.cpu_count(), num_parallel_calls=6)"),
        ("", "ds.map(tf.abs, num_parallel_calls=min(2, os.cpu_count()))"),  # on no node more
        ("", "ds.map(tf.abs, num_parallel_calls=min(os.cpu_count(), len(os.environ)))"),
        ("", "ds.map(tf.abs, num_parallel_calls=2 if os.cpu_count() > 4 else os.cpu_count())"),
        ("", "ds.map(tf.abs, num_parallel_calls=tf.data.AUTOTUNE)"),
        ("", f"ds.interleave({OPEN}, cycle_length=1, num_parallel_calls=tf.data.AUTOTUNE)"),
        ("", f"ds.interleave({OPEN}, cycle_length=2, num_parallel_calls=tf.data.AUTOTUNE)"),
        (
            "def made(threads):\n    return ds.map(tf.abs, num_parallel_calls=threads)\nds = 1",
            "tf.data.Dataset.range(os.cpu_count())",
        ),
    ],
)
def test_a_number_that_is_written_or_another_is_not_marked(text: str, pipeline: str, tmp_path: Path) -> None:
    assert marked(text, pipeline, tmp_path) == {}


def test_no_function_of_the_user_is_called(tmp_path: Path) -> None:
    text = "calls = []\ndef count():\n    calls.append(1)\n    return os.cpu_count()\nthreads = count() or os.cpu_count()"
    assert marked(text, "ds.map(tf.abs, num_parallel_calls=threads if len(calls) == 1 else 7)", tmp_path) == {}
