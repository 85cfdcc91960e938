"""Analysis <-> JSON: the run file. Its keys are the field names of the records; docs/run-schema.json describes it.

Reading is the careful half: what does not fit is refused with the name of the file and the place in it, and never half understood.

`python -m cs_input_analyzer.report` prints the JSON Schema.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import SCHEMA_VERSION, Analysis, Comparison, Estimate, RunInspection, ValidationRow
from cs_input_analyzer.report import foreign
from cs_input_analyzer.units import INVISIBLE, format_bytes

Place = tuple[str | int, ...]

# Half of a UTF-16 pair on its own: what Python makes of a file name that is not UTF-8. No UTF-8 file can hold it.
LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")

# What begins or ends a tag, breaks a line of JavaScript, turns the direction of text, or is no character of HTML.
NOT_IN_SCRIPT = re.compile("[<>&\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufdd0-\ufdef\ufffe\uffff]")

# Where the HTML report keeps its run. Quotes and attribute order vary once a browser has saved the page.
SCRIPT = re.compile(r"<script\b([^<>]*)>?", re.IGNORECASE)
SCRIPT_END = re.compile("</script>", re.IGNORECASE)
RUN_ID = re.compile(r"\bid=[\"']?run\b", re.IGNORECASE)

# Ten thousand workers with their traces are a tenth of this.
GIVE_A_RUN = "; give a run that `analyze --json FILE` wrote"
LARGEST_RUN_BYTES = 2**30

# A whole number beyond any float: nothing that was ever counted.
LARGEST_COUNT = 10**300

# Params given in Python are the longest: they may name every file.
LONGEST_TEXT = 2**24

# Where msgspec ends its message with the place: " - at `$.measurements[0].role`".
PLACE = re.compile(r" - at `(?:key in )?\$\.?(.*)`$")


def to_json(analysis: Analysis | Comparison | RunInspection, *, indent: int | None = 1) -> str:
    """Return the run file, ending in a newline; on one line for `indent=None`.

    Raises:
        ValueError: a number is NaN or infinite (missing is `None`): our own bug, told with its place.
    """
    text = json.dumps(plain(analysis), indent=indent, allow_nan=False, ensure_ascii=False) + "\n"
    return INVISIBLE.sub(_escaped, text)  # a terminal would act on some of them


def script_safe(text: str) -> str:
    """Return JSON that no HTML reader takes for a tag or a mistake: those characters are JSON's own escapes."""
    return NOT_IN_SCRIPT.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def plain(value: object, place: Place = ()) -> object:
    """Return records, mappings and tuples as `json` writes them, with derived numbers that readers expect."""
    if isinstance(value, str):
        return LONE_SURROGATE.sub(_escaped, value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{_path(place)} is {value}: a run file holds finite numbers, and null for what is missing")
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(plain(str(key), place)): plain(item, (*place, str(key))) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item, (*place, index)) for index, item in enumerate(value)]
    if dataclasses.is_dataclass(value):
        document = {field.name: plain(getattr(value, field.name), (*place, field.name)) for field in dataclasses.fields(value)}
        # Nothing where there is no base for a relative error: nothing was delivered, or next to nothing.
        if isinstance(value, ValidationRow) and value.error_ratio is not None and math.isfinite(value.error_ratio):
            document["error_ratio"] = value.error_ratio
        return document
    raise ValueError(f"{_path(place)} is a {type(value).__name__}, which a run file cannot hold")


def load(path: Path | str) -> Analysis:
    """Return a saved run: of a JSON file or of an HTML report that holds it (told apart by content, not by name).

    Raises:
        UsageError: the file is missing, unreadable, not text, or not a run.
    """
    try:
        with Path(path).open("rb") as file:  # of a device that never ends, no more than a run can be
            content = file.read(LARGEST_RUN_BYTES + 1)
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not a run of cs_input_analyzer: the file is not UTF-8 text") from None
    except (OSError, ValueError, TypeError) as error:  # of a type: what was given is no path
        raise UsageError(f"{path}: cannot be read: {_reason(error)}{GIVE_A_RUN}") from None
    if len(content) > LARGEST_RUN_BYTES:
        raise UsageError(f"{path}: not a run of cs_input_analyzer: the file is larger than {format_bytes(LARGEST_RUN_BYTES)}")
    read = from_html if text.lstrip()[:1] == "<" else from_json
    return read(text, origin=str(path))


def from_html(text: str, *, origin: str) -> Analysis:
    """Return the run that an HTML report holds. Raise UsageError as `from_json`, and if there is no run in the page."""
    begin = next((tag for tag in SCRIPT.finditer(text) if RUN_ID.search(tag[1])), None)
    if begin is None:
        raise UsageError(f"{origin}: an HTML page without a run of cs_input_analyzer in it")
    end = SCRIPT_END.search(text, begin.end())
    if end is None:
        raise UsageError(f"{origin}: the page is truncated inside its data; copy it again, or use the JSON file of that run")
    return from_json(text[begin.end() : end.start()], origin=origin)


def from_json(text: str, *, origin: str) -> Analysis:
    """Return the analysis that `to_json` wrote, but for its launch lines, which `foreign` makes again. Unknown keys are ignored.

    Args:
        origin: names the file in messages.

    Raises:
        UsageError: truncated, not JSON, not a run, of another schema version, or a value of the wrong type or out of its interval.
    """
    document = _parse(text, origin)
    for place, problem in _unreadable_values(document, ()):
        raise UsageError(f"{origin}: {_path(place)}: {problem}")
    try:
        run = _completed(msgspec.convert(document, Analysis), document)
        foreign.check(run)
    except msgspec.ValidationError as error:
        raise UsageError(f"{origin}: {_mistake(str(error))}") from None
    except UsageError as error:  # of a record that cannot be made of these numbers
        raise UsageError(f"{origin}: {error}") from None
    return foreign.with_own_lines(run)


def _parse(text: str, origin: str) -> dict[str, object]:
    if not text.strip():
        raise UsageError(f"{origin}: the file is empty")
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        is_open = re.search(r"[}\]]", text[error.pos :]) is None or error.msg.startswith("Unterminated string")
        # Nothing is closed behind the place where the reader stumbled, and something was left to be.
        if is_open and text.lstrip().startswith("{") and error.msg != "Extra data":
            raise UsageError(f"{origin}: the JSON ends too early: the file is truncated; write it again or copy it whole") from None
        raise UsageError(f"{origin}: not JSON: {error.msg} at line {error.lineno}, column {error.colno}{GIVE_A_RUN}") from None
    except (RecursionError, ValueError) as error:
        raise UsageError(f"{origin}: not a run of cs_input_analyzer: {_reason(error)}") from None
    if not isinstance(document, dict) or "schema_version" not in document:
        raise UsageError(f"{origin}: JSON, but not a run of cs_input_analyzer: it has no schema_version")
    version = document["schema_version"]
    if not isinstance(version, int) or isinstance(version, bool):
        raise UsageError(f"{origin}: schema_version: a whole number is needed, got {_shown(version)}")
    if version != SCHEMA_VERSION:
        age, advice = ("a newer", "upgrade") if version > SCHEMA_VERSION else ("an older", "run again")
        raise UsageError(
            f"{origin}: this file was written by {age} version: schema {version}, this tool reads {SCHEMA_VERSION}; {advice}"
        )
    return document


def _unreadable_values(value: object, place: Place) -> Iterator[tuple[Place, str]]:
    """Yield values that JSON readers disagree about: `1e999` is legal JSON, and infinite once read."""
    if isinstance(value, float) and not math.isfinite(value):
        yield place, f"{_shown(value)} is not a number that can be reported; a missing number is written null"
    elif isinstance(value, int) and abs(value) > LARGEST_COUNT:
        yield place, "a whole number of more than 300 digits is not one that can be reported"
    elif isinstance(value, str) and LONE_SURROGATE.search(value):
        yield place, "half of a surrogate pair, which is not text"
    elif isinstance(value, str) and len(value) > LONGEST_TEXT:
        yield place, f"a text of {len(value):,} characters; no run holds one of more than {LONGEST_TEXT:,}"
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _unreadable_values(key, place)
            yield from _unreadable_values(item, (*place, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unreadable_values(item, (*place, index))


def _mistake(message: str) -> str:
    """Return msgspec's message with the place first."""
    place = PLACE.search(message)
    what = message[: place.start()] if place else message
    return f"{place[1] if place else 'the document'}: {what[:1].lower()}{what[1:]}"


def _path(place: Place) -> str:
    """Return `measurements[0].samples_per_s` for `("measurements", 0, "samples_per_s")`."""
    text = ""
    for step in place:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".") or "the document"


def _shown(value: object) -> str:
    text = json.dumps(value, default=repr)
    return text if len(text) <= 60 else text[:57] + "…"


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    said = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
    return said.partition("\n")[0]


def _completed(run: Analysis, document: Mapping[str, object]) -> Analysis:
    """Return the run with what release 0.1 did not store but searched for again. `document` is its JSON."""
    if "supply" in document:
        return run
    plan = run.recommendation
    if plan is not None:
        marked = tuple(replace(other, is_current=other.note.startswith("current launch")) for other in plan.alternatives)
        plan = replace(plan, alternatives=marked)
    return replace(run, recommendation=plan, supply=searched_supply(run))


def searched_supply(run: Analysis) -> Estimate | None:
    """Return the rate that the verdict judged: predicted for its layout if there is a prediction, else measured there."""
    layout, plan = run.verdict_layout, run.recommendation
    if plan is not None:
        predicted = {other.layout: other.predicted_samples_per_s for other in reversed(plan.alternatives)}
        predicted[plan.layout] = plan.predicted_samples_per_s
        if layout in predicted:
            return predicted[layout]
    probes = (launch for launch in reversed(run.measurements) if launch.role == "probe" and launch.layout == layout)
    return next((launch.samples_per_s for launch in probes), None)


def json_schema() -> str:
    """Return the JSON Schema (draft 2020-12) of a run, as text ending in a newline."""
    _, definitions = msgspec.json.schema_components([Analysis], ref_template="#/$defs/{name}")
    schema: dict[str, Any] = {**definitions.pop("Analysis"), "$defs": definitions}
    for definition in (schema, *definitions.values()):
        # What the generator made up: titles that repeat the key, and docstrings that Python wrote (`Tool(*, name: 'str')`).
        definition.pop("title", None)
        description = inspect.cleandoc(definition.pop("description", ""))
        if description and not re.match(r"\w+\(\*?", description):
            definition["description"] = description
        definition["required"] = list(definition["properties"])  # `to_json` writes each field
    definitions["ValidationRow"]["properties"]["error_ratio"] = {
        "type": "number",
        "readOnly": True,
        "description": "(predicted - measured) / measured; derived, ignored when read",
    }
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A run of cs_input_analyzer",
        "description": f"Schema version {SCHEMA_VERSION}. Every Estimate is a 90 % interval. Readers ignore unknown keys.",
    }
    body = {key: value for key, value in schema.items() if key not in head}
    return json.dumps(head | body, indent=1, ensure_ascii=False) + "\n"
