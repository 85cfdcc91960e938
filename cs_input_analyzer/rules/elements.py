"""Rules of the elements and of the ops that make them: shapes, types, Python, decoding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from cs_input_analyzer.model.evidence import (
    COSTLY_RATIO,
    READING,
    bottleneck,
    finding,
    is_idle,
    share_of,
    station_of,
    visits,
    waits,
)
from cs_input_analyzer.records import Case, Component, Finding, Op, Scalar, StationKind
from cs_input_analyzer.tfdata.edits.kinds import argument_set
from cs_input_analyzer.tfdata.folding import costliest
from cs_input_analyzer.tfdata.lineage import at_or_behind, reads_names_only, upstream
from cs_input_analyzer.tfdata.op_kinds import BATCHES, OPENS, REPEATS, TRANSFORMS
from cs_input_analyzer.tfdata.op_traits import is_costly, is_elementwise, opens_files, width_of
from cs_input_analyzer.tfdata.samples import batching_op, full_batches
from cs_input_analyzer.tfdata.source.code import count_calls
from cs_input_analyzer.tfdata.threads import python_ops
from cs_input_analyzer.units import counted, format_bytes, format_count, format_rate, format_ratio, several

KINDS = ("Batch", "ParallelBatch", "PaddedBatch")
# Keras' readers have no drop_remainder; their batch_size=None gives single samples.
OF_LIBRARY = "a library's function batches here: let it give single samples (batch_size=None in Keras),"


def drop_remainder_missing(case: Case) -> Iterator[Finding]:
    """The last batch may be smaller, so the batch dimension is unknown when the model is compiled.

    Accelerators compile a model for one shape. Without `drop_remainder=True` the compiler sees an unknown dimension and
    refuses, even if the data never end. Or the last batch of a pass stops the run.

    Fix: `batch(n, drop_remainder=True)`. At the end of a pass it drops up to n - 1 samples. In evaluation, where each
    sample counts, pad the last batch to full size and mask it. Do the same if a pass has fewer samples than a batch. If
    the batch size itself is a tensor, as in `group_by_window`, only a constant number helps. If a library's function
    batches, let it give single samples, and batch them yourself. A batch inside the function of an `interleave` drops the
    rest of each file: batch after the `interleave` to drop one rest in a pass. In `group_by_window` it drops the rest of
    each window.

    For your information if the data repeat without end before the batch: all batches are full, and only the static
    shape is unknown.

    Silent if the batch dimension is known (a shape set afterwards), for pipelines without batches, and if
    `drop_remainder` is set.
    """
    op = batching_op(case.pipeline.ops)
    if op is None or op.parameters.get("drop_remainder") is not False:
        return
    open_ended = [part.name for part in case.pipeline.element_spec if part.shape and part.shape[0] is None]
    if not open_ended:
        return
    size = op.parameters.get("batch_size")
    why, fix, after = f"the batch size of {op.name} is a tensor", "batch by a number that is a constant of the input function", None
    if isinstance(size, int):
        end = "a pass" if _ends_with_a_pass(op, case.pipeline.ops) else "the last pass"
        why, fix = "the last batch may be smaller", f"batch with drop_remainder=True, which drops the rest at the end of {end}"
        after = argument_set(op, case.pipeline.ops, "drop_remainder", "True") if op.kind in KINDS else None
        holder = next((one for one in case.pipeline.ops if one.name == op.within), None)
        if holder is not None and holder.kind in OPENS:
            each = "each file" if opens_files(holder, case.pipeline.ops) else f"each dataset that {holder.name} opens"
            why = f"the last batch of {each} may be smaller"
            fix = f"batch after {holder.name} with drop_remainder=True: where it is now, that drops the rest of {each}"
            after = None
        elif holder is not None and holder.kind == "GroupByWindow":
            why = "the last batch of each window may be smaller"
            fix = "batch with drop_remainder=True: it drops the rest of each window"
    is_full = isinstance(size, int) and op.name in full_batches(case.pipeline.ops)
    if is_full:
        why, fix = f"all have {size}, and the shape does not say so", "batch with drop_remainder=True; it drops nothing here"
    if op.library_source is not None:
        fix = f"{OF_LIBRARY} and {fix}"
    message = f"the number of samples in a batch is unknown when the model is compiled: {why}"
    evidence = {"batch_size": size if isinstance(size, int) else None, "components": len(open_ended), "drop_remainder": False}
    yield finding(op, message, fix, evidence, is_warning=not is_full, after=after)


def _ends_with_a_pass(op: Op, ops: Sequence[Op]) -> bool:
    """Return whether each pass ends with a batch: no `repeat` of samples stands before it."""
    return not any(one.kind in REPEATS and not reads_names_only(one, ops) for one in upstream(op, ops))


def unknown_shapes(case: Case) -> Iterator[Finding]:
    """A dimension of a tensor, or its rank, is unknown when the model is compiled.

    Accelerators compile a model for static shapes. Parsing of variable-length features and `decode_jpeg` without a
    resize give unknown shapes. So do Python functions, and generators without a signature. Sparse and ragged tensors
    have no static shape at all.

    Fix: `tf.ensure_shape(x, [...])` if the size is always the same; it checks the shape and tells the compiler. Pad,
    crop or resize if the size varies: `padded_batch` with `padded_shapes`, `tf.image.resize`, `to_dense`/`to_tensor`
    with a shape.

    Silent if all shapes are known, and for the batch dimension alone (see CSI307). Silent for strings, which no
    accelerator takes, and for None in place of a tensor.
    """
    last = batching_op(case.pipeline.ops)
    is_batched = last is not None
    unknown = [
        part
        for part in case.pipeline.element_spec
        if part.dtype != "string"
        and part.kind != "none"
        and (part.kind in ("sparse", "ragged") or part.shape is None or None in part.shape[1 if is_batched else 0 :])
    ]
    if not unknown:
        return
    python = python_ops(case.pipeline.ops)
    # A batch of another batch's elements may be shorter at the end of each group. One beside it, as in a zip, is no such batch.
    inner = {op.name for op in upstream(last, case.pipeline.ops)} if last is not None else set()
    short = [
        op
        for op in case.pipeline.ops
        if op.kind in KINDS
        and op.parameters.get("drop_remainder") is False
        and (op.name in inner or last in upstream(op, case.pipeline.ops))
    ]
    # The last op that may change the shape: a shape promised by Python before it does not hold after it.
    padded = at_or_behind(case.pipeline.ops, _pads_as_needed)
    shaping = [
        op
        for op in case.pipeline.ops
        if op in python
        or op in short
        or _pads_as_needed(op)
        or (op.kind in TRANSFORMS and not (op.name in padded and _keeps_shape(op)))
    ]
    made_by = (shaping or case.pipeline.ops)[-1:]
    message = f"unknown when the model is compiled: the shape of {several([_told(part, str(part)) for part in unknown])}"
    fix = "tf.ensure_shape(x, [...]) in the map if the size is fixed, else pad, crop or resize to one size"
    if made_by and made_by[0] in short:
        fix = "set drop_remainder=True in it, if the last samples may be dropped"
    elif made_by and _pads_as_needed(made_by[0]):
        fix = "batch with padded_batch and a number for each dimension in padded_shapes, and crop longer samples before it"
    elif any(part.kind in ("sparse", "ragged") for part in unknown):
        fix = "make it dense with a fixed shape, to_dense() or to_tensor(shape=...), before the batch"
    elif any(op in python for op in made_by):
        fix = "declare the output of the Python function: tf.ensure_shape(x, [...]) after it, or output_signature of from_generator"
    evidence: dict[str, Scalar] = {"components": len(unknown), "of": len(case.pipeline.element_spec), "first": unknown[0].name}
    yield finding(made_by[0].name if made_by else None, message, fix, evidence, is_warning=True)


def _told(part: Component, text: str) -> str:
    """Return a text that begins with the name of a component; a place in a tuple, as 1, is no name for a sentence."""
    return f"component {text}" if part.name.isdigit() else text


def _keeps_shape(op: Op) -> bool:
    """Return whether a map leaves the shape of its elements as it is: it works number by number, or calls nothing."""
    return not op.function_ops or is_elementwise(op)


def _pads_as_needed(op: Op) -> bool:
    """Return whether a batch is as long as its longest sample, or keeps each sample's length."""
    shapes = op.parameters.get("padded_shapes", (-1,))
    is_padded = op.kind == "PaddedBatch" and (not isinstance(shapes, tuple) or -1 in shapes)
    return is_padded or op.kind == "DenseToSparseBatch" or (op.kind in BATCHES and count_calls(op.code, "ragged_batch") > 0)


# Shares of the CPU time: Python for many samples at once is worth a warning above the first, and costs nothing below the second.
MOSTLY_RATIO, HARDLY_RATIO = 0.5, 0.01
# Calls for a sample, between those for a batch and one each.
HALF = 0.5
GIL: tuple[StationKind, ...] = ("Python (GIL)",)


def python_in_pipeline(case: Case) -> Iterator[Finding]:
    """Python code runs for the elements of the pipeline, and only one thread of a process can run Python.

    `py_function`, `numpy_function` and `from_generator` call the Python interpreter. Its lock (GIL) lets one thread run
    at a time, whatever the CPUs of a worker and the parallel calls of a `map`. Only more workers (processes) help,
    because each has an interpreter of its own.

    Fix: use TensorFlow ops instead of Python (`tf.io.decode_*`, `tf.strings`, `tf.numpy_function` -> `tf.*`), or do the
    work once, when the dataset is written. Until then use many tasks per node with one CPU each, and one Python call
    per batch instead of one per sample.

    A warning if the lock is the bottleneck. A warning if Python runs for each sample and takes a fifth of the CPU time,
    or takes half of it however often it runs. For your information if its cost was not measured, if its calls wait
    longer than they compute, or if reading holds the worker back.

    Silent if all functions are TensorFlow's. Silent if Python took less than a hundredth of the CPU time and limits
    nothing, as before a full `cache`.
    """
    rows = {cost.name: cost for cost in case.profile.ops} if case.profile else {}
    found = tuple(op for op in python_ops(case.pipeline.ops) if not is_idle(case, op))
    if not found:
        return
    share, is_limit = share_of(case, found), bottleneck(case, GIL) is not None
    if not is_limit and share is not None and share < HARDLY_RATIO:
        return
    op = costliest(found, {name: row.self_cpu_s_per_sample or 0.0 for name, row in rows.items()})
    calls, is_waiting = visits(case, op), waits(case, op)
    station = station_of(case, GIL) if is_limit or not is_waiting else None
    often = ""
    if calls:
        often = " for every sample" if calls >= HALF else f" once in {format_count(1 / calls)} samples"
    facts = [f"{format_ratio(share)} of the CPU time"] if share is not None else []
    if station is not None:
        cpus = f" of {counted(station.layout.cpus_per_task, 'CPU')}" if station.layout is not None else ""
        facts.append(f"at most {format_rate(station.samples_per_s)} a worker{cpus} as measured, and more CPUs do not help")
    if is_waiting:
        facts.append("its calls mostly wait")
    known = "; ".join(facts)
    message = f"Python runs in {op.name}{often}{f' ({known})' if known else ''}"
    fix = "use TensorFlow ops, or do it when the dataset is written"
    fix += "; until then launch more tasks with fewer CPUs each" if is_limit else ""
    evidence: dict[str, Scalar] = {"python_ops": len(found), "calls_per_sample": calls, "share_ratio": share}
    evidence["ceiling_samples_per_s"] = station.samples_per_s if station is not None else None
    enough = COSTLY_RATIO if (calls or 0.0) >= HALF else MOSTLY_RATIO
    is_costly_here = share is not None and share >= enough and not is_waiting and bottleneck(case, READING) is None
    yield finding(op, message, fix, evidence, is_warning=is_limit or is_costly_here)


NARROWER = {"int64": "int32", "uint64": "uint32"}
WIDE_RATIO = 0.1
LEAST_RATIO = 0.01
SCALING = "; training in float16 wants dynamic loss scaling, with cbfloat16 many networks do without"


def wide_dtypes(case: Case) -> Iterator[Finding]:
    """Numbers are sent to the accelerator with more bits than it computes with.

    Labels and token numbers are int64 because `tf.train.Example` has no other integer type; float64 comes from NumPy.
    The accelerator computes in neither. If the params (`mixed_precision`, `fp16_type`, `precision` and the like) or the
    wafer model ask for 16 bits, float32 features are twice as wide as needed. Until the cast, each op copies every
    byte, buffers hold it, and the network carries it.

    Fix: `tf.cast(x, tf.int32)` and `tf.cast(x, tf.float16)` (or float32) in the function that parses the records, as
    early as possible. Keep int64 if values exceed 2,147,483,647. A model that computes in float16 needs dynamic loss
    scaling; with cbfloat16, whose exponent is wider, many networks do not need it. This is advice only: the types of
    the elements change, and your model decides whether 16 bits are precise enough.

    A warning if the cast makes a sample smaller by a tenth or more; else for your information.

    Silent for types of 32 bits and less if nothing asks for 16 bits. Silent if the cast would save less than a
    hundredth of a sample.
    """
    half, is_batched = case.training.half, batching_op(case.pipeline.ops) is not None
    # TensorFlow has no cbfloat16: the compiler converts float16 or float32 to it.
    short = "bfloat16" if half == "bfloat16" else "float16"
    narrower = NARROWER | ({"float64": short, "float32": short} if half else {"float64": "float32"})
    wide = [part for part in case.pipeline.element_spec if part.dtype in narrower]
    if not wide:
        return
    measured = (w.bytes_out_per_sample for m in case.measurements for w in m.workers if w.bytes_out_per_sample is not None)
    before, after = _bytes(wide, {}, is_batched), _bytes(wide, narrower, is_batched)
    saved = before - after if before is not None and after is not None else None
    whole = _bytes(case.pipeline.element_spec, {}, is_batched) or next(measured, None)
    ratio = saved / whole if saved is not None and whole else None
    if ratio is not None and ratio < LEAST_RATIO:
        return
    evidence = {"components": len(wide), "saved_bytes_per_sample": saved, "bytes_per_sample": whole, "saved_ratio": ratio}
    amount = ""
    if saved is not None and whole:
        amount = f"; the cast shrinks a sample from {format_bytes(whole)} to {format_bytes(whole - saved)}"
    is_half = half is not None and any(part.dtype in ("float32", "float64") for part in wide)
    maps = [op for op in case.pipeline.ops if op.kind in TRANSFORMS]
    message = several([_told(part, f"{part.name} is {part.dtype}") for part in wide]) + (
        f"; the model computes in {half}" if is_half else ""
    )
    casts = several([_told(part, f"{part.name} to {narrower[part.dtype]}") for part in wide])
    fix = f"cast them where they are parsed: {casts}"
    fix += SCALING if is_half and half != "bfloat16" else ""
    is_bad = ratio is not None and ratio >= WIDE_RATIO
    yield finding(maps[-1].name if maps else None, message + amount, fix, evidence, is_warning=is_bad)


def _bytes(parts: Iterable[Component], casts: Mapping[str, str], is_batched: bool) -> float | None:
    """Return the bytes of one sample after these casts. Return None if a dimension or a type is unknown."""
    total = 0.0
    for part in parts:
        if part.kind == "none":
            continue
        dims = part.shape[1:] if part.shape and is_batched else part.shape
        width = width_of(casts.get(part.dtype, part.dtype))
        if dims is None or part.kind != "tensor" or None in dims or width is None:
            return None
        total += width * prod(dim for dim in dims if dim is not None)
    return total


DECODES = frozenset({"DecodeJpeg"})
WINDOW_ONLY = frozenset({"DecodeAndCropJpeg"})
# The graph ops of tf.slice, tf.image.random_crop, central_crop and crop_to_bounding_box, and of tf.image.crop_and_resize.
CROPS = frozenset({"Slice", "CropAndResize"})
DECODING_RATIO = 0.5


def decode_then_crop(case: Case) -> Iterator[Finding]:
    """JPEG images are decoded whole, and then most of the pixels are cut away.

    `tf.io.decode_and_crop_jpeg` skips the pixels outside the window; it must still unpack the part of the file before
    the window. Measured with the crop and its copy, the saved CPU time is 10 to 14 % for half of a 500 x 375 picture,
    22 % for a quarter, and 46 % for a tenth of a 1440 x 1080 picture. Pixels at the window's edge may differ a little
    if colours are stored at half the resolution.

    Fix: compute the window from `tf.io.extract_jpeg_shape(jpeg)`, which reads only the header. Then use
    `tf.io.decode_and_crop_jpeg(jpeg, [y, x, height, width], channels=3)` instead of decoding and `tf.slice`,
    `random_crop` or `crop_to_bounding_box`.

    A warning if a `map` that mostly decodes takes half of the CPU time or more, and reading does not hold the worker
    back. Else for your information, because the time of decoding, cropping, resizing and colours in one function cannot
    be told apart.

    Silent if only the window is decoded already. Silent if nothing is cut from the image in the same function or the
    next one. Silent if the image may be resized before it is cut; a window of `sample_distorted_bounding_box` surely
    refers to the file. Silent if several ops use the decoded image, because each would decode it again. Silent for
    `tf.io.decode_image` and `decode_png`, whose pictures need not be JPEG.
    """
    holders = {op.within for op in case.pipeline.ops}
    for op in case.pipeline.ops:
        called = frozenset(op.function_ops)
        # An interleave "calls" what the ops inside it call: only the innermost one counts.
        if op.name in holders or not DECODES & called or WINDOW_ONLY & called:
            continue
        crop = _crop(op, case)
        if crop is None or DECODES & frozenset(op.shared) or (crop != op and "argument" in crop.shared):
            continue
        resizes = any(name.startswith("Resize") for name in called)
        if resizes and (crop != op or not any(name.startswith("SampleDistorted") for name in called)):
            continue  # a crop after a resize is no window of the file, and the order of the two is unknown
        share = share_of(case, (op,))
        does_more = is_costly(op, besides=DECODES)
        cost = f" ({op.name} takes {format_ratio(share)} of the CPU time)" if share is not None and not does_more else ""
        message = f"the whole image is decoded and then cropped{cost}"
        fix = "tf.io.decode_and_crop_jpeg with a window computed from tf.io.extract_jpeg_shape, in place of decode and crop"
        evidence = {"share_ratio": share, "does_more": does_more, "cropped_in": crop.name}
        is_bad = share is not None and share >= DECODING_RATIO and not does_more and bottleneck(case, READING) is None
        yield finding(op, message, fix, evidence, is_warning=is_bad)


def _crop(op: Op, case: Case) -> Op | None:
    """Return the op whose function crops: this one, or the `map` that gets its elements next. Return None without one."""
    if CROPS & frozenset(op.function_ops):
        return op
    later = (other for other in case.pipeline.ops if other.function_ops and op in upstream(other, case.pipeline.ops))
    following = next(later, None)
    return following if following is not None and CROPS & frozenset(following.function_ops) else None
