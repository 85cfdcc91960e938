"""`tune` from end to end: a patch that programs take, of a copy that was proven and timed; nothing of the user's is touched."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest

from tests.functional.running import BRIEF, Outcome, run_cli

pytestmark = [pytest.mark.long, pytest.mark.tf, pytest.mark.slow, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
SHORT = ("--probe-layouts", "1x1x1", "--cpus", "1", "--target-error", "0.5", "--max-seconds", "90")


@pytest.fixture(scope="module")
def params(tmp_path_factory: pytest.TempPathFactory) -> str:
    import tensorflow as tf

    folder = tmp_path_factory.mktemp("data")
    for number in range(2):
        with tf.io.TFRecordWriter(str(folder / f"part-{number}.tfrecord")) as writer:
            for record in range(12):
                writer.write(b"x" * (100 + 12 * number + record))
    return f"files={folder}/*.tfrecord"


@pytest.fixture(scope="module")
def tuned(params: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    """What `tune` made of a copy of the pipeline, and the folder of that."""
    folder = tmp_path_factory.mktemp("tuned")
    users = folder / "users"
    users.mkdir()
    shutil.copy(HERE / "tunable.py", users / "pipeline.py")
    patch = str(folder / "faster.patch")
    arguments = ["tune", "pipeline.py:train_input_fn", "--set", params, *SHORT, "--write-patch", patch]
    return run_cli(arguments, folder, program=BRIEF), folder


def test_the_fix_is_proven_and_gains_and_so_does_the_patched_copy(tuned: tuple[Outcome, Path], root: Path) -> None:
    outcome, _ = tuned
    assert outcome.code == 0, outcome.err
    assert outcome.left_files == outcome.left_processes == ()
    assert outcome.is_tree_untouched
    jsonschema.validate(outcome.run, json.loads((root / "docs" / "run-schema.json").read_text(encoding="utf-8")))
    fixes = outcome.run["fixes"]
    assert "CSI202" in fixes["codes"]
    assert fixes["measured_gain"]["low"] > 1
    assert fixes["elements"] > 0
    patch = fixes["patch"]
    assert patch["proven"], patch
    assert patch["measured_gain"]["low"] > 1
    assert patch["by_hand"] == []


@pytest.mark.parametrize("program", [["patch", "-p0", "--quiet"], ["git", "apply"]], ids=["patch", "git"])
def test_the_programs_take_it_and_only_the_cache_is_new(tuned: tuple[Outcome, Path], program: list[str], tmp_path: Path) -> None:
    if shutil.which(program[0]) is None:
        pytest.skip(f"{program[0]} is not installed here")
    _, folder = tuned
    before = (folder / "users" / "pipeline.py").read_text()
    (tmp_path / "pipeline.py").write_text(before)
    subprocess.run(program, input=(folder / "faster.patch").read_bytes(), cwd=tmp_path, check=True, timeout=60)
    after = (tmp_path / "pipeline.py").read_text()
    assert ".cache()" in after
    added = set(after.split("\n")) - set(before.split("\n"))
    assert all("cache()" in line or "num_parallel_calls" in line or "prefetch" in line for line in added), added
