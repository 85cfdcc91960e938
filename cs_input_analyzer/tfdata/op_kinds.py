"""List all kinds of dataset ops and their traits. A test compares the table with TensorFlow's registry.

A kind is the name of a TensorFlow op without its version: `ParallelMapDatasetV2` is a `ParallelMap`. An op that is not in the table
has no trait.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

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
    "joins": "gives elements of one of its inputs at a time",
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

# Traits -> the kinds that have all these, and no others.
_TABLE: Mapping[str, str] = {
    "source idle names": "TensorSlice Tensor",
    "source": "SparseTensorSlice ListSnapshotChunks",
    "source names": "List MatchingFiles",
    "source counter idle": "Range",
    "source counter": "Random",
    "source python": "Generator",
    "source reads reads-list": "TFRecord TextLine FixedLengthRecord",
    "source reads": "CSV LMDB SSTable Sql SnapshotChunk SnapshotDatasetReader SnapshotNestedDatasetReader",
    "source reads elsewhere": "Load",
    "source elsewhere threads": "DataService",
    "source elsewhere": "DatasetFromGraph",
    "map transforms one-by-one one-for-one": "Map",
    "map transforms threads one-by-one one-for-one": "ParallelMap",
    "transforms threads one-for-one": "ParseExample",
    "filter one-by-one names": "Filter",
    "filter threads one-by-one": "ParallelFilter",
    "filter one-by-one": "FilterByLastComponent",
    "": "TakeWhile Unique GroupByReducer Sampling ChooseFastestBranch Rebatch IgnoreErrors AutoShard",
    "joins": "DirectedInterleave WeightedFlatMap ChooseFastest",
    "one-for-one": (
        "Scan GlobalShuffle AssertNext AssertPrev Finalize Optimize Rewrite NonSerializable MaxIntraOpParallelism "
        "PrivateThreadPool ThreadPool LatencyStats BytesProducedStats SetStatsAggregator Sleep"
    ),
    "opens one-by-one": "FlatMap",
    "opens": "IndexFlatMap",
    "opens interleave one-by-one": "Interleave",
    "opens interleave threads one-by-one": "ParallelInterleave",
    "one-by-one": "Unbatch",
    "batch": "Batch PaddedBatch DenseToRaggedBatch DenseToSparseBatch",
    "batch threads": "ParallelBatch",
    "batch transforms threads": "MapAndBatch",
    "groups": "Window SlidingWindow GroupByWindow",
    "shuffle one-by-one one-for-one names": "Shuffle",
    "shuffle repeat one-by-one one-for-one names": "ShuffleAndRepeat",
    "repeat idle one-by-one one-for-one names": "Repeat",
    "idle one-for-one names": "Take Skip",
    "names": "Shard",
    "joins names": "Concatenate",
    "keeps one-by-one one-for-one names": "Cache",
    "keeps reads writes one-for-one": "Snapshot",
    "writes one-for-one": "Save",
    "threads one-by-one one-for-one names": "Prefetch",
    "names one-for-one": "Zip",
    "hands-on idle one-by-one one-for-one names": "Options AssertCardinality",
    "hands-on idle one-by-one one-for-one": "Model",
    "sink": "Reduce Register InitializeTableFrom",
}
KINDS: Mapping[str, frozenset[str]] = {
    kind: frozenset(traits.split()) for traits, kinds in _TABLE.items() for kind in kinds.split()
}

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


@cache
def kinds_with(trait: str) -> frozenset[str]:
    """Return all kinds that have a trait. Raise KeyError for a trait that `TRAITS` does not explain."""
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
# Hold iterators of the datasets that their functions make.
HOLDS = OPENS | {"GroupByWindow"}
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
# Hand elements on, keep or reorder them: a microsecond each.
LIGHT = IDLE | SHUFFLES | REPEATS | KEEPERS | frozenset({"Prefetch", "Take", "Skip", "Shard", "Options"})
JOINS = kinds_with("joins")
HANDS_ON = kinds_with("hands-on")
ONE_BY_ONE = kinds_with("one-by-one")
ONE_FOR_ONE = kinds_with("one-for-one")
NAMES_PASS = kinds_with("names")
# Makes tensors of samples that are alike in shape.
BATCHES = frozenset({"Batch", "ParallelBatch"})
# Chooses and orders elements without a look at them, at once.
BLIND = SHUFFLES | REPEATS | {"Take", "Skip"}
# What gives the numbers of its input, one by one or put together.
KEEPS_SIZE = (
    (BATCHING | ONE_BY_ONE | ONE_FOR_ONE | {"Rebatch", "IgnoreErrors", "AutoShard"}) - TRANSFORMS - OPENS - {"Unbatch", "Zip"}
)


def is_dataset_op(op: str) -> bool:
    """Return whether a TensorFlow op is one of a dataset, by its name."""
    return re.search(r"Dataset(V\d+|Reader)?$|^DatasetFromGraph$", op) is not None


def kind_of(op: str) -> str:
    """Return the kind of an op: `ParallelMap` for `ParallelMapDatasetV2`."""
    return re.sub(r"^(Experimental|Legacy)", "", re.sub(r"(Dataset)?(V\d+)?$", "", op)) or op


def method_of(kind: str) -> str:
    """Return the tf.data method that makes an op of this kind: `ParallelMap` -> `map`, `TFRecord` -> `TFRecordDataset`."""
    plain = re.sub(r"^Parallel(?=[A-Z])", "", kind)
    return _METHODS.get(plain) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plain).lower()
