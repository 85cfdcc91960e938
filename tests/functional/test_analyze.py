"""The main job from end to end on real sharded input: the run file, the reports made from it, demands, and the Python interface."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest

from cs_input_analyzer.tfdata.op_kinds import IDLE
from tests.functional.running import Outcome, ran, run_cli

pytestmark = [pytest.mark.tf, pytest.mark.slow, pytest.mark.timeout(600)]

SHORT = ("--cpus", "1", "--probe-layouts", "1x1x1", "--max-seconds", "16", "--target-error", "0.5")
CLUSTER = ("--nodes", "64", "--cpus-per-node", "32", "--memory-per-node", "128GiB")
TARGET = "sample_pipelines.fc_mnist:train_input_fn"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The params file of a small fc_mnist dataset: 2,252 digits in 24 files."""
    from sample_pipelines import write_sample

    return write_sample("fc_mnist", tmp_path_factory.mktemp("fc_mnist"), scale=0.1)


@pytest.fixture(scope="module")
def first(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    """A run for a demand that no cluster meets, and its page."""
    html = tmp_path_factory.mktemp("html") / "run.html"
    more = ("--html", str(html), "--fail-on", "input-bound", "--set", "train_input.batch_size=128", "--demand", "1e11", "--full")
    outcome = run_cli(["analyze", TARGET, "--params", str(sample), *SHORT, *CLUSTER, *more], tmp_path_factory.mktemp("first"))
    return outcome, html


def test_an_impossible_demand_is_said_to_be_one_and_trips(first: tuple[Outcome, Path], root: Path) -> None:
    outcome, _ = first
    assert outcome.code == 1, outcome.err  # --fail-on input-bound
    assert outcome.left_files == outcome.left_processes == ()
    jsonschema.validate(outcome.run, json.loads((root / "docs" / "run-schema.json").read_text(encoding="utf-8")))
    plan = outcome.run["recommendation"]
    assert plan["meets_demand"] is False
    assert plan["headroom_ratio"] < 0
    assert outcome.run["verdict"] == "input_bound"
    assert plan["limited_by"] in " ".join(outcome.out.split())


def test_a_real_pipeline_is_measured_and_understood(first: tuple[Outcome, Path]) -> None:
    run = first[0].run
    assert run["interrupted"] is False
    assert run["pipeline"]["batch_size"] == 128  # as --set says
    assert run["pipeline"]["files"]["count"] == 16
    ops = {op["name"]: op for op in run["pipeline"]["ops"]}
    assert {"interleave", "TFRecordDataset", "shuffle", "batch", "map", "prefetch"} <= ops.keys()
    assert ops[ops["TFRecordDataset"]["within"]]["within"] == "interleave"  # a flat_map of TensorFlow's own lies between
    for name, file in (("batch", "fc_mnist"), ("map", "fc_mnist"), ("prefetch", "fc_mnist"), ("shuffle", "tfrecords")):
        path, _, number = ops[name]["source"].rpartition(":")
        assert path.endswith(f"sample_pipelines/{file}.py")
        assert f".{name}(" in Path(path).read_text().splitlines()[int(number) - 1]
    (worker,) = run["measurements"][0]["workers"]
    assert worker["status"] == "done"
    assert 0 < worker["samples_per_s"]["low"] <= worker["samples_per_s"]["estimate"] <= worker["samples_per_s"]["high"]
    assert worker["cpu_s_per_sample"] > 0
    assert worker["private_bytes"] > 100e6
    assert worker["bytes_out_per_sample"] == pytest.approx(784 * 2 + 4)
    assert worker["bytes_read_per_sample"] > 700  # 785 bytes a record, and its frame
    profile = run["profile"]
    costs = [row["self_cpu_s_per_sample"] for row in profile["ops"] if row["self_cpu_s_per_sample"] is not None]
    assert sum(costs) == pytest.approx(profile["cpu_s_per_sample"])
    # On a busy host an op that gives one name a file may give too few to be judged. Other rows without a cost are part of another
    # one.
    for row in profile["ops"]:
        if row["self_cpu_s_per_sample"] is None and row["kind"] not in IDLE:
            assert row["merged_into"] is not None or (row["elements_per_sample"] or 0.0) < 0.1, row
    assert json.loads(run["options"]["params_json"])["train_input"]["batch_size"] == 128


def test_reports_are_rendered_without_tensorflow(first: tuple[Outcome, Path], tmp_path: Path) -> None:
    outcome, run = first
    code = (
        "import sys\nfrom cs_input_analyzer.cli import main\n"
        f"code = main(['report', {str(run)!r}, '--full']) or main(['plan', {str(run)!r}, '-q', '--json', 'again.json'])\n"
        "assert 'tensorflow' not in sys.modules\nraise SystemExit(code)"
    )
    done = ran([sys.executable, "-c", code], tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"tasks_per_node: {outcome.run['recommendation']['tasks_per_node']}" in done.stdout
    assert "csrun_wse" in done.stdout
    assert json.loads((tmp_path / "again.json").read_text())["measurements"] == outcome.run["measurements"]
