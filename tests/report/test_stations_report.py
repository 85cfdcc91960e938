"""The bottleneck in every report: named first, explained, and not claimed where nothing is near its limit."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import get_args

import pytest
from builders import make_analysis, make_layout, make_measurement, make_plan, make_station, make_stations
from rendered import to_console, to_html

from cs_input_analyzer.records import StationKind
from cs_input_analyzer.report.stations import MEANINGS, NEAR_RATIO, bottleneck_sentence, stations_table
from cs_input_analyzer.report.to_csv import to_csv
from cs_input_analyzer.report.to_json import from_json, to_json
from cs_input_analyzer.units import MISSING

KINDS = get_args(StationKind)
SERIAL = make_station("serial op", op="map", source="data.py:9", samples_per_s=2_500.0, utilization_ratio=0.97)


def test_every_kind_has_its_meaning() -> None:
    assert set(MEANINGS) == set(KINDS)


def test_rows_keep_the_order_and_the_first_stands_out() -> None:
    table = stations_table(make_stations())
    assert [row[0] for row in table.rows] == ["CPU", "serial op", "readers"]
    assert table.strong == 0
    assert table.title == "Bottleneck (one worker of 1x1x2)"
    assert table.rows[0] == ("CPU", MISSING, "1,042", "96 %", MISSING)
    assert table.rows[1][4].endswith("input_fn.py:25")


@pytest.mark.parametrize("kind", KINDS)
def test_the_sentence_names_the_station_and_what_it_is(kind: str) -> None:
    sentence = bottleneck_sentence((make_station(kind),))
    assert sentence.startswith(f"bottleneck: {kind} (")
    assert MEANINGS[kind] in sentence


def test_the_sentence_says_where_and_how_much() -> None:
    sentence = bottleneck_sentence((SERIAL, *make_stations()))
    assert "serial op `map`" in sentence
    assert sentence.endswith("at most 2,500 samples/s, 97 % used, at data.py:9")


def test_a_plan_of_other_workers_has_a_limit_of_its_own() -> None:
    """So that a report does not name two bottlenecks of one thing."""
    station = replace(make_station(), layout=make_layout("1x1x2"))
    assert bottleneck_sentence((station,), make_plan("1x4x2")) == bottleneck_sentence((station,))
    said = bottleneck_sentence((station,), make_plan("1x4x1", limited_by="worker CPU"))
    assert said.endswith("The plan's workers have 1 CPU instead, and the plan is limited by worker CPU")


@pytest.mark.parametrize(("used", "is_claimed"), [(NEAR_RATIO - 0.01, False), (NEAR_RATIO, True), (1.0, True)])
def test_nothing_is_called_the_bottleneck_that_is_not_near_its_limit(used: float, is_claimed: bool) -> None:
    sentence = bottleneck_sentence((make_station(utilization_ratio=used),))
    assert sentence.startswith("bottleneck:") == is_claimed
    assert ("nearest: CPU" in sentence) != is_claimed


def test_console_and_page_say_the_same() -> None:
    analysis = make_analysis(stations=(SERIAL, *make_stations()))
    text, page = to_console(analysis, width=200), to_html(analysis)
    for report in (text, page):
        assert "Bottleneck (one worker of 1x1x2)" in report
        assert bottleneck_sentence(analysis.stations, analysis.recommendation) in report
    for row in stations_table(analysis.stations).rows:
        for cell in row:
            assert cell in text
            assert cell in page


def test_it_comes_before_the_costs() -> None:
    text, page = to_console(make_analysis()), to_html(make_analysis())
    assert text.index("Bottleneck (") < text.index("Cost of each op")
    assert page.index('id="bottleneck"') < page.index('id="costs"')


def test_without_stations_there_is_no_section() -> None:
    analysis = make_analysis(stations=())
    assert bottleneck_sentence(()) == ""
    assert stations_table(()).rows == ()
    assert "ottleneck" not in to_console(analysis)
    assert "#bottleneck" not in to_html(analysis)


def test_a_spreadsheet_has_it_in_the_rows_of_its_layout() -> None:
    runs = (make_measurement("1x1x1"), make_measurement("1x1x2"))
    analysis = make_analysis(measurements=runs, stations=(SERIAL, *make_stations()))
    other, own = csv.DictReader(io.StringIO(to_csv(analysis)))
    assert (own["bottleneck.kind"], own["bottleneck.op"], own["bottleneck.source"]) == ("serial op", "map", "data.py:9")
    assert float(own["bottleneck.samples_per_s"]) == 2_500.0
    assert float(own["bottleneck.utilization_ratio"]) == 0.97
    assert {other[name] for name in other if name.startswith("bottleneck.")} == {""}


def test_a_spreadsheet_without_stations_has_empty_cells() -> None:
    (row,) = csv.DictReader(io.StringIO(to_csv(make_analysis(measurements=(make_measurement("1x1x2"),), stations=()))))
    assert {row[name] for name in row if name.startswith("bottleneck.")} == {""}


def test_a_saved_run_keeps_them() -> None:
    analysis = make_analysis(stations=(make_station("slowest shard", layout=make_layout("1x1x8")), *make_stations()))
    assert from_json(to_json(analysis), origin="here").stations == analysis.stations
