"""What the params of a training say beside its input: steps, epochs, precision. Pure: plain values in, a record out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cs_input_analyzer.records import Training

# The names that public YAML files give to them (Cerebras Model Zoo, TensorFlow Model Garden, Hugging Face), the surest first.
_STEPS = ("max_steps", "num_steps", "train_steps", "total_steps", "training_steps", "num_train_steps")
_EPOCHS = ("num_epochs", "epochs", "train_epochs", "num_train_epochs")
_EPOCH_STEPS = ("steps_per_epoch",)
_PRECISIONS = ("fp16_type", "half_dtype", "precision", "compute_dtype", "mixed_precision", "use_bfloat16", "use_cbfloat16", "fp16")
# Sections and keys with these in their names are about something else than training.
_ELSEWHERE = ("eval", "valid", "predict", "test")


def training_of(params: object, wafer_dtype: str | None = None) -> Training:
    """What `params` say, at any depth; None where they say nothing. `wafer_dtype`: of the wafer model that the demand is from."""
    steps, epochs, each = (_number(params, names) for names in (_STEPS, _EPOCHS, _EPOCH_STEPS))
    if steps is None and each is not None:
        steps, epochs = each * (epochs or 1), None
    said = next((found for key, value in _first(params, _PRECISIONS) if (found := _half(key, value))), None)
    return Training(steps=steps, epochs=epochs, half=said or _half("precision", wafer_dtype))


def _number(params: object, names: tuple[str, ...]) -> int | None:
    found = (value for _, value in _first(params, names))
    return next((value for value in found if isinstance(value, int) and not isinstance(value, bool) and value > 0), None)


def _half(key: str, value: object) -> str | None:
    """The type of 16 bits that a key and its value name."""
    text = f"{key}={value}".lower()
    if value in (None, False) or "16" not in text + ("16" if value is True else ""):
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
