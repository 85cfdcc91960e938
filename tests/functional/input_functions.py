"""Input functions as users write them, most of them with something wrong. Run by workers, never imported by the tests."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import numpy as np
import tensorflow as tf

Dataset = tf.data.Dataset


def endless(params: dict[str, Any]) -> Any:
    """About a millisecond per batch of 8, so that a window holds many and no core is idle."""
    return Dataset.range(1 << 40).map(_busy).batch(params.get("batch_size", 8), drop_remainder=True)


def slow_to_build(params: dict[str, Any]) -> Any:
    """As one that lists many files: longer than the whole budget of measuring."""
    time.sleep(10)
    return endless(params)


def _busy(x: Any) -> Any:
    square = tf.random.stateless_uniform([48, 48], [1, 2]) + tf.cast(x, tf.float32) * 0
    return tf.linalg.matmul(square, square)


def tells_its_draws(params: dict[str, Any]) -> Any:
    """Random numbers that two workers must not share, and what a process forked from another may have brought along."""
    import random

    import threadpoolctl

    seen = {
        "python": random.random(),
        "numpy": float(np.random.rand()),
        "tensorflow": [int(x) for x in Dataset.range(50).shuffle(50)],
        "blas_threads": [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"],
        "variables": [name for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS") if name in os.environ],
        "collects_garbage": gc.isenabled(),
    }
    with open(f"{params['to']}/{os.getpid()}", "w") as file:
        json.dump(seen, file)
    return endless({})


def returns_nothing() -> None:
    endless({})


def returns_tensors() -> Any:
    return next(iter(endless({})))


def no_file_matches() -> Any:
    return Dataset.list_files("shards/part-*.tfrecord").interleave(tf.data.TFRecordDataset).batch(2)


def empty() -> Any:
    return Dataset.range(10).filter(lambda x: x > 10).batch(2)


def ends() -> Any:
    return Dataset.range(100).map(lambda x: tf.cast(x, tf.float32)).batch(4, drop_remainder=True)


def reads_records_of_a_store(params: dict[str, Any]) -> Any:
    """TensorFlow keeps the files of `ram://` in the memory of the process."""
    for number in range(4):
        with tf.io.TFRecordWriter(f"{params['folder']}/part-{number}.tfrecord") as writer:
            for _ in range(400 * (number + 1)):
                writer.write(b"x" * 500)
    return reads_records(params).repeat()


def reads_records(params: dict[str, Any]) -> Any:
    return tf.data.TFRecordDataset(tf.io.gfile.glob(f"{params['folder']}/*.tfrecord")).batch(2)


def raises() -> Any:
    return Dataset.range(10).map(_picky)


def _picky(x: Any) -> Any:
    raise ValueError("the crop is larger than the picture")


def hangs() -> Any:
    while True:
        time.sleep(1)


def generator_blocks() -> Any:
    def generate() -> Any:
        yield 0
        threading.Event().wait()

    return Dataset.from_generator(generate, output_signature=tf.TensorSpec([], tf.int64))


def blocks_after_a_while() -> Any:
    """Sixty elements, one in some hundredth of a second; then nothing more for ever."""

    def generate() -> Any:
        for index in range(60):
            time.sleep(0.01)
            yield index
        threading.Event().wait()

    return Dataset.from_generator(generate, output_signature=tf.TensorSpec([], tf.int64))


def gives_one_once() -> Any:
    """A source that was read cannot be read again."""
    once = iter([0])
    return Dataset.from_generator(lambda: once, output_signature=tf.TensorSpec([], tf.int64))


def dies_of_a_signal() -> Any:
    os.kill(os.getpid(), signal.SIGSEGV)


def eats_memory(pause_s: float = 0.002) -> Any:
    held = []
    while True:
        held.append(np.ones(16 << 20, np.uint8))
        time.sleep(pause_s)


def eats_memory_slowly() -> Any:
    """Whoever watches has seconds between the limit of a worker and that of its group, also on a busy host."""
    return eats_memory(pause_s=0.1)


def forks() -> Any:
    """The child comes back from the input function too, and would go on as a second worker."""
    os.fork()
    return endless({})


def leaves_processes_behind() -> Any:
    """A helper in a session of its own, and a daemon whose parent is gone."""
    assert sys.stdin.read() == ""
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "600"])
        os._exit(0)
    return endless({})


def second_worker_meets_a_bad_record_early() -> Any:
    dataset = endless({})
    return dataset if task_index() == 0 else dataset.take(4).concatenate(_bad())


def _bad() -> Any:
    return (
        Dataset.range(8)
        .map(lambda x: tf.ensure_shape(tf.strings.to_number("nine"), []) + tf.zeros([48, 48]))
        .batch(8, drop_remainder=True)
    )


def task_index() -> int:
    return int(json.loads(os.environ["TF_CONFIG"])["task"]["index"])


def starts_a_fork_server_of_its_own() -> Any:
    """As code that reads with `multiprocessing` may: its server is no business of ours."""
    import multiprocessing

    process = multiprocessing.get_context("forkserver").Process(target=os.getpid)
    process.start()
    process.join()
    assert process.exitcode == 0
    return endless({})


def tells_what_it_sees(params: dict[str, Any]) -> Any:
    """Writes what a worker sees of itself to `params["to"]` plus its index."""
    seen = {
        "tf_config": json.loads(os.environ["TF_CONFIG"]),
        "cpus": sorted(os.sched_getaffinity(0)),
        "gpus": len(tf.config.list_physical_devices("GPU")),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "cwd": os.getcwd(),
        "temporary": tempfile.gettempdir(),
        "in_environment": os.environ.get("TMPDIR"),
        "params": params,
        "slurm": {name: value for name, value in os.environ.items() if name.startswith("SLURM_")},
    }
    with open(f"{params['to']}{task_index()}.json", "w", encoding="utf-8") as file:
        json.dump(seen, file)
    return endless(params)


def caches_where_it_is_told(params: dict[str, Any]) -> Any:
    return Dataset.range(1 << 40).map(_busy).cache(params["to"]).batch(8, drop_remainder=True)


def caches_in_a_file() -> Any:
    return Dataset.range(1 << 40).map(_busy).cache("cache/store").batch(8, drop_remainder=True)


def tells_what_autotune_sees(params: dict[str, Any]) -> Any:
    """Runs its own pipeline until AUTOTUNE has been through its first rounds, and writes down what its model said."""

    def busy(x: Any) -> Any:
        square = tf.random.stateless_uniform([100, 100], [1, 2]) + tf.cast(x, tf.float32) * 0
        for _ in range(3):
            square = tf.linalg.matmul(square, square) * 1e-3
        return x + tf.cast(tf.reduce_sum(square) * 0, x.dtype)

    def pipeline() -> Any:
        mapped = tf.data.Dataset.range(1 << 40).map(busy, num_parallel_calls=-1)
        return mapped.batch(4, num_parallel_calls=-1, drop_remainder=True).prefetch(-1)

    iterator = iter(pipeline())
    budgets, parallelism = set(), set()
    end_s = time.monotonic() + 1.2
    while time.monotonic() < end_s:
        next(iterator)
        model = tf.data.experimental.get_model_proto(iterator)
        budgets.add(model.optimization_params.cpu_budget)
        for node in model.nodes.values():
            parallelism |= {p.state_value for p in node.parameters if p.tunable and p.name == "parallelism"}
    with open(params["to"], "w") as file:
        cpus = sorted(os.sched_getaffinity(0))
        json.dump({"cpus": cpus, "budgets": sorted(budgets), "parallelism": sorted(parallelism)}, file)
    return pipeline()
