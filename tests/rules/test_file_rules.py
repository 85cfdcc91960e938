"""Rules of files, and of dividing them among workers: when each fires, how loud, and when it is silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import Case, FileSet, Measurement, Op
from tests.builders import (
    GIB,
    MIB,
    SOURCE,
    make_files,
    make_graph,
    make_measurement,
    make_plan,
    make_worker,
)
from tests.rules.lines import (
    GENERATOR,
    NAMES,
    READ,
    Rows,
    batch,
    case_of,
    cost,
    found,
    judged,
    mapped,
    only,
    op,
    options,
    placed,
    reading,
    says,
    shard,
)

KIB = 2**10
BATCH, MAP = batch(), mapped()
JPEG = mapped(("DecodeJpeg",))


# --- files -------------------------------------------------------------------------------------------------------------------


def records(compression: str, *more: Op, share: float | None = None, bottleneck: str | None = None) -> Case:
    """An interleave over large files; `share`: of the CPU time, for reading them."""
    reader = replace(READ[0], parameters={"compression_type": compression})
    rows = () if share is None else cost("TFRecordDataset", share)
    return case_of(NAMES, reader, *READ[1:], *more, files=make_files(), costs=rows, bottleneck=bottleneck)


def sized(count: int, mean: float, **known: Any) -> Case:
    """So many files of this mean size."""
    files = make_files(count=count, bytes=int(count * mean), largest_bytes=int(mean), smallest_bytes=int(mean))
    return case_of(*reading(), files=files, **({"is_sharded": False} | known))


def divided(files: FileSet | None, workers: int = 16, **known: Any) -> Case:
    """Files that the workers of the plan share."""
    return case_of(*reading(), files=files, plan=make_plan(input_workers=workers), **known)


SKEWED = make_files(count=16, bytes=16 * GIB, largest_bytes=8 * GIB, smallest_bytes=GIB // 2)
AVERAGED = make_files(count=1024, bytes=1024 * MIB, largest_bytes=3 * MIB, smallest_bytes=MIB // 2)


# --- shards ------------------------------------------------------------------------------------------------------------------


def planned(*ops: Op, **known: Any) -> Case:
    """A plan of 16 workers."""
    return case_of(*ops, **({"plan": make_plan()} | known))


def launch(*counts: int | None) -> Measurement:
    """A launch of as many workers, each of which saw so many files."""
    workers = tuple(make_worker(index=index, file_count=count) for index, count in enumerate(counts))
    return make_measurement(f"1x{len(counts)}x1", workers=workers)


def unsharded(*launches: Measurement, is_sharded: bool = False, **known: Any) -> Case:
    return planned(NAMES, *READ, BATCH, is_sharded=is_sharded, measurements=launches, **known)


def alike(count: int) -> Case:
    """Two workers that each read all of these files."""
    return unsharded(launch(count), launch(count, count), files=count)


def without_files(*digests: str | None, **known: Any) -> Case:
    """Two workers of a generator were announced; by the digests of the first batches of those that came."""
    workers = tuple(make_worker(index=number, first_batch_digest=digest) for number, digest in enumerate(digests))
    launch = make_measurement(f"1x{max(1, len(digests))}x1", workers=workers, num_workers=2)
    return unsharded(launch, **({"files": None} | known))


def shuffled_names(*after: Op, code: str | None = None, seed: int | None = 0, **known: Any) -> Case:
    """A shuffle of the names of files; TensorFlow writes a missing seed as 0, and None is one that the graph does not tell."""
    seeds = {} if seed is None else {"seed": seed, "seed2": seed}
    return planned(NAMES, op("Shuffle", "shuffle", code=code, buffer_size=64, **seeds), *(after or (shard(), *READ)), **known)


def by_policy(policy: int | None, *ops: Op, files: int | None = 2, workers: int = 4, **known: Any) -> Case:
    """The options leave the dividing to `tf.distribute` by this policy (0 AUTO, 1 FILE, 2 DATA)."""
    said = {} if policy is None else {"distribute__auto_shard_policy": policy}
    source = reading() if files is not None else (op("Range", "range"),)
    plan = make_plan("3x2x2", input_workers=workers, **known.pop("plan", {}))
    return case_of(*source, *ops, BATCH, options(**said), files=files, **({"plan": plan, "is_sharded": False} | known))


SHORT_OF_FILES = {"limited_by": "files", "meets_demand": False}

ROWS: Rows = {
    # Compression is told where it costs what is short, and for information where that was not measured.
    "compression-tradeoff": [
        (says("warning", evidence={"compression_type": "GZIP"}), records("GZIP", share=0.4, bottleneck="CPU")),
        ("info", records("GZIP", share=0.4)),
        ("", records("GZIP", share=0.1, bottleneck="CPU")),
        ("", records("GZIP")),  # what unpacking costs was not measured
        ("", records("GZIP", share=0.4, bottleneck="storage bandwidth")),
        (says("info", message="encoded images are compressed once more", lacks=["%"]), records("GZIP", JPEG)),
        ("info", records("GZIP", JPEG, share=0.05)),  # packed twice, whatever it costs
        (says("info", evidence={"is_storage_the_bottleneck": True}), records("", bottleneck="storage bandwidth")),
        ("", records("", share=0.4, bottleneck="CPU")),
        ("", records("", JPEG, bottleneck="storage bandwidth")),
    ],
    # Files are as bad as reading was measured to be.
    "file-count-extreme": [
        (says("info", fix=f"{-(-50_000 * 20 * KIB // (128 * MIB))} files"), sized(50_000, 20 * KIB)),
        ("warning", sized(50_000, 20 * KIB, bottleneck="readers")),
        ("info", sized(50_000, 20 * KIB, bottleneck="CPU")),
        ("info", sized(1, 3 * GIB)),
        ("", sized(16, 20 * KIB)),  # a small dataset
        ("", sized(1, 20 * MIB)),
        # One reader bounds each worker, however small the file is.
        (
            says("warning", message="one file holds all 20 MiB", fix="32 files"),
            sized(1, 20 * MIB, bottleneck="readers", plan=make_plan(input_workers=8)),
        ),
        ("", sized(1, 20 * MIB, bottleneck="CPU", plan=make_plan(input_workers=8))),
        ("", sized(1, 20 * MIB, bottleneck="readers", plan=make_plan(input_workers=1))),
        ("", sized(1, 20 * MIB, bottleneck="readers", is_sharded=True, plan=make_plan(input_workers=8))),
        ("", sized(5_000, 2 * MIB)),
        ("", sized(1, 3 * GIB, is_sharded=True, plan=make_plan(input_workers=8))),  # CSI301 tells
        ("", case_of(*reading(), files=None)),
    ],
    # A shard has two files: 8 GiB and the mean of the others, 8 / 15 GiB, over 2 GiB. Skew that averages out is for information.
    "skewed-file-sizes": [
        (says("warning", evidence={"largest_shard_ratio": (8 + 8 / 15) / 2}), divided(SKEWED, 8)),
        ("info", divided(AVERAGED, 4)),
        ("warning", divided(AVERAGED, 4, bottleneck="slowest shard")),
        ("", divided(make_files())),
        ("", divided(SKEWED, is_sharded=False)),
        ("", divided(SKEWED, 1)),
        ("", divided(None)),
        ("", divided(make_files(count=3, bytes=0, largest_bytes=0, smallest_bytes=0))),
    ],
    # A path of this machine alone is told for several nodes; nodes described from elsewhere may have the data at another place.
    "path-not-shared": [
        ("warning", placed("/data", nodes=4)),
        ("warning", replace(placed("/var/tmp/x", None, nodes=4), storage=None)),
        (says(message="the cluster has 8 nodes"), replace(placed("/dev/shm", None, nodes=4), plan=None)),
        ("", placed("/tmp/data")),
        ("", placed("/tmp/data", True, nodes=4)),
        ("", replace(placed("/tmp/data", nodes=4), pipeline=make_graph(files=None))),
        ("", replace(placed("/data", None, nodes=4), storage=None)),
    ],
    # The files of TensorFlow Datasets are not to be written by hand.
    "fewer-files-than-workers": [
        (says("warning", fix="64 files"), divided(make_files(count=8, directory="/data/v3"))),
        ("", divided(make_files(count=8, directory="/data/mnist/3.0.1"))),
        ("", divided(make_files(count=8), is_sharded=False)),
        (says("warning", op="with_options"), by_policy(1, files=8, workers=8, is_sharded=True, plan=SHORT_OF_FILES)),
        ("", by_policy(1, files=8, workers=8, is_sharded=True)),
    ],
    # Workers that all stream the same are told, with what was tried; no word where shards are right or unknown.
    "no-shard": [
        (says("info", fix="before anything reads them", lacks=["input_context"]), unsharded(launch(1024))),
        (says("warning", evidence={"workers_announced": 2}), unsharded(launch(1024), launch(1024, 1024))),
        (says("warning", message="the same files (seen in a launch of 2)"), unsharded(launch(1024), launch(1024, 1024))),
        (says(message="the same files (in a launch of 2 they began with one batch)"), without_files("a", "a", files=16)),
        (
            says(message="; called with input_context)", fix="in input_context"),
            unsharded(launch(1024, 1024), input_context="given"),
        ),
        (says(message="left at its default", fix="measure with --input-context"), unsharded(launch(1024), input_context="left")),
        # Fewer files than workers cannot be divided; the number is that of file-count-extreme.
        (says("warning", fix=("write the data into 64 files or so, and shard the list", "TF_CONFIG")), alike(1)),
        (says("warning", fix="write the data into 64 files"), alike(15)),
        (says("warning", fix="shard the list", lacks=["write"]), alike(16)),
        # A shard that is not of the launch.
        ("warning", planned(NAMES, shard(4), *READ, BATCH, measurements=(launch(1024),))),
        (says("error", op="shard"), planned(NAMES, shard(1), *READ, BATCH, measurements=(launch(1024, 1024),))),
        ("", planned(NAMES, shard(16), *READ, measurements=(launch(*(64,) * 16),))),  # as many shards as were announced
        ("", planned(NAMES, shard(16), *READ, measurements=())),
        # Python code that divides the files, once for all workers or for each.
        ("error", unsharded(launch(512, 512), launch(1024, 1024), is_sharded=True)),
        ("", unsharded(launch(512, 512), is_sharded=True)),
        ("", unsharded(launch(1024), is_sharded=True)),  # alone it may have all
        ("", unsharded(plan=None)),
        # Without files the first batches tell.
        (says("warning", message="began with one batch", fix="its own part"), without_files("a", "a")),
        *(("", without_files(*seen)) for seen in [(), ("a",), ("a", "b"), (None, None), ("a", "a", "b")]),
        ("", without_files("a", "a", plan=make_plan(input_workers=1))),
    ],
    # A shard of a random list of files is told at the list; what is not understood is advice without code.
    "shard-after-unseeded-shuffle": [
        (
            says("warning", source=f"{SOURCE}:42", edits=(), after="files = files.shuffle(64, seed=1).shard(n, i)"),
            shuffled_names(code="files = files.shuffle(64).shard(n, i)"),
        ),
        (says("warning", after=None), shuffled_names(code="files = names(params)")),
        ("", shuffled_names(READ[-1])),
        ("", shuffled_names(plan=make_plan(input_workers=1))),
        ("", shuffled_names(seed=7)),
        ("", shuffled_names(seed=None)),
    ],
    # A shard after reading is told, where that is the only way for information.
    "late-shard": [
        *(
            (says("warning", op="shard", message="in 16"), planned(NAMES, *ops))
            for ops in [(*READ, MAP, shard(), BATCH), (mapped(("ReadFile",)), shard())]
        ),
        (says("warning", message="in 16"), planned(NAMES, *READ, shard(), plan=None)),
        (says("warning", message="keeps one batch in 16"), planned(NAMES, *READ, BATCH, shard())),
        (says("warning", fix="the 1024 files are the most"), planned(NAMES, *READ, shard())),
        (says("info", fix="64 files"), planned(NAMES, *READ, shard(), files=2)),
        (says("info", fix="let the Python code"), planned(*GENERATOR, shard())),
        ("", planned(NAMES, mapped(("StringJoin",)), shard(), *READ)),  # of names
        ("", planned(NAMES, *READ, BATCH)),
        ("", planned(NAMES, *READ, shard(), plan=make_plan(input_workers=1))),
    ],
    # Too few files for automatic sharding stop the training; of what tf.distribute divides one rule speaks.
    "auto-shard": [
        (says("error", message="with AUTO", fix="16 files"), by_policy(0)),
        ("error", by_policy(1, files=None)),
        ("warning", by_policy(0, files=None)),
        ("warning", by_policy(2)),
        ("", by_policy(1, files=4)),
        ("", by_policy(None)),
        ("", by_policy(1, shard(4))),
        ("", replace(by_policy(1), plan=None)),
    ],
}

test_a_rule_is_as_loud_as_the_case_is_bad_and_else_silent = judged(ROWS)


@given(files=st.integers(1, 40), workers=st.integers(1, 40))
def test_files_are_too_few_exactly_below_the_workers(files: int, workers: int) -> None:
    findings = found("fewer-files-than-workers", divided(make_files(count=files), workers))
    assert bool(findings) is (files < workers)
    assert all(finding.evidence["files_wanted"] >= workers for finding in findings)


@pytest.mark.parametrize("size", [20 * MIB, 10 * GIB])
def test_all_findings_about_a_single_file_ask_for_one_number_of_files(size: int) -> None:
    case = sized(1, size, plan=make_plan(input_workers=8), measurements=(launch(1, 1),), bottleneck="readers")
    wanted = f"write the data into {max(32, size // (128 * MIB))} files or so"
    for rule in ("no-shard", "file-count-extreme"):
        assert (only(rule, case).fix or "").startswith(wanted), rule
