"""Two runs compared: equal ones are called equal, a planted change is found, and what makes it doubtful is named."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import (
    DEFAULT_CHAIN,
    make_analysis,
    make_bare_analysis,
    make_estimate,
    make_files,
    make_finding,
    make_graph,
    make_host,
    make_layout,
    make_measurement,
    make_noise,
    make_op_cost,
    make_profile,
    make_runtime_cost,
    make_storage,
    make_worker,
)
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import cs_input_analyzer as csia
from cs_input_analyzer.cli import main
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model.estimates import NORMAL_95
from cs_input_analyzer.records import Analysis, Comparison, Measurement, Options, Profile, RateChange, SamplesPerElement, Tool
from cs_input_analyzer.report import render
from cs_input_analyzer.report.to_json import to_json
from cs_input_analyzer.workflows.compare import compare, is_slower_by

TOOL = Tool(name="cs_input_analyzer", version="0.1.0")
DESIGN = {"1x1x1": 3, "1x1x2": 3, "1x2x1": 1}
TRUTH = {"1x1x1": 500.0, "1x1x2": 900.0, "1x2x1": 950.0}


def launch(layout: str, rate: float, spread: float = 0.01, **overrides: Any) -> Measurement:
    """One fresh launch: `rate` with the interval of that relative half-width."""
    tasks = make_layout(layout).tasks
    return make_measurement(layout, (rate / tasks,) * tasks, samples_per_s=make_estimate(rate, spread=spread), **overrides)


def run_of(rates: Mapping[str, Sequence[float]], **overrides: Any) -> Analysis:
    launches = tuple(launch(layout, rate) for layout, several in rates.items() for rate in several)
    return make_analysis(measurements=launches, **overrides)


def against(old: Analysis, new: Analysis) -> Comparison:
    return compare(old, new, tool=TOOL)


# --- change and noise --------------------------------------------------------------------------------------------------------


def simulated(draw: np.random.Generator, process_spread: float, factor: float = 1.0) -> Analysis:
    """A run as chance gives it: one draw for the run, one for each launch, one for what its window missed."""
    shift, error = draw.normal(0, 0.02), 0.01
    launches = []
    for layout, count in DESIGN.items():
        for _ in range(count):
            log = math.log(TRUTH[layout] * factor) + shift + draw.normal(0, process_spread) + draw.normal(0, error)
            launches.append(launch(layout, math.exp(log), spread=error * NORMAL_95))
    return make_analysis(measurements=tuple(launches))


@pytest.mark.parametrize("process_spread", [0.003, 0.03, 0.08])
def test_equal_pipelines_are_told_apart_in_one_comparison_of_ten_at_most(process_spread: float) -> None:
    draw, times = np.random.default_rng(4711), 150
    alarms = 0
    for _ in range(times):
        found = against(simulated(draw, process_spread), simulated(draw, process_spread))
        alarms += bool(found.slower or found.faster)
    # Two standard errors of that many trials.
    assert alarms / times <= 0.1 + 2 * math.sqrt(0.1 * 0.9 / times)


@pytest.mark.parametrize("process_spread", [0.003, 0.03])
def test_a_planted_slowdown_is_found(process_spread: float) -> None:
    draw, times = np.random.default_rng(815), 60
    found = [against(simulated(draw, process_spread), simulated(draw, process_spread, factor=0.8)) for _ in range(times)]
    assert sum(bool(comparison.slower) for comparison in found) >= 0.95 * times
    assert not any(comparison.faster for comparison in found)
    covered = [row.ratio.low <= 0.8 <= row.ratio.high for comparison in found for row in comparison.rates]
    assert sum(covered) / len(covered) >= 0.9


@pytest.mark.parametrize("analysis", [make_analysis(), run_of({"1x1x1": [500, 700]})], ids=["usual", "noisy"])
def test_a_run_beside_itself_has_not_changed(analysis: Analysis) -> None:
    found = against(analysis, analysis)
    assert {row.change for row in (*found.rates, *found.ops)} == {"no difference seen"}
    assert all(row.ratio.estimate == pytest.approx(1.0) for row in found.rates)
    assert (found.findings, found.doubts, found.not_compared) == ((), (), ())
    assert not is_slower_by(found, 0.0)


RATES = st.lists(st.floats(1.0, 1e6), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(RATES, RATES, st.floats(0.01, 100.0))
def test_a_ratio_is_of_means_in_any_unit_and_the_other_way_round_its_inverse(
    one: list[float], other: list[float], factor: float
) -> None:
    def row(old: list[float], new: list[float]) -> RateChange:
        (found,) = against(run_of({"1x1x1": old}), run_of({"1x1x1": new})).rates
        label = "faster" if found.ratio.low > 1 else "slower" if found.ratio.high < 1 else "no difference seen"
        assert found.change == label
        return found

    there, back = row(one, other).ratio, row(other, one).ratio
    means = [math.exp(math.fsum(map(math.log, rates)) / len(rates)) for rates in (one, other)]
    assert there.estimate == pytest.approx(means[1] / means[0])
    assert there.low < there.estimate < there.high
    assert there.low * back.high == pytest.approx(1.0)
    scaled = row(*([rate * factor for rate in rates] for rates in (one, other))).ratio
    assert (scaled.low, scaled.high) == (pytest.approx(there.low), pytest.approx(there.high))


def test_more_launches_make_it_surer_and_more_rows_and_a_wider_scatter_less_sure() -> None:
    def width(old: dict[str, list[float]], new: dict[str, list[float]]) -> float:
        row = against(run_of(old), run_of(new)).rates[0]
        return row.ratio.high / row.ratio.low

    few, many = [500.0, 510.0], [500.0, 510.0] * 4
    assert width({"1x1x1": many}, {"1x1x1": many}) < width({"1x1x1": few}, {"1x1x1": few})
    once = {"1x1x1": [500.0]}
    with_others = once | {f"1x{tasks}x1": [500.0] for tasks in range(2, 9)}
    assert width(with_others, with_others) > width(once, once)
    wild = {"1x1x1": [400.0, 600.0]}
    assert width(wild, wild) > width({"1x1x1": few}, {"1x1x1": few})


# --- the gate ----------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.floats(0.3, 2.0), st.floats(0, 0.9), st.floats(0, 0.9))
def test_the_gate_is_stricter_for_less(factor: float, one: float, other: float) -> None:
    found = against(run_of({"1x1x1": [500.0] * 3}), run_of({"1x1x1": [500.0 * factor] * 3}))
    assert found.doubts == ()
    small, large = sorted((one, other))
    assert is_slower_by(found, small) or not is_slower_by(found, large)
    if factor >= 1 - small:
        assert not is_slower_by(found, small)
    beyond = 1 - found.rates[0].ratio.high
    assert not is_slower_by(found, max(beyond + 1e-9, 0.0))  # the whole interval must lie beyond
    assert beyond <= 0 or is_slower_by(found, beyond - 1e-9)


# --- what belongs together ---------------------------------------------------------------------------------------------------


def test_only_like_launches_are_compared_and_the_others_named() -> None:
    old = run_of({"1x1x1": [500.0], "1x1x2": [900.0]})
    new = make_analysis(measurements=(launch("1x1x1", 505.0), launch("1x1x2", 700.0, num_workers=16), launch("1x4x1", 1900.0)))
    found = against(old, new)
    assert [str(row.layout) for row in found.rates] == ["1x1x1"]
    assert sorted(found.not_compared) == [
        "1x1x2 of 1 worker: measured in the old run only",
        "1x1x2 of 16 workers: measured in the new run only",
        "1x4x1 of 4 workers: measured in the new run only",
    ]


def test_each_state_of_the_cache_is_a_row_and_other_states_are_a_doubt() -> None:
    both = make_analysis(
        measurements=(launch("1x1x1", 500.0, cache_state="cold"), launch("1x1x1", 900.0, cache_state="warm")),
    )
    rows = against(both, both).rates
    assert {(row.old_cache_state, round(row.old_samples_per_s.estimate)) for row in rows} == {("cold", 500), ("warm", 900)}
    warm = make_analysis(measurements=(launch("1x1x1", 900.0, cache_state="warm"),))
    (row,) = against(both, warm).rates
    assert (row.old_cache_state, row.change) == ("warm", "no difference seen")
    cold = make_analysis(measurements=(launch("1x1x1", 500.0, cache_state="cold"),))
    found = against(cold, warm)
    assert [(doubt.name, doubt.old, doubt.new) for doubt in found.doubts] == [("page cache of 1x1x1", "cold", "warm")]


def test_a_launch_that_lost_a_worker_counts_only_where_there_is_no_whole_one() -> None:
    whole, broken = make_measurement("1x2x1", (500.0, 500.0)), make_measurement("1x2x1", (500.0, None))
    old = make_analysis(measurements=(whole,))
    found = against(old, make_analysis(measurements=(broken, whole)))
    assert found.rates[0].ratio.estimate == pytest.approx(1.0)
    assert found.doubts == ()
    alone = against(old, make_analysis(measurements=(broken,)))
    assert alone.rates[0].ratio.estimate == pytest.approx(0.5)
    assert [doubt.name for doubt in alone.doubts] == ["launches that lost workers"]


@pytest.mark.parametrize(
    "new",
    [make_bare_analysis(), run_of({"1x8x1": [500.0]}), make_analysis(measurements=(make_measurement("1x1x1", (None,)),))],
    ids=["nothing", "other layouts", "all lost"],
)
def test_without_a_launch_in_common_it_says_what_to_do(new: Analysis) -> None:
    with pytest.raises(UsageError, match=r"no launch was measured in both runs: old has 1x1x1 of 1 worker.*--probe-layouts"):
        against(run_of({"1x1x1": [500.0]}), new)


# --- costs, memory, findings -------------------------------------------------------------------------------------------------


def profile_of(**costs_s: float) -> Profile:
    whole = sum(costs_s.values())
    ops = [make_op_cost(name, self_cpu_s_per_sample=cost) for name, cost in costs_s.items()]
    return make_profile(ops=(*ops, make_runtime_cost(0.0)), cpu_s_per_sample=whole)


def test_an_op_that_became_dearer_is_named_and_no_other() -> None:
    old = make_analysis(profile=profile_of(interleave=0.0002, map=0.0015, batch=0.0001))
    new = make_analysis(profile=profile_of(interleave=0.0002, map=0.0024, batch=0.00011))
    changes = {op.name: op.change for op in against(old, new).ops}
    assert changes == {
        "process": "dearer",
        "map": "dearer",
        "interleave": "no difference seen",
        "batch": "no difference seen",
        "runtime": "no difference seen",
    }
    back = {op.name: op.change for op in against(new, old).ops}
    assert (back["process"], back["map"]) == ("cheaper", "cheaper")


def test_ops_that_came_and_went() -> None:
    old, new = (
        make_analysis(
            pipeline=make_graph("interleave > map > cache"), profile=profile_of(map=0.001, cache=0.0001, interleave=0.001)
        ),
        make_analysis(pipeline=make_graph("interleave > map > shard"), profile=profile_of(map=0.001, shard=0.0001)),
    )
    found = against(old, new)
    assert found.doubts == ()
    changes = {op.name: (op.change, op.old_cpu_s_per_sample, op.new_cpu_s_per_sample) for op in found.ops}
    assert changes["cache"] == ("gone", 0.0001, None)
    assert changes["shard"] == ("new", None, 0.0001)
    assert changes["interleave"] == ("not comparable", 0.001, None)  # it is still there, and has no row


def test_ops_of_a_loop_are_compared_with_the_one_op_that_replaces_them() -> None:
    many = [f"map_{n}" if n > 1 else "map" for n in range(1, 10)]
    line = make_graph("tf_record > map").ops
    ops = (line[0], *(replace(line[1], name=name, source="data.py:8") for name in many))
    old = make_analysis(pipeline=make_graph(ops=ops), profile=profile_of(**dict.fromkeys(many, 0.001)))
    new = make_analysis(pipeline=make_graph("tf_record > map"), profile=profile_of(map=0.001))
    (row,) = (row for row in against(old, new).ops if row.name == "map")
    assert (row.old_cpu_s_per_sample, row.new_cpu_s_per_sample) == (pytest.approx(0.009), 0.001)
    (row,) = (row for row in against(new, old).ops if row.name.startswith("map"))
    assert row.name == "map ×9"


def test_costs_on_other_cpus_are_shown_and_not_compared() -> None:
    other = make_analysis(profile=replace(make_profile(), layout=make_layout("1x1x7")))
    assert {op.change for op in against(make_analysis(), other).ops} == {"not comparable"}
    assert against(make_analysis(), make_analysis(profile=None)).ops == ()


def test_findings_by_code_and_op() -> None:
    twice = (make_finding("CSI101"), make_finding("CSI101", message="once more"), make_finding("CSI204", op="prefetch"))
    old, new = make_analysis(findings=twice), make_analysis(findings=(make_finding("CSI101", op="map_2"), make_finding("CSI101")))
    found = against(old, new).findings
    assert [(item.change, item.finding.code, item.finding.op) for item in found] == [
        ("new", "CSI101", "map_2"),
        ("gone", "CSI101", "map"),
        ("gone", "CSI204", "prefetch"),
    ]


# --- doubts ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("host", {"host": make_host(hostname="other")}),
        ("CPU model", {"host": make_host(cpu_model="Xeon")}),
        ("CPUs that may be used", {"host": make_host(cpu_budget=2)}),
        ("TensorFlow", {"host": make_host(tensorflow_version="2.21.0")}),
        ("Python", {"host": make_host(python_version="3.13.0")}),
        ("analyzer", {"tool": Tool(name="cs_input_analyzer", version="9.9")}),
        ("mode", {"options": Options(params_json='{"batch_size": 256}', mode="eval")}),
        ("params", {"options": Options(params_json='{"batch_size": 1}')}),
        ("files", {"pipeline": make_graph(files=make_files(count=7))}),
        ("folder of the files", {"pipeline": make_graph(files=make_files(directory="/elsewhere"))}),
        ("batch size", {"pipeline": make_graph(batch_size=17)}),
        ("element", {"pipeline": make_graph(element_spec=())}),
        ("input function", {"pipeline": make_graph(target="other:f")}),
        ("--cache", {"options": Options(params_json='{"batch_size": 256}', cache="cold")}),
        ("cached share of the files", {"storage": make_storage(cached_ratio=0.1)}),
        ("interrupted", {"interrupted": True}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_differs_beside_the_pipeline_is_named(name: str, overrides: dict[str, Any]) -> None:
    found = against(make_analysis(), make_analysis(**overrides))
    assert [doubt.name for doubt in found.doubts] == [name]
    assert found.doubts[0].old != found.doubts[0].new


def test_the_order_of_params_is_no_difference() -> None:
    old, new = (make_analysis(options=Options(params_json=text)) for text in ('{"a": 1, "b": [2]}', '{"b": [2],  "a": 1}'))
    assert against(old, new).doubts == ()


def counting(value: int | None, **overrides: Any) -> Analysis:
    return make_analysis(pipeline=make_graph(samples_per_element=SamplesPerElement(value=value, source="why"), **overrides))


def test_runs_that_count_other_things_are_not_compared_and_those_with_other_batches_are() -> None:
    with pytest.raises(UsageError, match=r"count differently: old.*1 element = 1 sample .*new.*256 samples"):
        against(counting(1), counting(256))
    with pytest.raises(UsageError, match=r"count differently: .*unknown"):
        against(counting(None), counting(256))
    other = make_graph(DEFAULT_CHAIN.replace("batch", "batch*128")).ops
    assert against(counting(256), counting(128, ops=other)).rates


def disturbed(rate: float, others_ratio: float | None = None, **overrides: Any) -> Analysis:
    """Three launches beside which others had such a share of the CPUs."""
    noise = make_noise(others_ratio=others_ratio)
    if others_ratio:  # the worker wanted what they had
        noise = replace(noise, run_queue_wait_ratio=others_ratio / (1 - others_ratio))
    worker = make_worker(rate, noise=noise)
    launches = [make_measurement("1x1x1", workers=(worker,), samples_per_s=make_estimate(rate, spread=0.01)) for _ in range(3)]
    return make_analysis(measurements=tuple(launches), **overrides)


def test_what_others_had_of_the_cpus_is_no_change_of_the_pipeline() -> None:
    quiet, loud = disturbed(1000.0, 0.0), disturbed(500.0, 0.5)
    found = against(quiet, loud)
    assert [row.change for row in found.rates] == ["no difference seen"]
    assert found.rates[0].ratio.estimate == pytest.approx(1, rel=0.01)
    (doubt,) = found.doubts
    assert (doubt.name, doubt.new) == ("host beside 1x1x1", "others took 50 % of the rate")
    # A run that does not hold what others had is compared as both were measured, and that is said.
    before = against(disturbed(500.0), loud)
    assert before.rates[0].ratio.estimate == pytest.approx(1, rel=0.01)
    assert [(doubt.name, doubt.old, doubt.new) for doubt in before.doubts] == [
        ("CPU share of other programs", "not recorded", "recorded")
    ]
    # What is seen on hosts that were as quiet is not seen where one was not.
    assert against(quiet, disturbed(860.0, 0.0)).slower
    assert against(loud, disturbed(430.0, 0.5)).slower
    assert not against(quiet, disturbed(430.0, 0.5)).slower


@pytest.mark.parametrize(("others", "expected"), [(0.5, "no difference seen"), (0.0, "dearer")])
def test_on_a_host_that_was_busier_costs_are_less_sure(others: float, expected: str) -> None:
    old, new = (
        disturbed(500.0, share, profile=replace(profile_of(map=cost), layout=make_layout("1x1x1")))
        for share, cost in ((0.0, 0.001), (others, 0.00125))
    )
    assert {op.name: op.change for op in against(old, new).ops}["map"] == expected


# --- any run -----------------------------------------------------------------------------------------------------------------

SIZES = st.one_of(st.floats(5e-324, 1e308), st.sampled_from([5e-324, 1e-300, 1.0, 1e308]))


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(SIZES, SIZES, SIZES, SIZES)
def test_numbers_of_any_size_make_a_comparison(one: float, other: float, low: float, cost: float) -> None:
    assume(low <= min(one, other))

    def run(rate: float) -> Analysis:
        estimate = replace(make_estimate(1.0), estimate=rate, low=low, high=max(rate, 1e308))
        worker = make_worker(cpu_s_per_sample=cost)
        measurement = make_measurement("1x1x1", workers=(worker,), samples_per_s=estimate)
        return make_analysis(measurements=(measurement,), profile=profile_of(map=cost))

    found = against(run(one), run(other))
    assert json.loads(to_json(found))["rates"][0]["change"] in ("faster", "slower", "no difference seen")


# --- the command -------------------------------------------------------------------------------------------------------------


def saved(path: Path, analysis: Analysis) -> str:
    path.write_text(render(analysis, "html" if path.suffix == ".html" else "json"), encoding="utf-8")
    return str(path)


@pytest.fixture
def old(tmp_path: Path) -> str:
    return saved(tmp_path / "old.json", run_of({"1x1x1": [500.0] * 3}))


@pytest.fixture
def slow(tmp_path: Path) -> str:
    return saved(tmp_path / "slow.html", run_of({"1x1x1": [400.0] * 3}))


@pytest.mark.parametrize(("percent", "code"), [(None, 0), ("5", 1), ("0", 1), ("20", 0), ("60", 0)])
def test_the_exit_code(old: str, slow: str, percent: str | None, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    gate = [] if percent is None else ["--fail-if-slower", percent]
    assert main(["compare", old, slow, *gate]) == code
    out, err = capsys.readouterr()
    assert out.startswith("SLOWER: 1 of 1 launch")
    assert ("is slower by more than that" in err) == (code == 1)
    assert err.count("--fail-if-slower") <= 1
    for one, other in ((slow, old), (old, old)):
        assert main(["compare", one, other, *gate]) == 0
    assert "NO DIFFERENCE SEEN" in capsys.readouterr().out


def test_a_gate_that_is_blind_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    once = saved(tmp_path / "once.json", run_of({"1x1x1": [500.0]}))
    often = saved(tmp_path / "often.json", run_of({"1x1x1": [500.0] * 12}))
    assert main(["compare", once, once, "-q", "--fail-if-slower", "5"]) == 0
    assert "not tripped, but a slowdown of less than about" in capsys.readouterr().err
    assert main(["compare", often, often, "-q", "--fail-if-slower", "20"]) == 0
    assert capsys.readouterr().err == ""


def test_files_are_written_or_it_ends_with_two(old: str, slow: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    json_file, page, other = tmp_path / "c.json", tmp_path / "c.html", saved(tmp_path / "other.json", run_of({"1x8x1": [500.0]}))
    assert main(["compare", old, slow, "--json", str(json_file), "--html", str(page), "-q", "--fail-if-slower", "5"]) == 1
    assert capsys.readouterr().out == ""
    assert json.loads(json_file.read_text())["rates"][0]["change"] == "slower"
    for arguments, message in (
        ([old, str(tmp_path / "missing.json")], "no such file"),
        ([old, str(page)], "an HTML page without a run"),
        ([old, other], "no launch was measured in both runs"),
        ([old, old, "--fail-if-slower", "nan"], "--fail-if-slower"),
        ([old, old, "--html", str(tmp_path)], "it is a folder"),
    ):
        assert main(["compare", *arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert message in err


def test_what_only_launches_need_is_refused_without_them() -> None:
    with pytest.raises(UsageError, match="rounds: these are for measure, which launches both again"):
        csia.compare(make_analysis(), make_analysis(), rounds=2)
    assert csia.compare(make_analysis(), make_analysis()).rounds == 0
