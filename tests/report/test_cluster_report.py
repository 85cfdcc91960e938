"""What the report says of the nodes: each number, where it is from, and what one that is not known does to the plan."""

from __future__ import annotations

import pytest
from builders import make_analysis, make_cluster, make_estimate
from rendered import to_console, to_html

from cs_input_analyzer.records import Estimate
from cs_input_analyzer.report.cluster import cluster_facts


def said(**overrides: object) -> dict[str, str]:
    return dict(cluster_facts(make_cluster(**overrides)))


@pytest.mark.parametrize(
    ("speed", "expected"),
    [
        ({"speed_ratio": Estimate.exact(1.2)}, "1.2 times as fast as one of this host, as stated"),
        (
            {"speed_ratio": make_estimate(1.18, spread=0.025), "speed_basis": "reference loop"},
            "1.18 times (1.15 to 1.21) as fast as one of this host, by the reference loop",
        ),
        ({"speed_ratio": Estimate.exact(1.0), "speed_basis": "this host"}, "that of this host, which measured"),
        ({"speed_ratio": None}, "speed unknown: taken as this host's, interval widened (--node-speed, --node-reference)"),
    ],
)
def test_it_says_how_the_speed_of_a_node_is_known(speed: dict[str, object], expected: str) -> None:
    assert said(**speed)["node's CPU"] == expected


def test_a_known_number_is_told_and_an_unknown_one_says_what_that_means() -> None:
    known = said(
        threads_per_core=2,
        memory_bandwidth_bytes_per_s_per_node=150e9,
        network_bytes_per_s_per_node=12.5e9,
        storage_bytes_per_s=5e9,
    )
    assert known["SMT"].startswith("2 threads per core")
    assert known["memory bandwidth"] == "150 GB/s in each node"
    assert known["network"] == "12.5 GB/s for each node, in each direction"
    assert known["storage"] == "5 GB/s for all nodes together"
    unknown = said(threads_per_core=None, network_bytes_per_s_per_node=None)
    assert "unknown" in unknown["SMT"]
    assert "interval widened" in unknown["SMT"]
    for label, option in (("memory bandwidth", "memory"), ("network", "network"), ("storage", "storage")):
        assert unknown[label] == f"unknown, so it limits nothing here (--{option}-bandwidth)"
    assert "unknown" not in said(threads_per_core=1)["SMT"]


def test_the_nodes_and_the_source_are_there() -> None:
    facts = said(source="a file")
    assert facts["nodes"] == "8 of eight-nodes, 64 CPUs and 128 GiB each, AMD EPYC 7702P"
    assert facts["known from"] == "a file"


def test_console_and_page_have_the_section() -> None:
    analysis = make_analysis(cluster=make_cluster(speed_ratio=None))
    for report in (to_console(analysis, width=120), to_html(analysis).replace("&#39;", "'")):
        assert "Cluster" in report
        assert "taken as this host's, interval widened" in report
    assert 'id="cluster"' in to_html(analysis)


def test_console_and_page_show_what_if_and_alternatives() -> None:
    console, page = to_console(make_analysis(), width=120), to_html(make_analysis())
    for text in ("What if", "one more node", "twice the files", "changes nothing", "recommended"):
        assert text in console
        assert text in page
    assert 'id="what-if"' in page
    assert '<a href="#what-if">' in page
