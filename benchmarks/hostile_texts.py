"""A run with something in every field, the places where a stranger can put any text, and all that is made of a run."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Union

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Analysis, Estimate, Layout, Options

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
