"""What is shown of launches over several nodes: nodes, workers, stragglers, the storage; nothing where there was one node."""

from __future__ import annotations

from dataclasses import replace

from builders import make_analysis, make_measurement
from hostile import HOSTILE
from rendered import to_console, to_html

from cs_input_analyzer.records import Estimate, Layout, Measurement, Scaling, ScalingPoint
from cs_input_analyzer.report.nodes import MOST_WORKERS, node_facts, node_tables, scaling_table, shown_launch, worker_table


def launch(*rates: float | None, tasks: int = 2, names: tuple[str, ...] = ()) -> Measurement:
    """`tasks` workers on each node, in order."""
    layout = Layout(nodes=len(rates) // tasks, tasks_per_node=tasks, cpus_per_task=1)
    measurement = make_measurement(layout, list(rates))
    workers = []
    for index, worker in enumerate(measurement.workers):
        name = names[index // tasks] if names else f"n{index // tasks + 1}"
        rate = rates[index]
        estimate = None if rate is None else Estimate(estimate=rate, low=rate * 0.97, high=rate * 1.03)
        workers.append(replace(worker, node=name, samples_per_s=estimate, clock_ahead_s=0.002))
    return replace(measurement, workers=tuple(workers), start_skew_s=0.012, notes=("Slurm binds no task to CPUs here",))


def scaling(ceiling: Estimate | None) -> Scaling:
    points = tuple(
        ScalingPoint(
            nodes=n, workers=2 * n, samples_per_s=Estimate.exact(100.0 * n), bytes_per_s=Estimate.exact(1e6 * n), wait_ratio=0.1
        )
        for n in (1, 2)
    )
    return Scaling(points=points, kept_ratio=Estimate.exact(1.0), ceiling_bytes_per_s=ceiling, note="each keeps 100 % of its rate")


def test_one_node_has_no_page_of_nodes() -> None:
    analysis = make_analysis(measurements=(make_measurement("1x2x1"),), scaling=None)
    assert shown_launch(analysis) is None
    assert node_tables(analysis) == ()
    assert node_facts(analysis) == ()
    assert "Several nodes" not in to_console(analysis)
    assert 'id="nodes"' not in to_html(analysis)


def test_every_node_and_every_worker_has_its_row() -> None:
    analysis = make_analysis(measurements=(make_measurement("1x2x1"), launch(100, 101, 99, 102)), scaling=scaling(None))
    more, nodes, workers = node_tables(analysis)
    assert [row[0] for row in more.rows] == ["1", "2"]
    assert [row[0] for row in nodes.rows] == ["n1", "n2"]
    assert [row[1] for row in workers.rows] == ["n1", "n1", "n2", "n2"]
    facts = dict(node_facts(analysis))
    assert facts["stragglers"].startswith("none")
    assert "4 workers began within 12 ms" in facts["begin"]
    assert facts["storage"] == "each keeps 100 % of its rate"
    assert "binds no task" in facts["note"]
    for text in (to_console(analysis), to_html(analysis)):
        assert "Several nodes" in text
        assert "n2" in text


def test_a_whole_node_that_lags_is_named_as_one() -> None:
    analysis = make_analysis(measurements=(launch(100, 101, 99, 102, 98, 100, 50, 52),))
    assert "all 2 workers on n4" in dict(node_facts(analysis))["stragglers"]


def test_one_worker_that_lags_is_named_with_its_node() -> None:
    analysis = make_analysis(measurements=(launch(100, 101, 99, 40, 98, 100),))
    assert "worker 3 on n2" in dict(node_facts(analysis))["stragglers"]
    table = worker_table(analysis.measurements[0])
    assert table is not None
    assert [row[-1] for row in table.rows].count("done, straggler") == 1


def test_a_node_that_lost_workers_says_how_many_delivered() -> None:
    nodes = node_tables(make_analysis(measurements=(launch(100, None, None, None),), scaling=None))[0]
    assert [row[1] for row in nodes.rows] == ["1 of 2", "0 of 2"]


def test_of_thousands_of_workers_nodes_are_shown_alone() -> None:
    huge = launch(*[100.0] * (2 * MOST_WORKERS))
    assert worker_table(huge) is None
    assert len(node_tables(make_analysis(measurements=(huge,), scaling=None))) == 1


def test_the_share_that_nodes_keep_is_of_the_first() -> None:
    rows = scaling_table(scaling(Estimate.exact(2e6))).rows
    assert [row[-2] for row in rows] == ["100 %", "100 %"]


def test_names_of_nodes_can_hold_anything() -> None:
    for text in HOSTILE.values():
        analysis = make_analysis(measurements=(launch(100, 101, 99, 102, names=(text, "n2")),), scaling=None)
        assert "\x1b" not in to_console(analysis)
        assert "<script>alert" not in to_html(analysis)
