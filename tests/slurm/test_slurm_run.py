"""The command line on a real Slurm: whole runs, their exit codes, and what they leave behind."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks import slowfs
from tests.functional.running import BRIEF, FUNCTIONS, Outcome, Stop, ran, run_cli
from tests.slurm.private_slurm import PrivateSlurm

ROOT = Path(__file__).resolve().parents[2]
BYTES_PER_S = 12e6
FILES = 24
FILE_BYTES = 1 << 20
TUNABLE = FUNCTIONS.with_name("tunable.py")
READS = f"{Path(__file__).with_name('shared_reader.py')}:reads"

pytestmark = [pytest.mark.long, pytest.mark.slurm, pytest.mark.slow]

ON_SLURM = ("--launcher", "slurm", "--queue-timeout", "60", "--no-measure-fixes")
ONE_PROBE = ("--probe-layouts", "1x1x1", "--target-error", "0.5")


def check_nothing_left(outcome: Outcome, slurm: PrivateSlurm) -> None:
    assert outcome.left_processes == ()
    assert outcome.left_files == ()
    assert outcome.is_tree_untouched
    assert slurm.jobs() == ()


@pytest.fixture(scope="module")
def slow_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Files on one slow file system that all nodes share; never in a cache."""
    if slowfs.missing():
        pytest.skip(f"no slow file system here: {slowfs.missing()}")
    source = tmp_path_factory.mktemp("files")
    for number in range(FILES):
        (source / f"part-{number:02}.bin").write_bytes(os.urandom(FILE_BYTES))
    with slowfs.mounted(source, bytes_per_s=BYTES_PER_S, subtype="nfs4") as folder:
        yield folder


@pytest.mark.tf
@pytest.mark.timeout(600)
def test_a_run_over_three_nodes_finds_the_ceiling_of_their_storage(slurm: PrivateSlurm, slow_files: Path, tmp_path: Path) -> None:
    params = tmp_path / "params.yaml"
    params.write_text(yaml.safe_dump({"folder": str(slow_files)}))
    asked = ("--slurm-nodes", "3", "--demand", "10", "--max-seconds", "100", "--params", str(params))
    options = ("--full", *ON_SLURM, *ONE_PROBE, *asked)
    outcome = run_cli(["analyze", READS, *options], tmp_path / "run", program=BRIEF)
    assert outcome.code == 0, outcome.err
    check_nothing_left(outcome, slurm)
    run = outcome.run
    assert run["cluster"]["nodes"] == 4
    assert run["cluster"]["cpus_per_node"] == 2
    assert run["cluster"]["speed_basis"] == "this host"
    assert "partition main" in run["cluster"]["source"]
    assert run["host"]["hostname"] in slurm.nodes
    assert any(m["layout"]["nodes"] == 3 and {w["node"] for w in m["workers"]} == {"n1", "n2", "n3"} for m in run["measurements"])

    scaling = run["scaling"]
    assert scaling is not None, outcome.err
    assert [point["nodes"] for point in scaling["points"]][-1] == 3
    ceiling = scaling["ceiling_bytes_per_s"]
    assert ceiling is not None, scaling["note"]
    assert 0.5 * BYTES_PER_S < ceiling["estimate"] < 2 * BYTES_PER_S
    assert run["cluster"]["storage_bytes_per_s"] == ceiling["estimate"]
    assert run["recommendation"]["storage"] == "measured"
    for words in ("Several nodes", "n3", "stragglers"):
        assert words in outcome.out
    assert "waits in Slurm's queue" in outcome.err or "has n" in outcome.err


@pytest.mark.tf
@pytest.mark.timeout(600)
def test_a_run_is_validated_on_the_nodes(slurm: PrivateSlurm, tmp_path: Path) -> None:
    options = (*ON_SLURM, *ONE_PROBE, "--slurm-nodes", "1", "--demand", "10", "--max-seconds", "60", "--single-task-nodes", "1")
    first = run_cli(["analyze", f"{FUNCTIONS}:endless", *options], tmp_path / "analyzed", program=BRIEF)
    assert first.code == 0, first.err
    file = tmp_path / "run.json"
    file.write_text(json.dumps(first.run))
    asked = ("--slurm-nodes", "2", "--layouts", "2x1x1", "--rounds", "1", "--max-seconds", "60")
    second = run_cli(["validate", str(file), "--yes", "--launcher", "slurm", *asked], tmp_path / "validated")
    assert second.code == 0, second.err
    check_nothing_left(second, slurm)
    (row,) = second.run["validation"]["rows"]
    assert row["layout"] == {"nodes": 2, "tasks_per_node": 1, "cpus_per_task": 1}
    assert row["measured_samples_per_s"]["estimate"] > 0
    launches = [m for m in second.run["measurements"] if m["role"] == "validate"]
    assert [{w["node"] for w in m["workers"]} for m in launches] == [{"n1", "n2"}]


@pytest.mark.tf
@pytest.mark.timeout(600)
def test_fixes_and_the_patched_copy_are_tried_on_a_node(slurm: PrivateSlurm, tmp_path: Path) -> None:
    import tensorflow as tf

    for number in range(2):
        with tf.io.TFRecordWriter(str(tmp_path / f"part-{number}.tfrecord")) as writer:
            for record in range(12):
                writer.write(b"x" * (100 + 12 * number + record))
    options = ("--launcher", "slurm", "--queue-timeout", "60", "--slurm-nodes", "1", *ONE_PROBE, "--max-seconds", "110")
    arguments = ["tune", f"{TUNABLE}:train_input_fn", "--set", f"files={tmp_path}/*.tfrecord", *options]
    outcome = run_cli(arguments, tmp_path / "run", program=BRIEF)
    assert outcome.code == 0, outcome.err
    check_nothing_left(outcome, slurm)
    fixes = outcome.run["fixes"]
    assert "CSI202" in fixes["codes"]
    assert fixes["measured_gain"]["low"] > 1
    assert fixes["patch"]["proven"], fixes["patch"]


@pytest.mark.tf
def test_an_interrupted_run_leaves_nothing(slurm: PrivateSlurm, tmp_path: Path) -> None:
    options = (*ON_SLURM, *ONE_PROBE, "--slurm-nodes", "2", "--max-seconds", "100")
    stop = Stop(number=signal.SIGTERM, text="measuring", wait_s=1.5)
    outcome = run_cli(["analyze", f"{FUNCTIONS}:endless", *options], tmp_path / "run", stop=stop)
    assert outcome.code == 130, outcome.err
    check_nothing_left(outcome, slurm)


def test_interrupted_in_the_queue_the_job_is_cancelled(slurm: PrivateSlurm, tmp_path: Path) -> None:
    with slurm.full() as other:
        stop = Stop(number=signal.SIGINT, text="waits in Slurm's queue", wait_s=0.5)
        outcome = run_cli(["analyze", f"{FUNCTIONS}:endless", *ON_SLURM, "--slurm-nodes", "2"], tmp_path / "run", stop=stop)
        assert outcome.code == 130, outcome.err
        assert [line.split()[0] for line in slurm.jobs()] == [other]
        assert outcome.left_files == ()


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--partition", "nope"), 2, "Slurm has main, small"),
        (("--exclude-nodes", "n[1-4]"), 2, "no node that can be used"),
        (("--sbatch-args", "--qos='"), 2, "--sbatch-args"),
        (("--sbatch-args", "--no-such-option"), 4, "sbatch refused"),
        (("--cpus", "9"), 2, "gave 2 CPUs"),
    ],
)
def test_what_cannot_be_is_said_with_its_exit_code(
    slurm: PrivateSlurm, tmp_path: Path, options: tuple[str, ...], code: int, words: str
) -> None:
    outcome = run_cli(["analyze", f"{FUNCTIONS}:endless", *ON_SLURM, *options], tmp_path / "run")
    assert outcome.code == code, outcome.err
    assert words in outcome.err
    assert "Traceback" not in outcome.err
    check_nothing_left(outcome, slurm)


def test_where_slurm_is_not_installed_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    words = [sys.executable, "-m", "cs_input_analyzer", "analyze", f"{FUNCTIONS}:endless", "--launcher", "slurm"]
    done = ran(words, tmp_path, PATH=str(tmp_path / "empty"))
    assert done.returncode == 4
    assert "on PATH" in done.stderr


def test_drained_and_resumed_nodes_are_seen(slurm: PrivateSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    from cs_input_analyzer.machines.cluster import discover

    assert discover().cluster.nodes == 4
    slurm.ask("scontrol", "update", "nodename=n2", "state=drain", "reason=a test")
    try:
        found: Any = discover()
        assert found.cluster.nodes == 3
        assert "n2" in found.cluster.source
    finally:
        slurm.ask("scontrol", "update", "nodename=n2", "state=resume")
    assert discover("small").cluster.memory_bytes_per_node == 1500 * 2**20
