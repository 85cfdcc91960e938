"""A saved run, launched for real: the same command line, the same promises about exit codes and what is left behind."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tests.functional.running import Outcome, run_cli

pytestmark = [pytest.mark.long, pytest.mark.tf, pytest.mark.slow, pytest.mark.timeout(600)]

TARGET = "sample_pipelines.fc_mnist:train_input_fn"
SHORT = ("--probe-layouts", "1x1x1", "--max-seconds", "14", "--target-error", "0.5")
CLUSTER = ("--nodes", "8", "--cpus-per-node", "32", "--memory-per-node", "128GiB")
DATA = "fc_mnist"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the data of all these runs are."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def analyzed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A run of a small fc_mnist dataset, and its page."""
    from sample_pipelines import write_sample

    params = write_sample("fc_mnist", folder / DATA, scale=0.1)
    page = folder / "run.html"
    arguments = ["analyze", TARGET, "--params", str(params), *SHORT, *CLUSTER, "--cpus", "1", "--html", str(page)]
    outcome = run_cli(arguments, tmp_path_factory.mktemp("analyzed"))
    assert outcome.code == 0, outcome.err
    (folder / "run.json").write_text(json.dumps(outcome.run))
    return outcome


def check(outcome: Outcome, code: int = 0) -> None:
    assert outcome.code == code, outcome.err
    assert outcome.left_files == outcome.left_processes == ()
    assert outcome.is_tree_untouched


def test_the_plan_is_launched_and_compared(analyzed: Outcome, folder: Path, root: Path, tmp_path: Path) -> None:
    before = (folder / "run.html").read_bytes()
    outcome = run_cli(["validate", str(folder / "run.html"), "--yes", "--rounds", "2", "--max-seconds", "45"], tmp_path)
    check(outcome)
    jsonschema.validate(outcome.run, json.loads((root / "docs" / "run-schema.json").read_text(encoding="utf-8")))
    plan, validation = outcome.run["recommendation"], outcome.run["validation"]
    (row,) = [row for row in validation["rows"] if row["role"] == "part of the plan"]
    assert row["layout"] == {"nodes": 1, "tasks_per_node": 1, "cpus_per_task": plan["cpus_per_task"]}
    predicted, measured = row["predicted_samples_per_s"], row["measured_samples_per_s"]
    assert row["error_ratio"] == pytest.approx(predicted["estimate"] / measured["estimate"] - 1)
    # The model was measured on this host with this layout a minute ago: far off is a bug, not noise.
    assert 0.1 < predicted["estimate"] / measured["estimate"] < 10
    launches = [m for m in outcome.run["measurements"] if m["role"] == "validate"]
    assert len(launches) == measured["count"] == len(outcome.run["measurements"]) - len(analyzed.run["measurements"])
    assert [m["num_workers"] for m in launches] == [1] * len(launches)
    assert "median error" in outcome.out
    assert "largest part of it that fits here" in " ".join(outcome.out.split())
    assert (folder / "run.html").read_bytes() == before
