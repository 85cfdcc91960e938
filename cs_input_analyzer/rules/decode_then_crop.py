"""JPEG images are decoded whole, and then most of the pixels are cut away.

Decoding is what JPEG pipelines spend their CPU on. `tf.io.decode_and_crop_jpeg` leaves out the pixels outside the window; all
that comes before the window in the file must still be unpacked. Measured with the crop and its copy: a window of half a
500 x 375 picture takes 10 to 14 % less CPU time, of a quarter 22 %, of a tenth of a 1440 x 1080 picture 46 %. Pixels at the
window's edge may differ a little where colours are stored at half the resolution.

Fix: compute the window from `tf.io.extract_jpeg_shape(jpeg)`, which reads the header only, and give it to
`tf.io.decode_and_crop_jpeg(jpeg, [y, x, height, width], channels=3)` in place of decoding and `tf.slice`, `random_crop` or
`crop_to_bounding_box`.

A warning where a `map` that hardly does anything else was measured to take half of the CPU time or more; else for your
information: what of a function's time is decoding, and what is cropping, resizing or colours, is not measured.

Silent where the window is decoded alone already, where nothing is cut from the image in the same function or in the next one,
where several take the decoded image, as two views of it do (each would decode it again), and for `tf.io.decode_image` and
`decode_png`, whose pictures need not be JPEG.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.pipeline.lineage import upstream
from cs_input_analyzer.pipeline.op_traits import calls_costly_ops
from cs_input_analyzer.planning.evidence import share_of
from cs_input_analyzer.records import Case, Finding, Op
from cs_input_analyzer.units import format_ratio

DECODES = frozenset({"DecodeJpeg"})
WINDOW_ONLY = frozenset({"DecodeAndCropJpeg"})
# What tf.slice, tf.image.random_crop, central_crop and crop_to_bounding_box become; `CropAndResize` is tf.image.crop_and_resize.
CROPS = frozenset({"Slice", "CropAndResize"})
LARGE_RATIO = 0.5


def find(case: Case) -> Iterator[Finding]:
    holders = {op.within for op in case.pipeline.ops}
    for op in case.pipeline.ops:
        called = frozenset(op.function_ops)
        # An interleave "calls" what the ops inside it call: only the innermost one counts.
        if op.name in holders or not DECODES & called or WINDOW_ONLY & called:
            continue
        crop = _crop(op, case)
        if crop is None:
            continue
        if DECODES & frozenset(op.shared) or (crop != op and "argument" in crop.shared):
            continue
        share = share_of(case, (op,))
        does_more = calls_costly_ops(op, besides=DECODES)
        cost = f" ({op.name} takes {format_ratio(share)} of the CPU time)" if share is not None and not does_more else ""
        yield Finding(
            severity="warning" if share is not None and share >= LARGE_RATIO and not does_more else "info",
            message=f"the whole image is decoded and then cropped{cost}",
            op=op.name,
            evidence={"share_ratio": share, "does_more": does_more, "cropped_in": crop.name},
            fix="tf.io.decode_and_crop_jpeg with a window computed from tf.io.extract_jpeg_shape, in place of decode and crop",
        )


def _crop(op: Op, case: Case) -> Op | None:
    """The op whose function crops: this one, or the `map` that gets its elements next."""
    if CROPS & frozenset(op.function_ops):
        return op
    later = (other for other in case.pipeline.ops if other.function_ops and op in upstream(other, case.pipeline.ops))
    following = next(later, None)
    return following if following is not None and CROPS & frozenset(following.function_ops) else None
