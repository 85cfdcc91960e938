"""Names that users really have, and names that would break a careless report."""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from collections.abc import Mapping
from typing import Any, Literal

from cs_input_analyzer.records import Analysis, Component

HOSTILE = {
    "script": "</script><script>alert(1)</script><!--",
    "markup": "[red]bold[/red] [/] [link=x]y",
    "quotes": "a\"b'c`d$(rm -rf /)\\",
    "newlines": "one\ntwo\r\nthree\x85four\u2028five",
    "emoji": "d\u00e9j\u00e0 vu \U0001f600\u200d\U0001f525 \u6c34\u6c34\u6c34",
    "long": "x" * 2500,
    "terminal": "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J \x08\x08\x7f",
    "direction": "invoice\u202egnp.exe",
    "braces": "{{ 7 * 7 }} {% raw %} {0} %s",
    "not utf-8": "caf\udce9",
    "formula": "=cmd|' /C calc'!A0",
    "entity": "&lt;b&gt; &amp; &#0;",
}

# What no report prints as it is: it would act on a terminal, or hide. Newlines do neither.
RAW = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]")


def is_ours(annotation: Any) -> bool:
    """Whether a field holds words that mean something to the program itself: everything else a user can name."""
    return typing.get_origin(annotation) is Literal or any(map(is_ours, typing.get_args(annotation)))


def with_text(value: Any, text: str) -> Any:
    """The same record with `text` in every string that comes from outside."""
    if isinstance(value, str):
        return text
    if isinstance(value, Mapping):
        return {key: with_text(item, text) for key, item in value.items()} | {text: 1}
    if isinstance(value, tuple):
        return tuple(with_text(item, text) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = typing.get_type_hints(type(value))
        named = [field.name for field in dataclasses.fields(value) if not is_ours(hints[field.name])]
        return dataclasses.replace(value, **{name: with_text(getattr(value, name), text) for name in named})
    return value


def hostile(analysis: Analysis, text: str) -> Analysis:
    changed: Analysis = with_text(analysis, text)
    ops = tuple(dataclasses.replace(op, inputs=(), within=None) for op in changed.pipeline.ops)  # of one name, they are a circle
    options = dataclasses.replace(changed.options, params_json=json.dumps({text: text}))
    changed = dataclasses.replace(changed, pipeline=dataclasses.replace(changed.pipeline, ops=ops), options=options)
    assert isinstance(changed.pipeline.element_spec[0], Component)
    assert changed.pipeline.target == text
    return changed
