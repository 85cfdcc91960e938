"""Leave out ops that move batches to a device from the measured copy.

A worker sees no device, and TensorFlow writes no graph of these ops.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from cs_input_analyzer.errors import TargetError
from cs_input_analyzer.tfdata.graph import where_built

# From the op's constructor to the function that the user called.
_FRAMES = 6


@contextmanager
def devices_left_out() -> Iterator[list[str]]:
    """Leave out `copy_to_device` and its results while open. Yield one sentence for each op that was left out.

    The host's own buffer of `prefetch_to_device` stays. Raise TargetError for `map_on_gpu`, which computes on the device.
    """
    from tensorflow.python.data.experimental.ops import prefetching_ops

    told: list[str] = []

    def copied(input_dataset: Any, *args: Any, **kwargs: Any) -> Any:
        line = where_built().line or "an unknown line"
        told.append(f"left out: {_called()}, {line}: it moves batches to a device")
        return input_dataset

    def mapped(*args: Any, **kwargs: Any) -> NoReturn:
        raise TargetError(
            f"map_on_gpu at {where_built().line} computes on a GPU, and a worker has none: leave it out of the input function"
        )

    changed = {"_CopyToDeviceDataset": copied, "_MapOnGpuDataset": mapped}
    originals = {name: getattr(prefetching_ops, name) for name in changed if hasattr(prefetching_ops, name)}
    for name in originals:
        setattr(prefetching_ops, name, changed[name])
    try:
        yield told
    finally:
        for name, original in originals.items():
            setattr(prefetching_ops, name, original)


def _called() -> str:
    """Return the name of the public op that is being made: `prefetch_to_device` holds the other one."""
    frame = sys._getframe(2)
    for _ in range(_FRAMES):
        if frame.f_code.co_name == "_apply_fn" and "buffer_size" in frame.f_code.co_freevars:
            return "prefetch_to_device"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "copy_to_device"
