"""Pipelines whose files are in an object store, through the command line, with stock TensorFlow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.functional.running import BRIEF, FUNCTIONS, QUICK, run_cli

pytestmark = [pytest.mark.tf, pytest.mark.slow]


def test_files_of_a_store_are_listed_sized_and_read(tmp_path: Path) -> None:
    arguments = ["analyze", f"{FUNCTIONS}:reads_records_of_a_store", "--set", "folder=ram://bucket/train", *QUICK]
    outcome = run_cli(arguments, tmp_path / "run", program=BRIEF)
    assert outcome.code == 0, outcome.err
    sizes = [400 * number * (500 + 16) for number in range(1, 5)]  # a record's frame has 16 bytes
    files = outcome.run["pipeline"]["files"]
    assert (files["count"], files["bytes"], files["directory"]) == (4, sum(sizes), "ram://bucket/train")
    assert (files["largest_bytes"], files["smallest_bytes"]) == (max(sizes), min(sizes))
    assert outcome.run["storage"]["file_system"] == "ram"
    assert outcome.run["storage"]["reads"] == []
    assert any("ram://bucket/train is in an object store" in what for what in outcome.run["budget"]["not_measured"])
    assert outcome.run["measurements"][0]["samples_per_s"]["estimate"] > 0
    assert not any("was there when the pipeline was built" in line for line in outcome.out.splitlines())
