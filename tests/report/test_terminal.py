"""Tables on a terminal: whatever the width, no digit is lost, and no number is broken where there is room for it."""

from __future__ import annotations

import io
import math

from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.report.tables import Column, Table
from cs_input_analyzer.report.to_console import GAP, LEAST_TEXT, console_on, table_on
from cs_input_analyzer.units import MISSING, format_rate_short

NUMBERS = st.from_regex(r"[1-9][0-9]{0,4}(\.[0-9]{1,2})?k?( to [1-9][0-9]{0,6})?", fullmatch=True)
TEXTS = st.text("abcdefgh ", max_size=60)
SCALES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@st.composite
def tables(draw: st.DrawFn) -> Table:
    are_numbers = draw(st.lists(st.booleans(), min_size=1, max_size=7))
    columns = tuple(Column(name=f"col\n{place}", meaning="", is_number=number) for place, number in enumerate(are_numbers))
    row = st.tuples(*(NUMBERS if number else TEXTS for number in are_numbers))
    return Table(title="", columns=columns, rows=tuple(draw(st.lists(row, min_size=1, max_size=5))))


@given(tables(), st.integers(40, 160))
def test_no_digit_is_lost_and_where_there_is_room_no_number_is_broken(table: Table, width: int) -> None:
    out = io.StringIO()
    table_on(console_on(out, width, color=False), table)
    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    body, wanted = "".join(lines[2:]), "".join(cell for row in table.rows for cell in row)
    assert all(body.count(digit) >= wanted.count(digit) for digit in "0123456789")
    beside_letters = GAP * (len(table.columns) - 1)
    for index, column in enumerate(table.columns):
        longest = max(3, *(len(row[index]) for row in table.rows), 3)
        beside_letters += longest if column.is_number else min(longest, LEAST_TEXT)
    if beside_letters <= width:
        numbers = [cell for row in table.rows for cell, column in zip(row, table.columns, strict=True) if column.is_number]
        assert all(any(cell in line for line in lines) for cell in numbers)


@given(st.floats(min_value=1e-5, max_value=1e15))
def test_a_short_rate_is_true_to_its_digits(rate: float) -> None:
    text = format_rate_short(rate)
    number, scale = (text[:-1], SCALES[text[-1]]) if text[-1] in SCALES else (text, 1.0)
    assert math.isclose(float(number.replace(",", "")) * scale, rate, rel_tol=0.0051 if rate < 1000 else 0.00051)
    assert len(text) <= 9


def test_short_rates() -> None:
    rates = {None: MISSING, 0.0: "0", 980.0: "980", 9_999.4: "9,999", 9_999.6: "10.00k", 999_960.0: "1.000M", -2e4: "-20.00k"}
    assert {rate: format_rate_short(rate) for rate in rates} == rates
