"""Is a worker that sends its batches as fast as `--egress measure` says? A loop that sends beside one that does not.

One process on one CPU, the receiver on another one where there is one; slices of both kinds in turns, in random order.
"""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import tensorflow as tf

from benchmarks.paired import arguments, middle, ratio_bounds, save, show
from cs_input_analyzer.worker.egress import sending_cpu_s_per_byte

BATCH = 32
# Bytes of a batch: of text, of small pictures, of large ones.
SIZES = {"64 KiB": 2**16, "1.5 MiB": 3 * 2**19, "18 MiB": 18 * 2**20}
RECEIVER = """
import os, socket
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
connection, into = server.accept()[0], bytearray(2**20)
while connection.recv_into(into):
    pass
"""


def batches(size: int) -> tf.data.Dataset:
    """Random numbers: about as much CPU for a byte as a decoder takes."""
    draw = tf.data.Dataset.range(2**62).map(lambda _: tf.random.uniform((size // BATCH // 4,)), num_parallel_calls=tf.data.AUTOTUNE)
    return draw.batch(BATCH, drop_remainder=True).prefetch(2)


def sampled(iterator: object, act: Callable[[tf.Tensor], object], seconds: float) -> tuple[float, float]:
    """Samples/s, and CPU seconds of the process for each sample."""
    count, began_s, cpu_s = 0, time.monotonic(), time.process_time()
    while time.monotonic() < began_s + seconds:
        act(next(iterator))  # type: ignore[call-overload]
        count += BATCH
    return count / (time.monotonic() - began_s), (time.process_time() - cpu_s) / count


def main() -> None:
    options = arguments(__doc__, pairs=(int, 10, "slices of each kind"), seconds=(float, 1.0, "seconds of a slice"))
    receiver = subprocess.Popen([sys.executable, "-c", RECEIVER], stdout=subprocess.PIPE, text=True)
    assert receiver.stdout is not None
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows, result = [], {}
    with socket.create_connection(("127.0.0.1", int(receiver.stdout.readline()))) as sender:
        acts = {
            "bare": lambda batch: batch,
            "sends": lambda batch: sender.sendall(tf.io.serialize_tensor(batch).numpy()),
        }
        for name, size in SIZES.items():
            cost_s = sending_cpu_s_per_byte(size) * size / BATCH
            iterator = iter(batches(size))
            sampled(iterator, acts["bare"], options.seconds)
            seen: dict[str, list[tuple[float, float]]] = {kind: [] for kind in acts}
            for _ in range(options.pairs):
                for kind in random.sample(list(acts), len(acts)):
                    seen[kind].append(sampled(iterator, acts[kind], options.seconds))
            rates = {kind: [rate for rate, _ in slices] for kind, slices in seen.items()}
            cpus = {kind: middle([cpu for _, cpu in slices]) for kind, slices in seen.items()}
            found = ratio_bounds([rate / (1 + rate * cost_s) for rate in rates["bare"]], rates["sends"])
            result[name] = {**found, "cost_s": cost_s, "cpu_s": cpus, "rates": rates}
            told = f"{found['ratio']:.2f} ({found['low']:.2f} to {found['high']:.2f})"
            costs = (f"{cost_s * 1e6:.1f}", f"{(cpus['sends'] - cpus['bare']) * 1e6:.1f}")
            rows.append((name, *(f"{middle(rates[kind]):,.0f}" for kind in acts), told, *costs))
    receiver.wait()
    columns = ("batch", "bare, samples/s", "sends, samples/s", "predicted / sends", "sending, µs a sample", "as CPU time moved, µs")
    show("A worker of one CPU that sends its batches", columns, rows)
    save(options.json, {"sending": result})


if __name__ == "__main__":
    main()
