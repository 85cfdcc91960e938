"""The main job from end to end on real sharded input: the run file, the reports made from it, demands, and the Python interface."""

from __future__ import annotations

import itertools
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from benchmarks import slowfs
from cs_input_analyzer.pipeline.op_kinds import IDLE
from tests.functional.running import BRIEF, FUNCTIONS, QUICK, ROOT, Outcome, ran, run_cli

pytestmark = [pytest.mark.tf, pytest.mark.slow, pytest.mark.timeout(600)]

SHORT = ("--cpus", "1", "--probe-layouts", "1x1x1", "--max-seconds", "16", "--target-error", "0.5")
CLUSTER = ("--nodes", "64", "--cpus-per-node", "32", "--memory-per-node", "128GiB")
IMPOSSIBLE_PER_S = "1e11"
TARGET = "sample_pipelines.fc_mnist:train_input_fn"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The params file of a small fc_mnist dataset: 2,252 digits in 24 files."""
    from sample_pipelines import write_sample

    return write_sample("fc_mnist", tmp_path_factory.mktemp("fc_mnist"), scale=0.1)


@pytest.fixture(scope="module")
def first(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Without a demand."""
    html = tmp_path_factory.mktemp("html") / "run.html"
    arguments = ["analyze", TARGET, "--params", str(sample), *SHORT, *CLUSTER, "--html", str(html)]
    outcome = run_cli(arguments, tmp_path_factory.mktemp("first"))
    assert outcome.code == 0, outcome.err
    outcome.run["html_file"] = str(html)
    return outcome


@pytest.fixture(scope="module")
def demanding(first: Outcome, sample: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """With a demand of a tenth of what one worker gave, 20 times what it gave, and more than any cluster has."""
    rate = first.run["measurements"][0]["samples_per_s"]["estimate"]
    demands = {"a tenth": f"{rate / 10:.0f}", "twenty times": f"{20 * rate:.0f}", "impossible": IMPOSSIBLE_PER_S}
    folders = {name: tmp_path_factory.mktemp("demand") for name in demands}

    def run(name: str, cpu: int) -> Outcome:
        more = ("--fail-on", "input-bound", "--set", "train_input.batch_size=128", "--demand", demands[name])
        return run_cli(
            ["analyze", TARGET, "--params", str(sample), *SHORT, *CLUSTER, "--full", *more], folders[name], cpu=cpu, program=BRIEF
        )

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(demands, pool.map(run, demands, itertools.cycle(os.sched_getaffinity(0))), strict=True))


def test_the_run_file_keeps_to_its_schema(first: Outcome, demanding: dict[str, Outcome], root: Path) -> None:
    schema = json.loads((root / "docs" / "run-schema.json").read_text(encoding="utf-8"))
    for outcome in (first, *demanding.values()):
        run = {key: value for key, value in outcome.run.items() if key != "html_file"}
        jsonschema.validate(run, schema)


def test_a_real_pipeline_is_measured_and_understood(first: Outcome, sample: Path) -> None:
    run = first.run
    assert first.left_files == first.left_processes == ()
    assert run["interrupted"] is False
    assert run["verdict"] == "unknown"
    assert run["pipeline"]["batch_size"] == 256
    assert run["pipeline"]["files"]["count"] == 16
    ops = {op["name"]: op for op in run["pipeline"]["ops"]}
    assert {"interleave", "TFRecordDataset", "shuffle", "batch", "map", "prefetch"} <= ops.keys()
    assert ops[ops["TFRecordDataset"]["within"]]["within"] == "interleave"  # a flat_map of TensorFlow's own lies between
    lines = (ROOT / "sample_pipelines" / "fc_mnist.py").read_text().splitlines()
    for name, text in (("batch", ".batch("), ("map", ".map("), ("prefetch", ".prefetch("), ("shuffle", ".shuffle(")):
        path, _, number = ops[name]["source"].rpartition(":")
        assert path.endswith("sample_pipelines/fc_mnist.py")
        assert text in lines[int(number) - 1]
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
    assert json.loads(run["options"]["params_json"])["train_input"]["batch_size"] == 256


def test_overrides_reach_the_workers(demanding: dict[str, Outcome]) -> None:
    assert demanding["a tenth"].run["pipeline"]["batch_size"] == 128


@pytest.mark.parametrize("source", ["json", "html"])
def test_reports_are_rendered_without_tensorflow(first: Outcome, source: str, tmp_path: Path) -> None:
    run = tmp_path / f"run.{source}"
    if source == "json":
        run.write_text(json.dumps({key: value for key, value in first.run.items() if key != "html_file"}))
    else:
        run.write_bytes(Path(first.run["html_file"]).read_bytes())
    code = (
        "import sys\nfrom cs_input_analyzer.cli import main\n"
        f"code = main(['report', {str(run)!r}, '--full']) or main(['report', {str(run)!r}, '-o', 'again.json'])\n"
        "assert 'tensorflow' not in sys.modules\nraise SystemExit(code)"
    )
    done = ran([sys.executable, "-c", code], tmp_path)
    assert done.returncode == 0, done.stderr
    recommendation = first.run["recommendation"]
    assert f"tasks_per_node: {recommendation['tasks_per_node']}" in done.stdout
    assert "csrun_wse" in done.stdout
    assert json.loads((tmp_path / "again.json").read_text())["measurements"] == first.run["measurements"]


def test_a_larger_demand_needs_more_workers(demanding: dict[str, Outcome]) -> None:
    little, much = demanding["a tenth"].run["recommendation"], demanding["twenty times"].run["recommendation"]
    # Each demand is planned on rates of its own run, whose interval is as wide as the host was busy: so they are far apart.
    assert little["meets_demand"] is True
    assert much["input_workers"] > little["input_workers"]


def test_an_impossible_demand_is_said_to_be_one_and_trips(demanding: dict[str, Outcome]) -> None:
    outcome = demanding["impossible"]
    plan = outcome.run["recommendation"]
    assert plan["meets_demand"] is False
    assert plan["limited_by"]
    assert plan["headroom_ratio"] < 0
    assert outcome.run["verdict"] == "input_bound"
    assert outcome.code == 1  # --fail-on input-bound
    assert plan["limited_by"] in " ".join(outcome.out.split())


def test_a_demand_that_is_met_does_not_trip(demanding: dict[str, Outcome]) -> None:
    assert demanding["a tenth"].run["verdict"] != "input_bound"
    assert demanding["a tenth"].code == 0


SLOW_IMPORT = """
import sys, time

class SlowDisk:
    def find_spec(self, name, path=None, target=None):
        if name == "tensorflow":
            time.sleep({seconds})

sys.meta_path.insert(0, SlowDisk())
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("import_s", "options", "code", "says"),
    [
        (12, ("--max-seconds", "10"), 0, ""),
        (60, ("--max-seconds", "6", "--start-timeout", "5"), 4, "TensorFlow was not imported within 5 s; --start-timeout"),
    ],
)
def test_an_import_that_is_slower_than_the_budget(
    import_s: int, options: tuple[str, ...], code: int, says: str, sample: Path, tmp_path: Path
) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(SLOW_IMPORT.format(seconds=import_s))
    outcome = run_cli(
        ["analyze", TARGET, "--params", str(sample), *SHORT, *options], tmp_path / "case", modules=modules, program=BRIEF
    )
    assert outcome.code == code, outcome.err
    assert says in outcome.err
    assert outcome.left_files == outcome.left_processes == ()
    if code == 0:
        budget = outcome.run["budget"]
        assert budget["import_s"] > import_s
        assert budget["total_s"] - budget["import_s"] > 0


@pytest.mark.long
@pytest.mark.skipif(slowfs.missing() is not None, reason=f"no slow file system here: {slowfs.missing()}")
def test_a_listing_that_takes_half_a_minute_is_told_at_its_line(tmp_path: Path) -> None:
    """Every file is looked into before the dataset is there, each after 33 ms: 1,000 of them take 33 s."""
    source = tmp_path / "source"
    source.mkdir()
    for number in range(1000):
        (source / f"{number:04}.txt").write_text("a line\n" * 20)
    with slowfs.mounted(source, open_latency_s=0.033) as folder:
        target = f"{FUNCTIONS}:looks_into_every_file"
        outcome = run_cli(["analyze", target, "--set", f"folder={folder}", *QUICK], tmp_path / "run", program=BRIEF)
    assert outcome.code == 0, outcome.err
    (finding,) = [finding for finding in outcome.run["findings"] if finding["code"] == "CSI510"]
    assert finding["severity"] == "info"  # a warning is for two minutes
    assert finding["evidence"]["build_s"] > 33
    assert finding["evidence"]["files"] == 1000
    assert finding["op"] == "from_tensor_slices"
    assert "1,000 files" in finding["message"]
    assert "one file" in finding["fix"]


SCRIPT = """
import json, threading
import tensorflow as tf
import cs_input_analyzer as csia

WIDTH = 5

def train_input_fn(params):
    dataset = tf.data.Dataset.range(1 << 40).map(lambda x: tf.fill([WIDTH], x))
    return dataset.batch(params["batch_size"], drop_remainder=True).prefetch(2)

lock = threading.Lock()

def holding_a_lock(params):
    with lock:
        return train_input_fn(params)

refused = ""
try:
    csia.analyze(holding_a_lock, {"batch_size": 3})
except csia.TargetError as error:
    refused = str(error)

cluster = csia.Cluster(nodes=4, cpus_per_node=8, memory_bytes_per_node=32 * 2**30)
analysis = csia.analyze(
    train_input_fn, {"batch_size": 3}, demand=50, cluster=cluster, cpus=1, probe_layouts=("1x1x1",), max_seconds=14.0,
    target_error_ratio=0.5,
)
analysis.to_json("run.json")
again = csia.load_analysis("run.json")
told = {
    "refused": refused,
    "batch_size": analysis.pipeline.batch_size,
    "rate": analysis.measurements[0].samples_per_s.estimate,
    "meets_demand": analysis.recommendation.meets_demand,
    "verdict": analysis.verdict,
    "is_same": again == analysis,
    "text": str(analysis),
}
print("TOLD" + json.dumps(told))
"""


@pytest.mark.long
def test_a_script_without_a_main_guard(tmp_path: Path) -> None:
    """The function lives in `__main__` and needs a global of it; the script must not be run again by the workers."""
    (tmp_path / "train.py").write_text(SCRIPT)
    done = ran([sys.executable, "train.py"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("TOLD") == 1
    told: dict[str, Any] = json.loads(done.stdout.partition("TOLD")[2])
    assert "cannot travel" in told["refused"]
    assert "lock" in told["refused"]
    assert told["batch_size"] == 3
    assert told["rate"] > 100
    assert told["meets_demand"] is True
    assert told["verdict"] == "accelerator_bound"
    assert told["is_same"] is True
    assert "Launch" in told["text"]
