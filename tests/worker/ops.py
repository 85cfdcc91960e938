"""Ops as literals, for tests of what is counted of them."""

from __future__ import annotations

from typing import Any

from cs_input_analyzer.records import Op


def op(name: str, kind: str, *inputs: str, within: str | None = None, calls: tuple[str, ...] = (), **parameters: Any) -> Op:
    return Op(
        name=name, kind=kind, source=f"data.py:{len(name)}", inputs=inputs, parameters=parameters, within=within, function_ops=calls
    )


CHAIN = (op("range", "Range"), op("map", "Map", "range"), op("batch", "Batch", "map"), op("prefetch", "Prefetch", "batch"))
