"""The one table of dataset op kinds and what each does. Pure, and complete: a test goes through TensorFlow's own registry.

A kind is the name of a TensorFlow op without what only distinguishes versions: `ParallelMapDatasetV2` is a `ParallelMap`,
`LegacyParallelInterleaveDatasetV2` and `ExperimentalParallelInterleaveDataset` are a `ParallelInterleave`. An op that is not in the
table is of a library that brought its own: it has its place, its line and what TensorFlow measures of it, and no trait.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

TRAITS: Mapping[str, str] = {
    "source": "makes elements, and takes none from another dataset",
    "counter": "a source of numbers that are counted or drawn",
    "elsewhere": "a source of elements that another pipeline made",
    "reads": "reads files whose contents its elements are",
    "reads-list": "a reader that takes a list of files: with several it stands inside a flat_map or interleave of TensorFlow's own",
    "python": "runs a Python function of its own",
    "map": "gives what its function makes of each element, and nothing else",
    "transforms": "calls a function on each element, whatever else it does",
    "opens": "its function makes a dataset of each element, whose elements it gives",
    "interleave": "gives elements of several such datasets in turn",
    "filter": "drops elements",
    "batch": "puts elements together along a new first dimension",
    "groups": "puts neighbours together in another way",
    "shuffle": "gives elements in random order, out of a buffer of `buffer_size`",
    "repeat": "begins again when its input has ended",
    "keeps": "gives in later passes what it kept of the first one",
    "writes": "writes elements to files",
    "threads": "hands its work, or that of its inputs, to other threads",
    "idle": "does nothing of its own that would take time",
    "hands-on": "gives the elements that it gets, all, as they are and in their order, and keeps none",
    "one-by-one": "an element passes it by itself: none is kept, changed or dropped for its place among the others",
    "one-for-one": "takes one element for each that it gives",
    "names": "a list of file names can pass it, or come from it, without becoming what is in the files",
    "sink": "gives no dataset",
}

# Kind -> its traits. In the order: sources, element by element, neighbours, order and passes, several inputs, settings, sinks.
_TABLE: Mapping[str, str] = {
    "TensorSlice": "source idle names",
    "Tensor": "source idle names",
    "SparseTensorSlice": "source",
    "List": "source names",
    "Range": "source counter idle",
    "Random": "source counter",
    "Generator": "source python",
    "MatchingFiles": "source names",
    "TFRecord": "source reads reads-list",
    "TextLine": "source reads reads-list",
    "FixedLengthRecord": "source reads reads-list",
    "CSV": "source reads",
    "LMDB": "source reads",
    "SSTable": "source reads",
    "Sql": "source reads",
    "Load": "source reads elsewhere",
    "DataService": "source elsewhere threads",
    "DatasetFromGraph": "source elsewhere",
    "ListSnapshotChunks": "source",
    "SnapshotChunk": "source reads",
    "SnapshotDatasetReader": "source reads",
    "SnapshotNestedDatasetReader": "source reads",
    "Map": "map transforms one-by-one one-for-one",
    "ParallelMap": "map transforms threads one-by-one one-for-one",
    "ParseExample": "transforms threads one-for-one",
    "Filter": "filter one-by-one names",
    "ParallelFilter": "filter threads one-by-one",
    "FilterByLastComponent": "filter one-by-one",
    "TakeWhile": "",
    "Scan": "one-for-one",
    "FlatMap": "opens one-by-one",
    "IndexFlatMap": "opens",
    "Interleave": "opens interleave one-by-one",
    "ParallelInterleave": "opens interleave threads one-by-one",
    "Unbatch": "one-by-one",
    "Unique": "",
    "IgnoreErrors": "one-for-one",
    "Batch": "batch",
    "ParallelBatch": "batch threads",
    "PaddedBatch": "batch",
    "MapAndBatch": "batch transforms threads",
    "DenseToRaggedBatch": "batch",
    "DenseToSparseBatch": "batch",
    "Rebatch": "one-for-one",
    "Window": "groups",
    "SlidingWindow": "groups",
    "GroupByWindow": "groups",
    "GroupByReducer": "",
    "Shuffle": "shuffle one-by-one one-for-one names",
    "ShuffleAndRepeat": "shuffle repeat one-by-one one-for-one names",
    "GlobalShuffle": "one-for-one",
    "Sampling": "",
    "Repeat": "repeat idle one-by-one one-for-one names",
    "Take": "idle one-for-one names",
    "Skip": "idle one-for-one names",
    "Shard": "names",
    "AutoShard": "one-for-one",
    "Cache": "keeps one-by-one one-for-one names",
    "Snapshot": "keeps reads writes one-for-one",
    "Save": "writes one-for-one",
    "Prefetch": "threads one-by-one one-for-one names",
    "Concatenate": "names",
    "Zip": "names one-for-one",
    "DirectedInterleave": "",
    "WeightedFlatMap": "",
    "ChooseFastest": "",
    "ChooseFastestBranch": "",
    "Options": "hands-on idle one-by-one one-for-one names",
    "AssertCardinality": "hands-on idle one-by-one one-for-one names",
    "Model": "hands-on idle one-by-one one-for-one",
    "AssertNext": "one-for-one",
    "AssertPrev": "one-for-one",
    "Finalize": "one-for-one",
    "Optimize": "one-for-one",
    "Rewrite": "one-for-one",
    "NonSerializable": "one-for-one",
    "MaxIntraOpParallelism": "one-for-one",
    "PrivateThreadPool": "one-for-one",
    "ThreadPool": "one-for-one",
    "LatencyStats": "one-for-one",
    "BytesProducedStats": "one-for-one",
    "SetStatsAggregator": "one-for-one",
    "Sleep": "one-for-one",
    "Reduce": "sink",
    "Register": "sink",
    "InitializeTableFrom": "sink",
}
KINDS: Mapping[str, frozenset[str]] = {kind: frozenset(traits.split()) for kind, traits in _TABLE.items()}

# Methods that are not the kind's name written in snake case.
_METHODS = {
    "List": "from_list",
    "Tensor": "from_tensors",
    "TensorSlice": "from_tensor_slices",
    "SparseTensorSlice": "from_sparse_tensor_slices",
    "TFRecord": "TFRecordDataset",
    "TextLine": "TextLineDataset",
    "FixedLengthRecord": "FixedLengthRecordDataset",
    "CSV": "CsvDataset",
    "Sql": "SqlDataset",
    "Generator": "from_generator",
    "Options": "with_options",
    "MatchingFiles": "list_files",
}


def kinds_with(trait: str) -> frozenset[str]:
    """All kinds that have a trait. Raises KeyError for a trait that `TRAITS` does not explain."""
    TRAITS[trait]
    return frozenset(kind for kind, traits in KINDS.items() if trait in traits)


SOURCES = kinds_with("source")
# Ops whose elements are what a file holds. They give one string, except those that say their types in attributes.
FILE_READERS = SOURCES & kinds_with("reads")
# What may wait for storage, or for Python.
READERS = kinds_with("reads") | kinds_with("python")
MAPS = kinds_with("map")
TRANSFORMS = kinds_with("transforms")
OPENS = kinds_with("opens")
INTERLEAVES = kinds_with("interleave")
BATCHING = kinds_with("batch")
# What puts neighbours together.
GROUPING = BATCHING | kinds_with("groups")
SHUFFLES = kinds_with("shuffle")
REPEATS = kinds_with("repeat")
KEEPERS = kinds_with("keeps")
WRITERS = kinds_with("writes")
THREADED = kinds_with("threads")
IDLE = kinds_with("idle")
HANDS_ON = kinds_with("hands-on")
ONE_BY_ONE = kinds_with("one-by-one")
ONE_FOR_ONE = kinds_with("one-for-one")
NAMES_PASS = kinds_with("names")


def is_known(kind: str) -> bool:
    """Whether it is one of TensorFlow's own; else a library brought it."""
    return kind in KINDS


def is_dataset_op(op: str) -> bool:
    """Whether a TensorFlow op is one of a dataset, by its name."""
    return re.search(r"Dataset(V\d+|Reader)?$|^DatasetFromGraph$", op) is not None


def kind_of(op: str) -> str:
    """`ParallelMapDatasetV2` -> `ParallelMap`."""
    return re.sub(r"^(Experimental|Legacy)", "", re.sub(r"(Dataset)?(V\d+)?$", "", op)) or op


def method_of(kind: str) -> str:
    """The tf.data method that makes an op of this kind: `ParallelMap` -> `map`, `TFRecord` -> `TFRecordDataset`."""
    plain = re.sub(r"^Parallel(?=[A-Z])", "", kind)
    return _METHODS.get(plain) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plain).lower()
