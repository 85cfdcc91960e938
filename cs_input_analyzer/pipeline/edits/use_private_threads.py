"""A thread pool of the dataset's own, with that many threads. The options of a dataset stand in no one place of the source."""

from __future__ import annotations

from collections.abc import Sequence

from cs_input_analyzer.pipeline.edits.work import EditError, Work, number_of
from cs_input_analyzer.records import Edit, Op


def graph(work: Work, edit: Edit) -> None:
    if edit.value is None:
        raise EditError("a private thread pool needs a number of threads")
    work.private_threads = number_of(edit)


def source(code: str, op: Op, ops: Sequence[Op], edit: Edit) -> str | None:
    return None
