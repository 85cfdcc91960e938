"""Tables on the terminal: whatever the width, no digit is lost, and no number is broken where there is room for it."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.report.tables import Column, Table
from cs_input_analyzer.report.terminal import GAP, LEAST_TEXT, console_on, table_on

NUMBERS = st.from_regex(r"[1-9][0-9]{0,4}(\.[0-9]{1,2})?k?( to [1-9][0-9]{0,6})?", fullmatch=True)
TEXTS = st.text("abcdefgh ", max_size=60)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    are_numbers = draw(st.lists(st.booleans(), min_size=1, max_size=7))
    columns = tuple(
        Column(name=f"col\n{place}", meaning="", is_number=number, is_long=True) for place, number in enumerate(are_numbers)
    )
    row = st.tuples(*(NUMBERS if number else TEXTS for number in are_numbers))
    return Table(title="", columns=columns, rows=tuple(draw(st.lists(row, min_size=1, max_size=5))))


def printed(table: Table, width: int) -> str:
    out = io.StringIO()
    table_on(console_on(out, width, color=False), table, heading=False)
    return out.getvalue()


@given(tables(), st.integers(40, 160))
def test_numbers_stay_whole_where_there_is_room_beside_some_letters_of_each_text(table: Table, width: int) -> None:
    needed = GAP * (len(table.columns) - 1)
    for index, column in enumerate(table.columns):
        longest = max(len(row[index]) for row in table.rows)
        needed += max(longest, 3) if column.is_number else min(longest, LEAST_TEXT)
    lines = printed(table, width).splitlines()
    assert all(len(line) <= width for line in lines)
    if needed > width:
        return
    for row in table.rows:
        for cell, column in zip(row, table.columns, strict=True):
            assert not column.is_number or any(cell in line for line in lines)


@given(tables(), st.integers(40, 160))
def test_no_digit_is_lost_at_any_width(table: Table, width: int) -> None:
    body = "".join(printed(table, width).splitlines()[2:])
    wanted = "".join(cell for row in table.rows for cell in row)
    for digit in "0123456789":
        assert body.count(digit) >= wanted.count(digit)


@given(tables(), st.integers(40, 160))
def test_no_word_is_broken_where_the_longest_of_each_text_fit_beside_the_numbers(table: Table, width: int) -> None:
    needed = GAP * (len(table.columns) - 1)
    for index, column in enumerate(table.columns):
        cells = [row[index] for row in table.rows]
        words = [3, *(len(word) for cell in cells for word in cell.split())]
        words += [len(cell.rstrip()) - len(cell.lstrip().partition(" ")[2].rstrip()) for cell in cells]  # the indent of the first
        needed += max(3, *map(len, cells)) if column.is_number else max(words)
    if needed > width:
        return
    lines = printed(table, width).splitlines()
    assert all(len(line) <= width for line in lines)
    shown = [word for line in lines[2:] for word in line.split()]
    for row in table.rows:
        assert all(word in shown for cell in row for word in cell.split())
