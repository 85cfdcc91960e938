"""Rules of the files themselves: their size, number, place and compression."""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.model.amounts import files_wanted
from cs_input_analyzer.model.evidence import COSTLY_RATIO, READING, bottleneck, finding, node_local_folder, share_of, workers_of
from cs_input_analyzer.records import Case, Finding, Scalar, StationKind
from cs_input_analyzer.tfdata.op_traits import first_of
from cs_input_analyzer.tfdata.threads import reader_ops
from cs_input_analyzer.units import format_bytes, format_count, format_ratio

SKEWED_RATIO = 2.0  # largest file over mean file
UNEVEN_RATIO = 1.5  # largest shard over mean shard


def skewed_file_sizes(case: Case) -> Iterator[Finding]:
    """Files of very different size make shards of very different size.

    Workers divide files, not samples. In training that repeats, samples of small shards are seen more often than those
    of large ones. Without a repeat the small shards end first, and the accelerator waits for the large one. If large
    files also hold larger samples, their worker is the slowest, and a round-robin feed runs at its rate.

    Fix: write the data again into files of equal size, several for each worker, so that differences average out.

    A warning if the largest shard of the plan is at least 1.5 times the mean, or if the measured shards differ in speed
    and hold the worker back. For your information if only the file sizes differ.

    Silent if the largest file is less than twice the mean. Silent if workers do not divide files, and for a single
    worker.
    """
    files, workers = case.pipeline.files, workers_of(case)
    if files is None or files.count < 2 or files.bytes == 0 or not case.is_sharded or workers == 1:
        return
    skew = files.largest_bytes * files.count / files.bytes
    if skew < SKEWED_RATIO:
        return
    uneven = None
    if workers and workers <= files.count:  # the shard of the largest file, if its other files have the mean size of the rest
        rest = (files.bytes - files.largest_bytes) / (files.count - 1)
        uneven = (files.largest_bytes + (files.count / workers - 1) * rest) / (files.bytes / workers)
    slowest = bottleneck(case, ("slowest shard",))
    is_bad = slowest is not None or (uneven is not None and uneven >= UNEVEN_RATIO)
    shard = first_of(case.pipeline.ops, ("Shard",))
    effect = f": the largest of {workers} shards is at least {uneven:.1f} times the mean" if uneven else ""
    message = (
        f"the largest file has {format_bytes(files.largest_bytes)}, the mean one {format_bytes(files.bytes / files.count)}{effect}"
    )
    fix = f"write the data into {max(files.count, 4 * (workers or 1))} files or more, of equal size"
    evidence = {"largest_bytes": files.largest_bytes, "largest_over_mean_ratio": skew, "largest_shard_ratio": uneven}
    yield finding(shard, message, fix, evidence, is_warning=is_bad)


def path_not_shared(case: Case) -> Iterator[Finding]:
    """The data are on this machine's own disk, and the plan has several nodes.

    Every node that streams opens the same paths. A local file system, above all `/tmp` and `/dev/shm`, is different on
    each node. On the other nodes the list of files is empty and the job fails at start, or it finds a stale copy.

    Fix: put the dataset on a file system that all nodes mount, and give that path. Or copy it to the same local path on
    every node before the job, which is faster if it fits.

    A warning if Slurm named the nodes. For your information if flags, a file or a preset describe them, because the
    data may be at another place there.

    Silent for a single node, on shared file systems, if the type of file system may be local or shared, and without
    files.
    """
    directory, nodes, is_shared, file_system = _place(case)
    if nodes < 2 or directory is None:
        return
    by_name = node_local_folder(directory)
    if is_shared or (is_shared is None and by_name is None):
        return
    why = f"{by_name} is each node's own" if by_name else f"{file_system or 'it'} is a local file system"
    who = "plan" if case.plan is not None else "cluster"
    message = f"the {who} has {nodes} nodes, but the data in {directory} are on this one only ({why})"
    fix = "move the data to a file system that all nodes mount, or copy them to this path on every node"
    evidence = {"directory": directory, "file_system": file_system, "is_shared": is_shared, "nodes": nodes}
    yield finding(None, message, fix, evidence, is_warning="slurm" in case.cluster.source.lower())


def _place(case: Case) -> tuple[str | None, int, bool | None, str | None]:
    """Return the folder of the files, the nodes that read it, whether it is shared, and its file system."""
    files, storage, nodes = case.pipeline.files, case.storage, (case.plan or case.cluster).nodes
    directory = files.directory if files is not None else None
    return directory, nodes, *((storage.is_shared, storage.file_system) if storage is not None else (None, None))


ENCODED = frozenset({"DecodeJpeg", "DecodePng", "DecodeImage", "DecodeAndCropJpeg", "DecodeGif", "DecodeWebP"})
CPU_BOUND: tuple[StationKind, ...] = ("CPU", "serial op", "fixed parallelism", "readers")


def compression_tradeoff(case: Case) -> Iterator[Finding]:
    """Compression of the records costs the scarce resource, and saves the one that is not scarce.

    Unpacking GZIP or ZLIB takes CPU time in the reader, on one thread for each file: 240 MB of records per CPU second,
    where plain records reach 980 (measured on tokens). That pays if the storage is slow and the data shrink. Images and
    audio are already compressed: compressing them again costs CPU and saves nothing.

    Fix: write the records again without `compression_type` (or with it), and set the same in the reader.

    A warning if records are compressed, the worker is short of CPU, and the reader takes a fifth of its CPU time or
    more. For your information if the worker has CPU to spare, if compressed records hold encoded images, or if the
    storage is the bottleneck of plain records.

    Silent if the compression fits the bottleneck, or if the cost of unpacking was not measured. Silent for encoded
    images in plain records.
    """
    readers = [op for op in case.pipeline.ops if isinstance(op.parameters.get("compression_type"), str)]
    packed = [op for op in readers if op.parameters["compression_type"]]
    is_encoded = any(ENCODED.intersection(op.function_ops) for op in case.pipeline.ops)
    storage = bottleneck(case, ("storage bandwidth",))
    share, is_waste = share_of(case, packed) if packed else None, False
    if packed:
        if storage is not None or ((share is None or share < COSTLY_RATIO) and not is_encoded):
            return
        is_waste = share is not None and share >= COSTLY_RATIO and bottleneck(case, CPU_BOUND) is not None
        kind = packed[0].parameters["compression_type"]
        message = "encoded images are compressed once more" if is_encoded else f"records are {kind}"
        message += f": {format_ratio(share)} of the CPU time goes into reading them" if share is not None else ""
        fix = "write the records without compression"
    elif readers and storage is not None and not is_encoded:
        message = "the storage holds the worker back, and the records are not compressed"
        fix = 'write the records with compression_type="GZIP", if they shrink'
    else:
        return
    op = (packed or readers)[0]
    evidence: dict[str, Scalar] = {"compression_type": str(op.parameters["compression_type"])}
    evidence["is_storage_the_bottleneck"] = storage is not None
    yield finding(op, message, fix, evidence, is_warning=is_waste)


HUGE_BYTES = 256 * 2**20
MANY = 1000
SMALL_BYTES = 2**20


def file_count_extreme(case: Case) -> Iterator[Finding]:
    """All data are in one file that is huge or read too slowly, or in thousands of tiny ones.

    One thread reads a file from front to end. No shuffle of file names mixes a single file, and workers cannot divide
    it. Each tiny file costs an open, a name look-up and a first wait. Over a network that takes a millisecond or more,
    enough to read a megabyte.

    Fix: write records into files of 100 to 200 MB, and several files for each worker.

    A warning if reading holds the worker back in the measurement; else for your information. One smaller file is reported
    only with that warning, and if the plan has several workers.

    Silent for other sizes, and if workers outnumber the files that they divide (see CSI301).
    """
    files, workers = case.pipeline.files, workers_of(case)
    if files is None or (case.is_sharded and workers is not None and workers > files.count):
        return
    mean = files.bytes / files.count
    is_tiny = files.count >= MANY and mean <= SMALL_BYTES
    is_bad = bottleneck(case, READING) is not None
    is_too_few = files.count == 1 and (files.bytes >= HUGE_BYTES or (is_bad and (workers or 1) > 1))
    if not is_tiny and not is_too_few:
        return
    reader = next(iter(reader_ops(case.pipeline.ops)), None)
    message = f"{format_count(files.count)} files of {format_bytes(mean)} each"
    if not is_tiny:
        message = f"one file holds all {format_bytes(files.bytes)}: one thread reads it, and workers cannot divide it"
    fix = f"write the data into {files_wanted(files, workers)} files or so"
    evidence = {"files": files.count, "mean_bytes": mean, "workers": workers}
    yield finding(reader, message, fix, evidence, is_warning=is_bad)
