"""Ops as literals, for tests of what is counted of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cs_input_analyzer.records import FileSet, Op


def op(name: str, kind: str, *inputs: str, within: str | None = None, calls: tuple[str, ...] = (), **parameters: Any) -> Op:
    return Op(
        name=name, kind=kind, source=f"data.py:{len(name)}", inputs=inputs, parameters=parameters, within=within, function_ops=calls
    )


CHAIN = (op("range", "Range"), op("map", "Map", "range"), op("batch", "Batch", "map"), op("prefetch", "Prefetch", "batch"))

# A function whose ops are not seen at work.
SLICES = (
    op("range", "Range"),
    op("range_2", "Range", within="flat_map"),
    op("map", "Map", "range_2", within="flat_map"),
    op("batch", "Batch", "map", within="flat_map"),
    op("flat_map", "FlatMap", "range"),
    op("shuffle", "Shuffle", "flat_map"),
)


def concatenated(count: int, *behind: Op, files: int = 1) -> tuple[Op, ...]:
    """Return what a loop with `data = data.concatenate(one(file))` makes of `count` files."""
    found: list[Op] = []
    read = FileSet(count=files, bytes=10_880, largest_bytes=10_880, smallest_bytes=10_880)
    for n in range(1, count + 1):
        tail = f"_{n}" if n > 1 else ""
        names = op(f"from_tensor_slices{tail}", "TensorSlice", components=(f"{n:03}.tfrecord",))
        reader = replace(op(f"TFRecordDataset{tail}", "TFRecord", within=f"flat_map{tail}"), files=read)
        opened = op(f"flat_map{tail}", "FlatMap", names.name)
        made = (names, reader, opened, op(f"map{tail}", "Map", opened.name, calls=("DecodeRaw",), use_inter_op_parallelism=True))
        found += (replace(one, source="data.py:8", code="    return tf.data.TFRecordDataset(path).map(decode)") for one in made)
        if n > 1:
            before = "map" if n == 2 else "concatenate" if n == 3 else f"concatenate_{n - 2}"
            join = op("concatenate" if n == 2 else f"concatenate_{n - 1}", "Concatenate", before, f"map{tail}")
            found.append(replace(join, source="data.py:15", code="        data = data.concatenate(one(f))"))
    return (
        *found,
        op("shuffle", "Shuffle", found[-1].name, buffer_size=200),
        op("batch", "Batch", "shuffle", batch_size=20),
        *behind,
    )
