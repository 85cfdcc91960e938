"""The one table of dataset op kinds: complete by TensorFlow's own registry, and each of its words explained."""

from __future__ import annotations

from typing import Any

import pytest

from cs_input_analyzer.tfdata.function_ops import STATELESS_TWINS, TABLE, names_of
from cs_input_analyzer.tfdata.op_kinds import (
    BATCHING,
    KINDS,
    MAPS,
    ONE_BY_ONE,
    SOURCES,
    TRAITS,
    TRANSFORMS,
    is_dataset_op,
    kind_of,
    kinds_with,
    method_of,
)
from tests.tf_versions import NOT_YET


def registered() -> dict[str, Any]:
    """Return the ops of TensorFlow's own registry, by name."""
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session

    found = op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    return {op.name: op for op in found.op}


@pytest.mark.tf
def test_the_ops_of_functions_are_named_as_tensorflow_names_them() -> None:
    ops = registered()
    for trait in TABLE:
        names, beginnings = names_of(trait)
        assert names - ops.keys() <= NOT_YET
        assert {begin for begin in beginnings if not any(name.startswith(begin) for name in ops)} <= NOT_YET
    twins = {*STATELESS_TWINS, *STATELESS_TWINS.values()}
    assert twins - ops.keys() == set()


@pytest.mark.tf
def test_no_dataset_op_of_tensorflow_is_missing_and_sources_are_what_it_gives_no_dataset_to() -> None:
    from tensorflow.core.framework import types_pb2

    ops = {name: op for name, op in registered().items() if is_dataset_op(name)}
    assert {"MapDataset", "ExperimentalMapAndBatchDataset", "LegacyParallelInterleaveDatasetV2", "CSVDatasetV2"} <= ops.keys()
    assert {name: kind_of(name) for name in ops if kind_of(name) not in KINDS} == {}
    for name, op in ops.items():
        takes = any(arg.type == types_pb2.DT_VARIANT and "dataset" in arg.name for arg in op.input_arg)
        assert takes != (kind_of(name) in SOURCES), name


def test_every_trait_is_explained_and_used() -> None:
    used = {trait for traits in KINDS.values() for trait in traits}
    assert used == set(TRAITS)


def test_traits_that_contradict_each_other_stand_in_no_row() -> None:
    assert not kinds_with("batch") & kinds_with("one-for-one")
    assert not kinds_with("batch") & ONE_BY_ONE
    assert not kinds_with("map") & kinds_with("opens")
    assert not kinds_with("idle") & kinds_with("threads")
    assert not kinds_with("sink") & SOURCES
    assert MAPS <= TRANSFORMS & ONE_BY_ONE
    assert kinds_with("reads-list") <= kinds_with("reads") & SOURCES


@pytest.mark.parametrize(
    ("op", "kind", "method"),
    [
        ("ParallelMapDatasetV2", "ParallelMap", "map"),
        ("ExperimentalMapAndBatchDataset", "MapAndBatch", "map_and_batch"),
        ("LegacyParallelInterleaveDatasetV2", "ParallelInterleave", "interleave"),
        ("ShuffleAndRepeatDatasetV2", "ShuffleAndRepeat", "shuffle_and_repeat"),
        ("CSVDatasetV2", "CSV", "CsvDataset"),
        ("MatchingFilesDataset", "MatchingFiles", "list_files"),
    ],
)
def test_versions_of_an_op_are_one_kind(op: str, kind: str, method: str) -> None:
    assert (kind_of(op), method_of(kind)) == (kind, method)
    assert kind in KINDS


def test_an_op_of_another_library_is_known_by_its_name_and_has_no_trait() -> None:
    assert (kind_of("KafkaDataset"), method_of("Kafka")) == ("Kafka", "kafka")
    assert "Kafka" not in BATCHING | MAPS | SOURCES
