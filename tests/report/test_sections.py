"""The sections of workers, nodes, storage, cluster, plan and validation: what is known is said, and what is not is silent."""

from __future__ import annotations

from dataclasses import replace
from html import unescape
from typing import Any, get_args

import pytest
from builders import (
    make_alternative,
    make_analysis,
    make_bare_analysis,
    make_cluster,
    make_estimate,
    make_layout,
    make_measurement,
    make_plan,
    make_read_rate,
    make_station,
    make_stations,
    make_storage,
    make_worker,
)
from hypothesis import given
from hypothesis import strategies as st
from page_runs import busy_measurement, run_of_many_workers, usual_run
from rendered import to_console, to_html

from cs_input_analyzer.records import (
    BUSY_RATIO,
    Estimate,
    KeptPlan,
    Layout,
    Measurement,
    Op,
    Options,
    Scaling,
    StationKind,
    Validation,
    ValidationRow,
)
from cs_input_analyzer.report import render
from cs_input_analyzer.report.costs import STATION_MEANINGS, bottleneck_sentence, pipeline_table, stations_table
from cs_input_analyzer.report.document import Facts, Text
from cs_input_analyzer.report.measuring import measuring_facts, options_facts, reads_table, storage_facts
from cs_input_analyzer.report.planned import alternatives_table, cluster_facts, validation_table, wafer_facts, what_if_table
from cs_input_analyzer.report.run_document import run_document
from cs_input_analyzer.report.tables import Table
from cs_input_analyzer.report.to_json import from_html
from cs_input_analyzer.report.wording import supply_and_demand
from cs_input_analyzer.report.workers import (
    MOST_NUMBERS,
    TRACED_WORKERS,
    excerpt,
    measured_table,
    node_facts,
    shown_launch,
    workers_table,
    workers_to_show,
)
from cs_input_analyzer.units import MISSING

SERIAL = make_station("serial op", op="map", source="data.py:9", samples_per_s=2_500.0, utilization_ratio=0.97)


def column(table: Table, name: str) -> list[str]:
    (index,) = [index for index, column in enumerate(table.columns) if column.name.replace("\n", " ") == name]
    return [row[index] for row in table.rows]


def test_every_table_and_fact_stands_in_both_reports_and_every_column_is_explained() -> None:
    run = usual_run(stations=(SERIAL, *make_stations()))
    console, page = " ".join(to_console(run, width=400).split()), " ".join(unescape(to_html(run)).replace("<wbr>", "").split())
    parts = [part for section in run_document(run).shown(full=True) for part in section.parts]
    for table in (part for part in parts if isinstance(part, Table)):
        assert {len(row) for row in table.rows} == {len(table.columns)}
        assert all(column.meaning and column.name for column in table.columns)
    texts = [cell for part in parts if isinstance(part, Table) for row in part.rows for cell in row]
    texts += [text for part in parts if isinstance(part, Facts) for _, text in part.pairs]
    texts += [remark for part in parts if isinstance(part, Table) for remark in part.remarks]
    texts += [part.text for part in parts if isinstance(part, Text)]
    assert len(texts) > 200
    for text in (" ".join(text.split()) for text in texts):
        assert text in console
        assert text in page
    assert page.index('id="bottleneck"') < page.index('id="costs"')


def test_sections_that_hold_nothing_are_not_there() -> None:
    page, console = to_html(make_bare_analysis()), to_console(make_bare_analysis())
    for anchor, title in (("storage", "Storage ─"), ("nodes", "Several nodes"), ("bottleneck", "ottleneck"), ("plan", "in full")):
        assert f'id="{anchor}"' not in page
        assert f"#{anchor}" not in page
        assert title not in console
    bare = usual_run(consumption=None, recommendation=None)
    assert wafer_facts(bare) == ()


def test_only_options_that_were_chosen_are_named() -> None:
    assert options_facts(Options()) == ()
    assert options_facts(Options(nodes=8, mount_dirs=("a", "b\n"))) == (("nodes", "8"), ("mount_dirs", "a, b\\n"))


def test_the_recommended_launch_stands_among_its_alternatives_by_nodes() -> None:
    others = tuple(make_alternative(layout, note="") for layout in ("1x16x2", "3x8x2", "3x16x2"))
    today = make_alternative("9x1x1", note="current launch", is_current=True, predicted_samples_per_s=Estimate.exact(77.0))
    table = alternatives_table(make_plan("2x16x2", alternatives=(today, *others)))
    assert column(table, "layout") == ["9x1x1", "1x16x2", "2x16x2", "3x8x2", "3x16x2"]
    assert (table.strong, column(table, "note")[2]) == (2, "recommended")
    assert column(table, "CPUs") == ["9", "32", "64", "48", "96"]
    assert (column(table, "samples/s")[0], column(table, "90 % interval")[0]) == ("77", MISSING)
    assert column(table, "90 % interval")[2] == "13.34k–15.66k"
    assert alternatives_table(make_plan(alternatives=())).rows == what_if_table(make_plan(what_if=())).rows == ()


def test_workers_that_differ_are_shown_by_the_worst_and_what_none_delivered_is_missing() -> None:
    workers = (
        make_worker(900.0, first_batch_s=1.0, private_bytes=2**30, cpu_s_per_sample=None),
        make_worker(800.0, index=1, first_batch_s=3.0, private_bytes=2**29, cpu_s_per_sample=0.002),
    )
    launches = (make_measurement("1x2x1", (900.0, 800.0), workers=workers), make_measurement("1x1x1", (None,), role="validate"))
    table = measured_table(make_analysis(measurements=launches))
    for name, known in (("first batch", "3 s"), ("private memory", "1 GiB"), ("CPU per sample", "2 ms")):
        assert column(table, name) == [known, MISSING]
    assert column(table, "status") == ["done", "lost"]
    assert column(table, "layout") == ["1x2x1", "1x1x1 validate"]


def test_of_many_workers_the_lost_the_slowest_and_the_fastest_are_shown() -> None:
    workers = tuple(make_worker(100.0 + index if index % 50 else None, index=index) for index in range(1000))
    indices = [worker.index for worker in workers_to_show(workers, 60)]
    assert len(indices) == 60
    assert indices == sorted(indices)
    assert {0, 999} <= set(indices)
    assert any(400 < index < 600 for index in indices)
    assert "60 of 1,000" in workers_table(make_measurement("10x100x1", (1.0,), workers=workers)).remarks[0]
    few = workers_table(busy_measurement("1x3x1", (30.0, 10.0, 20.0)))
    assert ([row[0] for row in few.rows], few.strong, few.remarks) == (["0", "1", "2"], 1, ())


def test_a_usual_run_is_kept_whole_and_a_huge_one_is_cut_to_size_and_says_so() -> None:
    assert excerpt(usual_run()) == usual_run()
    run = run_of_many_workers(3000)
    cut = excerpt(run)
    workers = [worker for measurement in cut.measurements for worker in measurement.workers]
    assert len(workers) == 3000
    assert sum(bool(worker.batch_gaps_s) for worker in workers) == TRACED_WORKERS - 1  # the slowest of all was lost
    assert sum(len(worker.batch_gaps_s) + len(worker.block_samples_per_s) for worker in workers) <= MOST_NUMBERS
    assert cut.left_out == ("the traces of most workers",)
    # What the answer rests on is untouched.
    for name in ("recommendation", "capacity", "findings", "verdict"):
        assert getattr(cut, name) == getattr(run, name)
    assert cut.measurements[0].samples_per_s == run.measurements[0].samples_per_s
    back = from_html(to_html(run), origin="x")
    assert ("left out", "; ".join(back.left_out)) in measuring_facts(back)
    assert excerpt(back) == back


def launch(*rates: float | None, tasks: int = 2) -> Measurement:
    """`tasks` workers on each node, in order."""
    measurement = make_measurement(Layout(nodes=len(rates) // tasks, tasks_per_node=tasks, cpus_per_task=1), list(rates))
    workers = tuple(
        replace(worker, node=f"n{worker.index // tasks + 1}", samples_per_s=rate and make_estimate(rate, spread=0.03))
        for worker, rate in zip(measurement.workers, rates, strict=True)
    )
    return replace(measurement, workers=workers, notes=("Slurm binds no task to CPUs here",))


def test_who_lags_and_what_the_storage_gave_is_said_of_several_nodes_only() -> None:
    one = make_analysis(measurements=(make_measurement("1x2x1"),), scaling=None)
    assert shown_launch(one) is None
    assert node_facts(one) == ()
    kept = Scaling(points=(), kept_ratio=Estimate.exact(1.0), ceiling_bytes_per_s=None, note="each keeps 100 % of its rate")
    analysis = make_analysis(measurements=(make_measurement("1x2x1"), launch(100, 101, 99, None)), scaling=kept)
    facts = dict(node_facts(analysis))
    assert facts["stragglers"].startswith("none")
    assert facts["storage"] == "each keeps 100 % of its rate"
    assert "binds no task" in facts["note"]
    assert "Several nodes" in to_console(analysis)


@pytest.mark.parametrize(
    ("rates", "said"),
    [((100, 101, 99, 102, 98, 100, 50, 52), "2 of 2 workers on n4"), ((100, 101, 99, 40, 98, 100), "1 of 2 workers on n2")],
)
def test_who_lags_is_named_with_its_node(rates: tuple[float, ...], said: str) -> None:
    measurement = launch(*rates)
    assert said in dict(node_facts(make_analysis(measurements=(measurement,))))["stragglers"]
    assert column(workers_table(measurement), "status").count("done, straggler") == len(measurement.stragglers)


def test_stations_keep_their_order_and_the_first_stands_out() -> None:
    table = stations_table(make_stations())
    assert [row[0] for row in table.rows] == ["CPU", "serial op", "readers"]
    assert (table.strong, table.title) == (0, "Bottleneck (one worker of 1x1x2, rates as measured)")
    assert table.rows[0] == ("CPU", MISSING, "1,042", "96 %", MISSING)
    assert (bottleneck_sentence(()), stations_table(()).rows) == ("", ())
    assert set(STATION_MEANINGS) == set(get_args(StationKind))
    sentence = bottleneck_sentence((SERIAL, *make_stations()))
    assert sentence.startswith(f"bottleneck: serial op `map` ({STATION_MEANINGS['serial op']}): ")
    assert sentence.endswith("at most 2,500 samples/s, 97 % used, at data.py:9")


@pytest.mark.parametrize(("used", "is_claimed"), [(BUSY_RATIO - 0.01, False), (BUSY_RATIO, True), (1.0, True)])
def test_nothing_is_called_the_bottleneck_that_is_not_near_its_limit(used: float, is_claimed: bool) -> None:
    sentence = bottleneck_sentence((make_station(utilization_ratio=used),))
    assert sentence.startswith("bottleneck:") == is_claimed
    assert ("nearest: CPU" in sentence) != is_claimed


def test_an_op_that_nobody_knows_is_named_plainly() -> None:
    analysis = make_analysis()
    strange = Op(name="kafka", kind="Kafka", parameters={})
    known = replace(analysis, pipeline=replace(analysis.pipeline, ops=(*analysis.pipeline.ops, strange)))
    assert pipeline_table(known).remarks[0].startswith("`kafka` is of another library (kind Kafka)")
    assert pipeline_table(analysis).remarks == ()


ADVICE = "--cache cold measures"


@pytest.mark.parametrize(
    ("given", "label", "said", "not_said"),
    [
        ({"is_shared": True}, "file system", "over the network", "local"),
        ({"is_shared": None, "file_system": None}, "file system", "of unknown type, whether it is shared is unknown", "None"),
        ({"cached_ratio": 0.97}, "page cache", f"of this report are those of cached data; {ADVICE}", "partly"),
        ({"cached_ratio": 0.5}, "page cache", f"partly cached data; {ADVICE}", "those of"),
        ({"cached_ratio": 0.05}, "page cache", "held 5 %", "cached data"),
        ({"cached_ratio": 0.97, "evicted": True}, "page cache", "held 97 %", "cached data"),
        ({"cached_ratio": 0.97, "evicted": False}, "page cache", "those of cached data", ADVICE),
        ({"evicted": False}, "eviction", "FAILED", "file server"),
        ({"evicted": True, "is_shared": True}, "eviction", "that of the file server is out of reach", "FAILED"),
        ({"evicted": True, "is_shared": None}, "eviction", "emptied", "file server"),
    ],
)
def test_whose_rates_these_are_is_said_plainly(given: dict[str, Any], label: str, said: str, not_said: str) -> None:
    text = dict(storage_facts(make_storage(**given)))[label]
    assert said in text
    assert not_said not in text


def test_of_storage_only_the_known_is_said() -> None:
    sparse = make_storage(cached_ratio=None, evicted=None, reads=(), source_samples_per_s=None)
    assert set(dict(storage_facts(sparse))) == {"directory", "file system", "dataset"}
    reads = (make_read_rate(1, cache_state="cold", latency_s=0.008), make_read_rate(4, cache_state="warm", bytes_per_s=2.5e9))
    assert reads_table(make_storage(reads=reads)).rows == (
        ("1", "380 MB/s", "8 ms", "1 MiB", "cold"),
        ("4", "2.5 GB/s", "2.7 ms", "1 MiB", "cached"),
    )


AS_FAST = "as fast as one of this host"
CLUSTER: list[tuple[dict[str, Any], str, str]] = [
    ({"speed_ratio": Estimate.exact(1.2)}, "node's CPU", f"1.2 times {AS_FAST}, as stated"),
    ({"speed_ratio": make_estimate(1.18, spread=0.025), "speed_basis": "CPU models"}, "node's CPU", f"(1.15 to 1.21) {AS_FAST}"),
    ({"speed_ratio": Estimate.exact(1.0), "speed_basis": "this host"}, "node's CPU", "that of this host, which measured"),
    ({"speed_ratio": None}, "node's CPU", "interval widened (--node-speed, or measure on a node: srun -N1 --exclusive"),
    ({"threads_per_core": 1}, "SMT", "none: each CPU is a core"),
    ({"threads_per_core": None}, "SMT", "threads per core unknown: taken as if two were as likely as one, interval widened"),
    ({"memory_bandwidth_bytes_per_s_per_node": 150e9}, "memory bandwidth", "150 GB/s in each node"),
    ({"network_bytes_per_s_per_node": 12.5e9}, "network", "12.5 GB/s for each node, in each direction"),
    (
        {"network_bytes_per_s_per_node": None},
        "network",
        "limits nothing here (network_per_node in the --cluster file)",
    ),
    ({"storage_bytes_per_s": 5e9}, "storage", "5 GB/s for all nodes together"),
    ({}, "nodes", "8 of eight-nodes, 64 CPUs and 128 GiB each, AMD EPYC 7702P"),
]


def test_each_number_of_the_cluster_is_said_and_what_an_unknown_one_means() -> None:
    for given_fields, label, expected in CLUSTER:
        assert expected in dict(cluster_facts(make_cluster(**given_fields)))[label]


RATES = st.floats(1e-3, 1e12)


def make_row(predicted: float, measured: float) -> ValidationRow:
    return ValidationRow(
        layout=make_layout("1x2x1"),
        role="neighbour",
        predicted_samples_per_s=make_estimate(predicted, spread=0.1),
        measured_samples_per_s=make_estimate(measured, count=3) if measured else Estimate.exact(0.0),
    )


@given(st.lists(st.tuples(RATES, RATES), min_size=1, max_size=7))
def test_the_summary_of_a_validation_is_that_of_the_rows(pairs: list[tuple[float, float]]) -> None:
    validation = Validation(rows=(*(make_row(*pair) for pair in pairs), make_row(10.0, 0.0)))  # nothing delivered is no error
    errors = sorted(abs(predicted / measured - 1) for predicted, measured in pairs)
    assert sum(error <= validation.median_error_ratio * (1 + 1e-9) for error in errors) >= len(errors) / 2
    assert errors[0] <= validation.median_error_ratio <= errors[-1]
    assert Validation(rows=(make_row(10.0, 0.0),)).median_error_ratio is None
    assert validation.inside_count == sum(0.9 * predicted <= measured <= 1.1 * predicted for predicted, measured in pairs)


def test_a_validation_says_its_summary_its_notes_and_its_end() -> None:
    rows = (make_row(110.0, 100.0), make_row(200.0, 100.0), make_row(101.0, 100.0))
    validation = Validation(rows=rows, notes=("1x4x1 measured in 1 of 3 rounds: the time was up",), interrupted=True)
    summary, end, note = validation_table(validation).remarks
    assert (summary.partition(" lie inside")[0], end[:11]) == ("median error 10 %; 2 of 3 measured rates", "INTERRUPTED")
    assert note == validation.notes[0]
    assert render(validation, "console", full=True).strip() in to_console(make_analysis(validation=validation))
    assert len(validation_table(Validation(rows=rows)).remarks) == 1
    # The last sentence says whether the plan holds, if all of its workers were launched.
    of_plan = replace(rows[0], role="recommended", measured_samples_per_s=make_estimate(900.0))
    for demand, said in ((800.0, "the plan holds"), (1000.0, "the plan does not hold")):
        last = validation_table(Validation(rows=(of_plan, *rows[1:]), demand_samples_per_s=demand)).remarks[-1]
        assert last.startswith(said)


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        (
            {"fewest_tasks": 8, "most_tasks": 32},
            {"tasks": "8 to 32 a node all feed it; 16 recommended; 32 CPUs of a node stay idle"},
        ),
        ({"fewest_tasks": 16, "most_tasks": 16}, {"tasks": "32 CPUs of a node stay idle"}),
        ({}, {}),
        (
            {"kept_from": KeptPlan(layout=Layout.parse("2x16x2"), created_at="2026-11-01"), "fresh": Layout.parse("2x8x4")},
            {"kept": "from the run of 2026-11-01; a fresh plan would be 2x8x4 (--fresh)"},
        ),
    ],
)
def test_the_first_screen_says_which_tasks_feed_and_whether_the_plan_was_kept(changed: Any, facts: dict[str, str]) -> None:
    run = make_analysis(recommendation=make_plan("2x16x2", **changed), verdict_layout=Layout.parse("2x16x2"))
    found = dict(supply_and_demand(run))
    assert {name: found[name] for name in ("tasks", "kept") if name in found} == facts
