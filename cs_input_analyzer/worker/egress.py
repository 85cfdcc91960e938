"""What sending elements to the accelerator costs a worker in CPU time: tensors of their size, serialized and written to a socket.

It is measured in a process that has TensorFlow, as a worker has: what a copy costs there is mostly new memory, of which a small
process sees nothing. `python -m cs_input_analyzer.worker.egress PORT BYTES SECONDS` is that process.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from contextlib import suppress

from cs_input_analyzer.errors import LaunchError

SECONDS = 1.0
PATIENCE_S = 60.0
LEAST_SENT = 8
# Larger elements are as many times this. So much in all is sent in turns, so that no element comes from a cache of the CPU.
LARGEST_BYTES, TOGETHER_BYTES, MOST_KEPT = 2**26, 2**27, 64
RECEIVED_BYTES = 2**20


def sending_cpu_s_per_byte(element_bytes: int, seconds: float = SECONDS) -> float:
    """CPU seconds of the sender for each byte, median of the elements that were sent.

    The socket is one of this host: the kernel does the receiver's part of the protocol on the sender's CPU, too, and no network
    card helps. What a training's own protocol does beyond serializing the tensors is not in it.

    Args:
        element_bytes: bytes of the tensors of one element.

    Raises:
        LaunchError: there is no socket to be had, or the process failed.
    """
    environ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=_receive, args=(server,), daemon=True).start()
            numbers = (server.getsockname()[1], max(1, min(element_bytes, LARGEST_BYTES)), seconds)
            command = [sys.executable, "-m", __name__, *map(str, numbers)]
            ended = subprocess.run(command, capture_output=True, text=True, check=True, env=environ, timeout=PATIENCE_S + seconds)
        return float(ended.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise LaunchError(f"sending elements could not be measured: {error}") from None


def _receive(server: socket.socket) -> None:
    into = bytearray(RECEIVED_BYTES)
    with suppress(OSError), server.accept()[0] as connection:  # where the sender is gone, it says why
        while connection.recv_into(into):
            pass


def _send(port: int, element_bytes: int, seconds: float) -> float:
    import tensorflow as tf

    element = tf.random.uniform((element_bytes,), maxval=256, dtype=tf.int32)
    elements = [tf.cast(element, tf.uint8) + index for index in range(min(MOST_KEPT, 1 + TOGETHER_BYTES // element_bytes))]
    costs: list[float] = []
    with socket.create_connection(("127.0.0.1", port)) as sender:
        until_s = time.monotonic() + seconds
        while len(costs) < LEAST_SENT or time.monotonic() < until_s:
            began_s = time.thread_time()
            sender.sendall(tf.io.serialize_tensor(elements[len(costs) % len(elements)]).numpy())
            costs.append((time.thread_time() - began_s) / element_bytes)
    return statistics.median(costs)


if __name__ == "__main__":
    print(_send(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
