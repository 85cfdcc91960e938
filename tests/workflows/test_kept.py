"""A plan stays from run to run of the same, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer.host import history
from cs_input_analyzer.records import Analysis, KeptPlan, Layout
from cs_input_analyzer.workflows import kept
from tests.builders import make_analysis, make_cluster, make_consumption, make_files, make_graph, make_options, make_plan

BEFORE = "2026-01-01T00:00:00+00:00"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "cache_folder", lambda: tmp_path)


def key(**changed: Any) -> str:
    run = make_analysis()
    usual = {"pipeline": run.pipeline, "options": run.options, "cluster": run.cluster, "consumption": run.consumption}
    return kept.key_of(**(usual | changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"pipeline": make_graph("tf_record > map*4 > batch > prefetch")},
        {"pipeline": make_graph(files=make_files(count=17))},
        {"pipeline": make_graph(target="other.py:f")},
        {"options": make_options(headroom_ratio=0.2)},
        {"options": make_options(mode="eval")},
        {"options": replace(make_options(), params_json='{"a": 1}')},
        {"cluster": make_cluster(nodes=9)},
        {"cluster": make_cluster(memory_bytes_per_node=1 << 35)},
        {"consumption": make_consumption(7_001.0)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_another_pipeline_cluster_or_demand_is_another_plan(changed: dict[str, Any]) -> None:
    assert key(**changed) != key()


def test_seeds_and_what_does_not_change_the_plan_do_not_count() -> None:
    ops = make_graph().ops
    other = tuple(replace(op, parameters={**op.parameters, "seed": 99}) if op.kind == "Shuffle" else op for op in ops)
    assert key(pipeline=replace(make_analysis().pipeline, ops=other)) == key()
    assert key(options=replace(make_analysis().options, max_seconds=300.0)) == key()


def remembered(run: Analysis) -> KeptPlan | None:
    kept.remember(run)
    assert run.consumption is not None
    return history.kept_plan(kept.key_of(run.pipeline, run.options, run.cluster, run.consumption))


def test_a_plan_that_feeds_is_remembered_with_the_date_of_its_first_run() -> None:
    first = make_analysis(created_at=BEFORE, recommendation=make_plan("2x16x2", meets_demand=True))
    found = remembered(first)
    assert found == KeptPlan(layout=Layout.parse("2x16x2"), created_at=BEFORE)
    again = replace(first, created_at="2026-02-02T00:00:00+00:00", recommendation=make_plan(meets_demand=True, kept_from=found))
    assert remembered(again) == found


@pytest.mark.parametrize("changed", [{"recommendation": None}, {"recommendation": make_plan(meets_demand=False)}])
def test_a_plan_that_does_not_feed_is_not_kept(changed: dict[str, Any]) -> None:
    assert remembered(make_analysis(**changed)) is None


@pytest.mark.parametrize(
    "text", ["{", '{"a": {"layout": {"nodes": 0, "tasks_per_node": 1, "cpus_per_task": 1}, "created_at": ""}}']
)
def test_a_damaged_file_holds_no_plan(text: str, tmp_path: Path) -> None:
    (tmp_path / history.PLANS_FILE).write_text(text)
    assert history.kept_plan("a") is None
    assert remembered(make_analysis(recommendation=make_plan(meets_demand=True))) is not None


def test_only_the_newest_plans_are_kept() -> None:
    for number in range(history.PLANS + 5):
        history.remember_plan(str(number), KeptPlan(layout=Layout.parse("1x1x1"), created_at=BEFORE))
    assert history.kept_plan("4") is None
    assert history.kept_plan("5") is not None
