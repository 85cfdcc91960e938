"""What earlier runs got of a host: kept, forgotten, and never a reason to fail."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import make_host

from cs_input_analyzer.errors import AnalyzerError
from cs_input_analyzer.host import history
from cs_input_analyzer.host.history import FILE, RUNS, known, remember, remember_errors


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "cache_folder", lambda: tmp_path)


def test_what_the_last_runs_got_is_known() -> None:
    assert known(make_host()).kept_ratios == ()
    for kept_ratio in (0.5, *(0.9,) * (RUNS - 1), 0.8):
        remember(make_host(), kept_ratio)
    assert known(make_host()).kept_ratios == (*(0.9,) * (RUNS - 1), 0.8)  # the first is forgotten


@pytest.mark.parametrize("other", [{"cpu_model": "another"}, {"hostname": "b"}, {"cpus": 3}])
def test_another_host_is_another_host(other: dict[str, Any]) -> None:
    remember(make_host(), 0.9)
    assert known(replace(make_host(), **other)).kept_ratios == ()


@pytest.mark.parametrize("text", ["{", '{"a": "b"}', '{"a": [[1]]}', "[]"])
def test_a_damaged_file_counts_as_none_and_is_replaced(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    assert known(make_host()).kept_ratios == ()
    remember(make_host(), 0.9)
    assert known(make_host()).kept_ratios == (0.9,)


def test_nodes_alike_share_how_far_predictions_were_off() -> None:
    remember_errors(make_host(hostname="node-1"), (0.1, -0.2))
    remember_errors(make_host(hostname="node-2"), (0.3,))
    assert known(make_host(hostname="node-3")).site_errors == (0.1, -0.2, 0.3)
    assert known(make_host(cpu_model="another")).site_errors == ()


def test_a_folder_that_cannot_be_written_is_told_to_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(history, "cache_folder", lambda: tmp_path / "file")
    with pytest.raises((OSError, AnalyzerError)):
        remember(make_host(), 0.9)
    assert known(make_host()).kept_ratios == ()


def test_runs_that_end_at_once_leave_a_file_that_can_be_read(tmp_path: Path) -> None:
    threads = [threading.Thread(target=remember, args=(make_host(), ratio)) for ratio in (0.8, 0.9) * 8]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(known(make_host()).kept_ratios) <= {0.8, 0.9}
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
