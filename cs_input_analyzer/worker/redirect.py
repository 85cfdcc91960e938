"""Leave the user's files untouched: while we measure, file caches, snapshots and saves go to a private folder.

A worker that is ended inside `.cache("file")` leaves a lock file, which makes the user's next training fail. A finished cache or
snapshot is only read.

The private folder is on the file system that the user chose, so that its speed is measured. If the worker's folder is on another
file system, a link there leads to the private folder. So both are removed together.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from cs_input_analyzer.worker import isolation


@contextmanager
def redirected_writes(folder: Path) -> Iterator[list[str]]:
    """Redirect every dataset op that writes files to a place below `folder` while open. Yield the list of moved paths."""
    from tensorflow.python.data.ops import load_op, save_op
    from tensorflow.python.ops import gen_dataset_ops, gen_experimental_dataset_ops

    moved: list[str] = []
    places: dict[str, str] = {}

    def elsewhere(path: Any) -> Any:
        return _elsewhere(path, folder, moved, places)

    def of_snapshot(path: Any) -> Any:
        place = elsewhere(path)
        for users in [text for text, there in places.items() if isinstance(place, str) and place == there]:
            _link_finished(Path(users), Path(place))
        return place

    def of_what_was_saved(path: Any) -> Any:
        return places.get(os.fspath(path), path) if isinstance(path, str | os.PathLike) else path

    with ExitStack() as undone:
        for module, name, argument, change in (
            (gen_dataset_ops, "cache_dataset", "filename", elsewhere),
            (gen_dataset_ops, "cache_dataset_v2", "filename", elsewhere),
            (gen_experimental_dataset_ops, "snapshot_dataset", "path", of_snapshot),
            (gen_experimental_dataset_ops, "snapshot_dataset_v2", "path", of_snapshot),
            (save_op, "_save", "path", elsewhere),
            (load_op, "_load", "path", of_what_was_saved),
        ):
            if (original := getattr(module, name, None)) is not None:
                setattr(module, name, _with_other_path(original, argument, change))
                undone.callback(setattr, module, name, original)
        yield moved


def _with_other_path(original: Callable[..., Any], argument: str, change: Callable[[Any], Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.arguments[argument] = change(bound.arguments[argument])
        checkpoints = bound.arguments.get("checkpoint_args")
        if checkpoints and "directory" in checkpoints:  # `save` may keep its progress in a folder of its own
            bound.arguments["checkpoint_args"] = {**checkpoints, "directory": change(checkpoints["directory"])}
        return original(*bound.args, **bound.kwargs)

    return call


def _link_finished(users: Path, place: Path) -> None:
    """Show the finished snapshots in a folder of the user in another one. TensorFlow reads that of the same pipeline there."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from tensorflow.core.protobuf.snapshot_pb2 import SnapshotMetadataRecord

    for metadata in users.glob("*/snapshot.metadata"):
        with suppress(OSError, DecodeError):
            if SnapshotMetadataRecord.FromString(metadata.read_bytes()).finalized:
                place.mkdir(parents=True, exist_ok=True)
                (place / metadata.parent.name).symlink_to(metadata.parent.absolute())


def _elsewhere(path: Any, folder: Path, moved: list[str], places: dict[str, str]) -> Any:
    import tensorflow as tf

    tensor = tf.convert_to_tensor(os.fspath(path) if isinstance(path, os.PathLike) else path, tf.string)
    known = tf.get_static_value(tensor)
    if known is None:  # made inside a function from an element: moved by name, one place for each value
        moved.append("(a path computed in the graph)")
        return tf.strings.join([str(folder / "computed-"), tf.strings.as_string(tf.strings.to_hash_bucket_fast(tensor, 2**31 - 1))])
    text = os.fsdecode(known.item() if hasattr(known, "item") else known)
    if not text or os.path.exists(f"{text}.index"):  # in memory; or a finished cache, which is only read
        return path
    moved.append(text)
    beside = folder if "://" in text else isolation.folder_beside(text, folder)
    places[text] = str(beside / f"{len(moved)}-{os.path.basename(text) or 'data'}")
    return places[text]
