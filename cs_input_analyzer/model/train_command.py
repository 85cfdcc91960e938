"""The training command, converted from the user's text to the form that launch lines need.

It has no launcher, the mode that trains or evaluates, and the Python of the wafer's mode. All functions work on lists of
words; nothing runs here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Mode

# Python's own name, a version of it, and what the vendor calls its flavours: python-ws streams weights, python-pt is PyTorch's.
_PYTHON = re.compile(r"python([0-9.]*|-[a-z]+)")
_PLAIN_PYTHON = re.compile(r"python[0-9.]*")
STREAMING_PYTHON = "python-ws"

LAUNCHERS = ("csrun_wse", "csrun_cpu", "srun")
CONTAINERS = ("singularity", "apptainer")

# Modes of a script that stop short of training, and options of the older ones that do.
NOT_TRAINING = ("validate_only", "validation_only", "compile_only")
EVALUATING = ("eval", "eval_all")
NOT_TRAINING_MODES = (*NOT_TRAINING, *EVALUATING, "predict")


def is_python(word: str) -> bool:
    """Return whether a word of a command line is Python: `python3`, `/opt/bin/python`, `python-ws`."""
    return _PYTHON.fullmatch(_name(word)) is not None


def streams_weights(words: Sequence[str]) -> bool:
    """Return whether the command is for weight streaming: `python-ws run.py`."""
    python = next((_name(word) for word in words if is_python(word)), "")
    return python == STREAMING_PYTHON


def without_launcher(words: Sequence[str], option: str) -> list[str]:
    """Return the command that `csrun_wse`, `csrun_cpu` or `srun` would start, from its container or its Python on.

    The launch lines bring a launcher of their own.

    Raises:
        UsageError: it is not clear where the launcher's options end.
    """
    if not words or _name(words[0]) not in LAUNCHERS:
        return list(words)
    begins = next((place for place, word in enumerate(words) if is_python(word) or _name(word) in CONTAINERS), None)
    if begins is None:
        raise UsageError(
            f"{option} starts with {words[0]}, and no word after it is python: give the command without {words[0]} and its "
            "options, which the launch lines have of their own"
        )
    return list(words[begins:])


def trained(words: Sequence[str], mode: Mode = "train") -> list[str]:
    """Return the command with a mode that trains. `--mode=validate_only` becomes `--mode=train`; `--compile_only` is removed.

    With `mode` eval the command evaluates. `--mode=validate_only` becomes `--mode=eval`; `--mode=eval_all` stays.
    """
    others = [name for name in NOT_TRAINING_MODES if mode == "train" or name not in EVALUATING]
    kept = [word for word in words if not (word.startswith("-") and _plain(word.partition("=")[0]) in NOT_TRAINING)]
    found, before = [], ""
    for word in kept:
        option, equals, value = word.partition("=")
        is_alone = word in NOT_TRAINING and not (before.startswith("-") and "=" not in before)  # it can be nothing else
        if _is_mode(option) and equals and _plain(value) in others:
            found.append(f"{option}={mode}")
        elif is_alone or (_is_mode(before) and _plain(word) in others):
            found.append(mode)
        else:
            found.append(word)
        before = word
    return found


def with_python_of(words: Sequence[str], mode: str | None) -> list[str]:
    """Return the command with the Python that the wafer's mode needs: scripts that stream weights run in `python-ws`."""
    place = next((place for place, word in enumerate(words) if is_python(word)), None)
    if mode != "weight_streaming" or place is None or not _PLAIN_PYTHON.fullmatch(_name(words[place])):
        return list(words)
    return [*words[:place], STREAMING_PYTHON, *words[place + 1 :]]


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _plain(word: str) -> str:
    return word.lstrip("-").replace("-", "_")


def _is_mode(word: str) -> bool:
    """`--mode`, `-mode`, `--run_mode`: not `--model_dir`, not `--precision_mode`."""
    return word.startswith("-") and _plain(word) in ("mode", "run_mode")
