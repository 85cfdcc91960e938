"""What earlier runs saw of a host: kept, forgotten, and never a reason to fail."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import make_host, make_measurement, make_noise, make_worker
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.errors import AnalyzerError, UsageError
from cs_input_analyzer.host import history
from cs_input_analyzer.host.history import FILE, RUNS, known, remember
from cs_input_analyzer.model.capacity import at_quiet_level, with_known_loops
from cs_input_analyzer.records import Measurement, QuietLoop


def launched(layout: str, loop_s: float, undisturbed_s: float, rate: float = 1000.0) -> Measurement:
    ratio = undisturbed_s / loop_s
    noise = make_noise(others_ratio=0.0, reference_s=loop_s, undisturbed_s=undisturbed_s, reference_ratio=ratio)
    return make_measurement(layout, noise=noise, workers=(make_worker(rate, noise=noise, cpu_s_per_sample=1 / rate),))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_folder", lambda: tmp_path)


def test_the_fastest_of_the_last_runs_is_known_by_the_cpus_in_use() -> None:
    host = make_host()
    assert known(host).quiet_loops == ()
    remember(host, [launched("1x1x1", 2e-4, 1e-4), launched("1x1x2", 2e-4, 1.5e-4)], None)
    remember(host, [launched("1x1x1", 2e-4, 1.2e-4), launched("1x2x1", 2e-4, 1.4e-4)], None)
    assert known(host).quiet_loops == (QuietLoop(1, 1e-4), QuietLoop(2, 1.4e-4))


def test_what_runs_got_of_the_quiet_level_is_known_but_of_those_without_a_model() -> None:
    for kept_ratio in (0.5, None, *(0.9,) * (RUNS - 2), 0.8):
        remember(make_host(), [], kept_ratio)
    assert known(make_host()).kept_ratios == (*(0.9,) * (RUNS - 2), 0.8)  # the first is forgotten


@pytest.mark.parametrize("other", [{"cpu_model": "another"}, {"python_version": "3.99.1"}, {"hostname": "b"}, {"cpus": 3}])
def test_another_host_is_another_host(other: dict[str, Any]) -> None:
    remember(make_host(), [launched("1x1x1", 2e-4, 1e-4)], None)
    assert known(replace(make_host(), **other)).quiet_loops == ()


@pytest.mark.parametrize(
    ("runs_s", "known_s"),
    [
        ([1e-4] * 5 + [2e-4] * 14, 1e-4),  # runs that met no quiet moment
        ([1e-4] * 5 + [2e-4] * RUNS, 2e-4),  # a host that became slower for good
        ([1e-4, 1.5e-4] + [1.6e-4] * 8, 1.6e-4),  # one lucky run among many
    ],
)
def test_the_lower_quartile_of_the_last_runs_counts(runs_s: list[float], known_s: float) -> None:
    for loop_s in runs_s:
        remember(make_host(), [launched("1x1x1", 2e-4, loop_s)], None)
    assert known(make_host()).quiet_loops == (QuietLoop(1, known_s),)


@pytest.mark.parametrize(
    "text", ["{", '{"a": [{"loops": [{"cpus": 1, "cpu_s": -1}], "kept_ratio": null}]}', '{"a": [[{"cpus": 1}]]}']
)
def test_a_damaged_file_counts_as_none_and_is_replaced(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    host = make_host()
    assert known(host).quiet_loops == ()
    remember(host, [launched("1x1x1", 2e-4, 1e-4)], None)
    assert known(host).quiet_loops == (QuietLoop(1, 1e-4),)


@given(loop_s=st.one_of(st.floats(max_value=0), st.just(math.nan), st.just(math.inf)))
def test_no_number_that_is_none_is_kept(loop_s: float) -> None:
    with pytest.raises(UsageError, match="reference loop"):
        launched("1x1x1", 2e-4, loop_s)
    with pytest.raises(UsageError, match="reference loop"):
        QuietLoop(1, loop_s)


def test_a_folder_that_cannot_be_written_is_told_to_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(history, "_folder", lambda: tmp_path / "file")
    with pytest.raises((OSError, AnalyzerError)):
        remember(make_host(), [], None)
    assert known(make_host()).quiet_loops == ()


def test_runs_that_end_at_once_leave_a_file_that_can_be_read(tmp_path: Path) -> None:
    host = make_host()
    threads = [
        threading.Thread(target=remember, args=(host, [launched("1x1x1", 1.0, loop_s)], None)) for loop_s in (1e-4, 2e-4) * 8
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert known(host).quiet_loops[0].cpu_s in (1e-4, 2e-4)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_run_that_met_no_quiet_moment_is_held_against_those_of_before() -> None:
    launch = launched("1x1x1", 2e-4, 2e-4)
    compared = with_known_loops(launch, (QuietLoop(1, 1.5e-4), QuietLoop(2, 1.8e-4)))
    assert compared.workers[0].noise.undisturbed_s == 1.5e-4
    assert compared.noise.reference_ratio == pytest.approx(0.75)
    (quiet,) = at_quiet_level([compared])
    assert quiet.samples_per_s.estimate > 1150
    # What more CPUs in use do to each other is the pipeline's own: a lone worker's loop says nothing of it.
    assert with_known_loops(launched("1x1x4", 2e-4, 2e-4), (QuietLoop(1, 1e-4),)) == launched("1x1x4", 2e-4, 2e-4)
    assert with_known_loops(launch, ()) == launch
