"""Compression of the records costs the resource that is short, and saves the one that is not.

Unpacking GZIP or ZLIB takes CPU time in the reader, on one thread for each file: 240 MB of records a CPU second, where plain
ones take 980 (measured on tokens). That pays where the storage is slow and the data shrink. Where CPU is what a worker lacks,
plain records stream faster; where the storage holds it back and CPUs idle, compressed ones do. Images and audio are compressed
already: doing it again costs CPU and saves nothing.

Fix: write the records once more, without `compression_type` (or with it), and set the same in the reader.

A warning where records are compressed, the worker is short of CPU and the reader takes a fifth of its CPU time or more. For your
information where the reader takes as much of a worker with CPU to spare, where compressed records were not measured or hold
encoded images, and where plain records meet a storage that is the bottleneck.

Silent where the trade is the right way round, and for records of encoded images that are not compressed again.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.planning.evidence import bottleneck, share_of
from cs_input_analyzer.records import Case, Finding, Op, StationKind
from cs_input_analyzer.units import format_ratio

READERS = ("TFRecord", "TextLine", "FixedLengthRecord", "CSV")
ENCODED = frozenset({"DecodeJpeg", "DecodePng", "DecodeImage", "DecodeAndCropJpeg", "DecodeGif", "DecodeWebP"})
LARGE_RATIO = 0.2
CPU_BOUND: tuple[StationKind, ...] = ("CPU", "serial op", "fixed parallelism", "readers")


def find(case: Case) -> Iterator[Finding]:
    readers = [op for op in case.pipeline.ops if op.kind in READERS and isinstance(op.parameters.get("compression_type"), str)]
    packed = [op for op in readers if op.parameters["compression_type"]]
    is_encoded = any(ENCODED.intersection(op.function_ops) for op in case.pipeline.ops)
    storage = bottleneck(case, ("storage bandwidth",))
    if packed:
        share = share_of(case, packed)
        is_short_of_cpu = bottleneck(case, CPU_BOUND) is not None
        if storage is not None or (share is not None and share < LARGE_RATIO and not is_encoded):
            return
        is_waste = share is not None and share >= LARGE_RATIO and is_short_of_cpu
        cost = f": {format_ratio(share)} of the CPU time goes into reading them" if share is not None else ""
        what = (
            "encoded images are compressed once more" if is_encoded else f"records are {packed[0].parameters['compression_type']}"
        )
        yield _finding(
            packed[0], "warning" if is_waste else "info", f"{what}{cost}", "write the records without compression", share, storage
        )
    elif readers and storage is not None and not is_encoded:
        message = "the storage holds the worker back, and the records are not compressed"
        yield _finding(readers[0], "info", message, 'write the records with compression_type="GZIP", if they shrink', None, storage)


def _finding(op: Op, severity: str, message: str, fix: str, share: float | None, storage: object) -> Finding:
    return Finding(
        severity="warning" if severity == "warning" else "info",
        message=message,
        op=op.name,
        evidence={
            "compression_type": str(op.parameters["compression_type"]),
            "share_ratio": share,
            "is_storage_the_bottleneck": storage is not None,
        },
        fix=fix,
    )
