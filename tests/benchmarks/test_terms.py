"""`benchmarks.terms` takes terms away by name: each name stands where it says."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from benchmarks.terms import TERMS

PATCHES = [patch for patches in TERMS.values() for patch in patches]


@pytest.mark.parametrize("patch", PATCHES, ids=[name for _, name, _ in PATCHES])
def test_each_term_is_there_and_what_stands_in_for_it_takes_the_same_arguments(patch: tuple[Any, str, Any]) -> None:
    of, name, instead = patch
    there = getattr(of, name)
    if callable(there):
        least = [one for one in inspect.signature(there).parameters.values() if one.default is one.empty]
        inspect.signature(instead).bind(*least)
