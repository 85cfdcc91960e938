"""What predictions of a host were off: kept, forgotten, and never a reason to fail."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from builders import make_host

from cs_input_analyzer.errors import AnalyzerError
from cs_input_analyzer.host import history
from cs_input_analyzer.host.history import ERRORS, ERRORS_FILE, known, remember_errors


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "cache_folder", lambda: tmp_path)


def errors(**host: Any) -> tuple[float, ...]:
    return known(make_host(**host)).site_errors


def test_the_newest_errors_are_known() -> None:
    assert errors() == ()
    for error in (0.5, *(0.1,) * (ERRORS - 1), 0.2):
        remember_errors(make_host(), (error,))
    assert errors() == (*(0.1,) * (ERRORS - 1), 0.2)  # the first is forgotten


@pytest.mark.parametrize("text", ["{", '{"a": "b"}', '{"a": [[1]]}', "[]"])
def test_a_damaged_file_counts_as_none_and_is_replaced(text: str, tmp_path: Path) -> None:
    (tmp_path / ERRORS_FILE).write_text(text)
    assert errors() == ()
    remember_errors(make_host(), (0.1,))
    assert errors() == (0.1,)


def test_nodes_alike_share_how_far_predictions_were_off() -> None:
    remember_errors(make_host(hostname="node-1"), (0.1, -0.2))
    remember_errors(make_host(hostname="node-2"), (0.3,))
    assert errors(hostname="node-3") == (0.1, -0.2, 0.3)
    assert errors(cpu_model="another") == errors(cpus=3) == ()


def test_a_folder_that_cannot_be_written_is_told_to_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(history, "cache_folder", lambda: tmp_path / "file")
    with pytest.raises((OSError, AnalyzerError)):
        remember_errors(make_host(), (0.9,))
    assert errors() == ()


def test_runs_that_end_at_once_leave_a_file_that_can_be_read(tmp_path: Path) -> None:
    threads = [threading.Thread(target=remember_errors, args=(make_host(), (error,))) for error in (0.8, 0.9) * 8]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(errors()) <= {0.8, 0.9}
    assert [path.name for path in tmp_path.iterdir()] == [ERRORS_FILE]
