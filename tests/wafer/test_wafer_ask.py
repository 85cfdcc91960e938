"""The one question that a command line asks: its answer, what it assumes, and what is said of networks that no fit covers."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.wafer_accuracy import FITTED_BOUNDS
from cs_input_analyzer import report
from cs_input_analyzer.cli import main
from cs_input_analyzer.records import Options
from cs_input_analyzer.report.wording import demand_text
from wafer_model import WaferModelError, from_model
from wafer_model.ask import ask
from wafer_model.catalogue import BUILDERS, build_network
from wafer_model.constants import MODES, constants_of
from wafer_model.published import published_runs

KINDS = {"fc_mnist": "fully connected", "unet": "convolutional", "resnet50": "convolutional", "t5_base": "encoder-decoder"}
UNCOVERED = ("fc_mnist", "unet", "resnet50", "t5_small", "t5_base")


@pytest.mark.parametrize("mode", MODES)
def test_the_stored_domain_is_that_of_the_rows(mode: str) -> None:
    runs = [run for run in published_runs() if run.mode == mode and run.bound in FITTED_BOUNDS]
    networks = [build_network(run.network) for run in runs]
    domain, sizes = constants_of(mode).domain, [network.parameters for network in networks]
    assert set(domain.kinds) == {network.kind for network in networks}
    assert set(domain.systems) == {run.system for run in runs}
    assert domain.parameters == (min(sizes), max(sizes))


@pytest.mark.parametrize("name", BUILDERS)
def test_the_kind_of_a_network_is_what_its_arithmetic_is(name: str) -> None:
    by_name = "encoder-decoder" if name.startswith("t5") else "transformer"
    assert build_network(name).kind == KINDS.get(name, by_name)


@pytest.mark.parametrize("mode", ["weight_streaming", "weight-streaming"])
def test_the_command_takes_the_mode_with_a_hyphen_too(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["wafer", "bert_large", "--batch-size", "256", "--mode", mode]) == 0
    assert "bert_large on CS-2, weight_streaming" in capsys.readouterr().out


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", UNCOVERED)
def test_a_kind_that_no_public_run_covers_says_so_and_reaches_far(name: str, mode: str) -> None:
    found = ask(name, batch_size=64, mode=mode)
    covered = ask("bert_large", batch_size=64, mode=mode)
    assert build_network(name).kind in found.beyond_fit[0]
    assert found.samples_per_s.high / found.samples_per_s.low > 50
    assert covered.beyond_fit == ()
    assert covered.samples_per_s.high / covered.samples_per_s.low < 3
    first = report.render(found, "console", full=True, width=80).splitlines()[:4]
    assert "extrapolated" in " ".join(first)
    demand = from_model(found)
    assert (demand.samples_per_s, demand.limited_by, demand.batch_size) == (found.samples_per_s, found.limited_by, 64)
    assert demand.is_extrapolated
    assert "extrapolated" in demand_text(demand, Options())
    assert not from_model(covered).is_extrapolated
    assert "extrapolated" not in demand_text(from_model(covered), Options())


def test_the_interval_of_fc_mnist_holds_the_fastest_public_run() -> None:
    """Which its input held back: so the wafer takes that at least."""
    fastest = max(run.samples_per_s for run in published_runs() if run.network == "fc_mnist")
    found = ask("fc_mnist", batch_size=256).samples_per_s
    assert found.low <= fastest <= found.high


def test_a_system_without_a_run_of_the_mode_widens_the_interval_less() -> None:
    known, other = (ask("bert_large", batch_size=64, mode="pipelined", system=system) for system in ("CS-2", "CS-3"))
    assert known.beyond_fit == ()
    assert "CS-3" in other.beyond_fit[0]
    width, wider = (found.samples_per_s.high / found.samples_per_s.low for found in (known, other))
    assert width < wider < 2 * width


def test_one_measured_point_replaces_the_extrapolation() -> None:
    tied = ask("unet", batch_size=64, mode="pipelined", calibrate_samples_per_s=500.0)
    assert tied.beyond_fit == ()
    assert (tied.calibrated, tied.samples_per_s.estimate) == (True, pytest.approx(500.0, rel=1e-6))
    assert tied.samples_per_s.high / tied.samples_per_s.low < 1.25
    assert not from_model(tied).is_extrapolated


@pytest.mark.parametrize(("rate", "is_doubted"), [(500.0, True), (6_000.0, False)])
def test_a_measured_point_below_all_public_runs_may_have_waited_for_its_input(rate: float, is_doubted: bool) -> None:
    tied = ask("bert_large", batch_size=1024, calibrate_samples_per_s=rate)
    assert tied.samples_per_s.estimate == pytest.approx(rate, rel=1e-6)
    assert ("did your run wait for its input?" in tied.notes[1]) is is_doubted


@pytest.mark.parametrize(
    ("model", "asked", "about", "noted"),
    [
        ("bert_large", {}, "weight streaming", None),
        ("bert_large", {"systems": 3}, "weight streaming", "3 systems train together, and pipelined execution runs on one"),
        ("gptj", {}, "weight streaming", "parameters are more than the billion that pipelined execution is for"),
        ("gptj", {"mode": "weight-streaming"}, "weight streaming", None),
        ("gptj", {}, "tokens", "2,048 tokens in a sample, the network's own length"),
        ("gptj", {"sequence_length": 2048}, "tokens", None),
        ("unet", {}, "tokens", None),
    ],
)
def test_what_nobody_asked_for_is_noted(model: str, asked: dict[str, Any], about: str, noted: str | None) -> None:
    notes = [note for note in ask(model, batch_size=120, **asked).notes if about in note]
    assert notes == [] if noted is None else notes[0].endswith(noted)


@pytest.mark.parametrize("mode", ["pipelined", "weight-streaming"])
@pytest.mark.parametrize("absurd", [10**400, 10**16])
def test_sizes_beyond_any_network_are_refused_by_name(absurd: int, mode: str) -> None:
    with pytest.raises(WaferModelError, match="give --batch-size"):
        ask("bert_base", batch_size=None, mode=mode)
    with pytest.raises(WaferModelError, match="batch_size must be at most"):
        ask("bert_base", batch_size=absurd, mode=mode)
    with pytest.raises(WaferModelError, match="systems must be at most"):
        ask("bert_base", batch_size=64, systems=absurd, mode="weight-streaming")
    with pytest.raises(WaferModelError, match="sequence length must be at most"):
        ask("bert_base", batch_size=64, sequence_length=absurd, mode=mode)
