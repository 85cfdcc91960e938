"""The params of a training, as text and back, and the facts in them: steps, epochs, batch sizes, precision. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from typing import Any

from cs_input_analyzer.masking import masked_places
from cs_input_analyzer.records import Training

PAIRS, DATE, TIME = "__pairs__", "__date__", "__time__"
PLAIN_KEYS = (str, int, float, type(None))  # a truth value is a whole number

# The names that public YAML files give to them (Cerebras Model Zoo, TensorFlow Model Garden, Hugging Face), the surest first.
_STEPS = ("max_steps", "num_steps", "train_steps", "total_steps", "training_steps", "num_train_steps")
_EPOCHS = ("num_epochs", "epochs", "train_epochs", "num_train_epochs")
_EPOCH_STEPS = ("steps_per_epoch",)
_PRECISIONS = ("fp16_type", "half_dtype", "precision", "compute_dtype", "use_bfloat16", "use_cbfloat16", "mixed_precision", "fp16")
# Sections and keys with these in their names are about something else than training.
_ELSEWHERE = ("eval", "valid", "predict", "test")


def training_of(params: object, *, has_wafer_model: bool = False) -> Training:
    """Return what `params` say, at any depth; None if they say nothing.

    `has_wafer_model`: the demand is from the wafer model, which computes in fp16.
    """
    steps, epochs, each = (_number(params, names) for names in (_STEPS, _EPOCHS, _EPOCH_STEPS))
    if steps is None and each is not None:
        steps, epochs = each * (epochs or 1), None
    # With `mixed_precision: false` the network computes in float32, even if another key names a type of 16 bits.
    is_off = next((value is False for _, value in _first(params, ("mixed_precision",))), False)
    named = (_half(key, value) for key, value in _first(params, _PRECISIONS))
    said = next((found for found in named if found is not None), None) if not is_off else None
    return Training(steps=steps, epochs=epochs, half=said or ("float16" if has_wafer_model else None))


def batch_sizes_in(params: object) -> tuple[int, ...]:
    """Return every `batch_size` of the params, at any depth."""
    if isinstance(params, Mapping):
        own = params.get("batch_size")
        sizes = (own,) if isinstance(own, int) and not isinstance(own, bool) else ()
        return (*sizes, *(size for part in params.values() for size in batch_sizes_in(part)))
    return tuple(size for part in params for size in batch_sizes_in(part)) if isinstance(params, list | tuple) else ()


def _number(params: object, names: tuple[str, ...]) -> int | None:
    found = (value for _, value in _first(params, names))
    return next((value for value in found if isinstance(value, int) and not isinstance(value, bool) and value > 0), None)


def _half(key: str, value: object) -> str | None:
    """Return the type of 16 bits that a value names, or its key if the value is yes. Return None for another type."""
    if isinstance(value, Mapping):
        value = value.get("enabled")
    is_yes = value in (True,)  # 1 is one, too
    text = str(key if is_yes else value).lower()
    if "16" not in text and not is_yes:
        return None
    return next((name for name in ("cbfloat16", "bfloat16") if name in text or (name == "bfloat16" and "bf16" in text)), "float16")


def _first(params: object, names: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    """Values of these keys, in the order of the names, outer sections first; none of evaluation."""
    for name in names:
        level: list[object] = [params]
        while level:
            sections = [one for one in level if isinstance(one, Mapping)]
            yield from ((name, section[name]) for section in sections if name in section)
            level = [
                below
                for section in sections
                for key, below in section.items()
                if not any(word in str(key).lower() for word in _ELSEWHERE)
            ]


def params_to_json(params: Mapping[Any, Any]) -> str:
    """Return the params as JSON, from which `params_from_json` makes the same again.

    A mapping with other keys than texts is written as its pairs, a date with its name. Raise TypeError or ValueError for what is
    not plain.
    """

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            pairs = [(key, plain(of)) for key, of in value.items()]
            if not value.keys().isdisjoint((PAIRS, DATE, TIME)) or any(not isinstance(key, str) for key, _ in pairs):
                if not all(isinstance(key, PLAIN_KEYS) for key, _ in pairs):
                    raise TypeError("a key must be a text or a number")
                return {PAIRS: pairs}
            return dict(pairs)
        if isinstance(value, date):  # a time of day on one is a date, too
            return {TIME if isinstance(value, datetime) else DATE: value.isoformat()}
        return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value

    return json.dumps(plain(params))


def params_from_json(text: str) -> Any:
    """Return the value that `params_to_json` wrote, or the value of any other JSON text.

    Raises:
        ValueError, TypeError, RecursionError: the text is neither.
    """
    makers: dict[str, Callable[[Any], Any]] = {
        PAIRS: lambda pairs: dict(map(tuple, pairs)),
        DATE: date.fromisoformat,
        TIME: datetime.fromisoformat,
    }

    def made(read: dict[str, Any]) -> Any:
        (name, *others) = read or ("",)
        return makers[name](read[name]) if name in makers and not others else read

    return json.loads(text, object_hook=made)


def filled(text: str | None, given: Mapping[str, Any]) -> tuple[str | None, frozenset[str], tuple[str, ...]]:
    """Put values back that were masked when params were saved.

    Args:
        text: params as JSON.
        given: values by their keys, as `--set` writes them.

    Returns:
        The params with these values, the keys that were used, and those that are still masked.
    """
    params = params_from_json(text or "null")
    places = tuple(masked_places(params))
    for place, name in places:
        if name in given:
            section = params
            for step in place[:-1]:
                section = section[step]
            section[place[-1]] = given[name]
    used = frozenset(name for _, name in places if name in given)
    return (params_to_json(params) if used else text), used, tuple(name for _, name in places if name not in given)
