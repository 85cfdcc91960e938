"""Build a dataset by a module of the user's while modules of it are stood in for."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer.tfdata import load
from cs_input_analyzer.worker.capture import setting_up, standing_in

NUMBERS = itertools.count()
# The text of a module, packages to stand in for, a mode -> the dataset, and what was stood in for.
Built = Callable[..., tuple[Any, list[str]]]


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Built:
    """Writes a module of the user's, calls its `input_fn` as a worker does; gives the dataset and what was stood in for."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def build(text: str, *named: str, mode: Any = "train") -> tuple[Any, list[str]]:
        file = tmp_path / f"users_data_{next(NUMBERS)}.py"
        plain = "" if "def input_fn" in text else "\ndef input_fn(params):\n    return tf.data.Dataset.range(3)\n"
        file.write_text(f"import tensorflow as tf\n{textwrap.dedent(text)}{plain}")
        told: list[str] = []
        with standing_in(named, told.append):
            with setting_up():
                found = load.find_object(load.parse_target(f"{file}:input_fn"))
            dataset = load.build_dataset(found, load.Call(params={}, mode=mode, num_workers=1, worker_index=0))
        return dataset, told

    return build


def first(dataset: Any) -> Any:
    return next(iter(dataset)).numpy().tolist()
