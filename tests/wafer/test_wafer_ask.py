"""The one question that a command line asks."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from wafer_model import WaferModelError
from wafer_model.ask import ask


def test_an_answer_is_plain_data_with_a_row_per_kernel_and_its_limit() -> None:
    found = ask("bert_large", batch_size=1024)
    written = json.loads(json.dumps(asdict(found), allow_nan=False))
    assert written["samples_per_s"]["low"] < written["samples_per_s"]["estimate"] < written["samples_per_s"]["high"]
    assert {row["limited_by"] for row in written["rows"]} <= {"compute", "transmission"}
    assert written["limiting_row"] in {row["name"] for row in written["rows"]}


def test_a_measured_rate_is_given_back_with_a_narrower_interval() -> None:
    free, tied = ask("gptj_6b", batch_size=60), ask("gptj_6b", batch_size=60, calibrate_samples_per_s=22.0)
    assert tied.samples_per_s.estimate == pytest.approx(22.0, rel=1e-6)
    assert tied.calibrated
    assert not free.calibrated
    assert tied.samples_per_s.high / tied.samples_per_s.low < free.samples_per_s.high / free.samples_per_s.low


def test_hyphens_and_own_systems_are_understood(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    fields = {"cores": 1000, "usable_cores": 900, "sram_bytes": 4e10, "io_bytes_per_s": 1e9, "peak_flops_per_s_fp16": 1e15}
    file.write_text("Mine: " + json.dumps(fields), encoding="utf-8")
    found = ask("bert_base", batch_size=64, system="Mine", mode="weight-streaming", system_file=file)
    assert (found.system, found.mode) == ("Mine", "weight_streaming")


@pytest.mark.parametrize("mode", ["pipelined", "weight-streaming"])
@pytest.mark.parametrize("absurd", [10**400, 10**16])
def test_sizes_beyond_any_network_are_refused_by_name(absurd: int, mode: str) -> None:
    with pytest.raises(WaferModelError, match="batch_size must be at most"):
        ask("bert_base", batch_size=absurd, mode=mode)
    with pytest.raises(WaferModelError, match="systems must be at most"):
        ask("bert_base", batch_size=64, systems=absurd, mode="weight-streaming")
    with pytest.raises(WaferModelError, match="sequence length must be at most"):
        ask("bert_base", batch_size=64, sequence_length=absurd, mode=mode)


def test_sizes_at_the_bound_are_answered() -> None:
    assert ask("bert_base", batch_size=10**15, mode="weight-streaming").samples_per_s.estimate > 0


def test_the_batch_size_is_asked_for_and_never_assumed() -> None:
    with pytest.raises(WaferModelError, match="--batch-size"):
        ask("bert_base", batch_size=None)
