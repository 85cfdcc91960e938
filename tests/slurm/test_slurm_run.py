"""The command line on a real Slurm: whole runs, and what they leave behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from benchmarks import slowfs
from tests.functional.running import BRIEF, FUNCTIONS, Outcome, Stop, run_cli
from tests.slurm.private_slurm import PrivateSlurm

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
    asked = ("--slurm-nodes", "3", "--demand", "10", "--max-seconds", "180", "--params", str(params))
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
    for words in ("Several nodes", "stragglers"):
        assert words in outcome.out
    assert "waits in Slurm's queue" in outcome.err or "has n" in outcome.err


@pytest.mark.tf
@pytest.mark.timeout(600)
def test_fixes_and_the_patched_copy_are_tried_on_a_node(slurm: PrivateSlurm, tmp_path: Path) -> None:
    from tests.functional.tunable import write_records

    options = ("--launcher", "slurm", "--queue-timeout", "60", "--slurm-nodes", "1", *ONE_PROBE, "--max-seconds", "110")
    arguments = ["tune", f"{TUNABLE}:train_input_fn", "--set", f"files={write_records(tmp_path)}", *options]
    outcome = run_cli(arguments, tmp_path / "run", program=BRIEF)
    assert outcome.code == 0, outcome.err
    check_nothing_left(outcome, slurm)
    fixes = outcome.run["fixes"]
    assert "CSI202" in fixes["codes"], outcome.out
    assert fixes["measured_gain"]["low"] > 1
    assert fixes["patch"]["proven"], fixes["patch"]


@pytest.mark.tf
@pytest.mark.timeout(300)
def test_a_run_inside_of_srun_measures_its_node(slurm: PrivateSlurm, tmp_path: Path) -> None:
    """As the page says to measure on a quiet node: one task, which has all CPUs of the node."""
    asked = ("--demand", "10", "--max-seconds", "40", "--no-measure-fixes", *ONE_PROBE)
    options = {"within": ("srun", "-N1", "--exclusive"), "program": BRIEF}
    outcome = run_cli(["analyze", f"{FUNCTIONS}:endless", *asked], tmp_path / "run", **options)
    assert outcome.code == 0, outcome.err
    check_nothing_left(outcome, slurm)
    assert outcome.run["options"]["launcher"] == "local"
    assert outcome.run["host"]["cpu_budget"] == 2
    assert outcome.run["recommendation"] is not None


@pytest.mark.tf
def test_an_interrupted_run_leaves_nothing(slurm: PrivateSlurm, tmp_path: Path) -> None:
    options = (*ON_SLURM, *ONE_PROBE, "--slurm-nodes", "2", "--max-seconds", "100")
    stop = Stop(number=signal.SIGTERM, text="measuring", wait_s=1.5)
    outcome = run_cli(["analyze", f"{FUNCTIONS}:endless", *options], tmp_path / "run", stop=stop)
    assert outcome.code == 130, outcome.err
    check_nothing_left(outcome, slurm)
