"""The time for measuring: as given, else by the launcher."""

from __future__ import annotations

import pytest

from cs_input_analyzer.errors import Mistakes
from cs_input_analyzer.request.options import SLURM_SECONDS
from cs_input_analyzer.request.request import read_request

GIVEN = [("local", None, 60.0), ("slurm", None, SLURM_SECONDS), ("slurm", 60.0, 60.0), ("local", 9.0, 9.0)]


@pytest.mark.parametrize(("launcher", "given", "seconds"), GIVEN)
def test_full_nodes_of_slurm_get_more_time_unless_it_is_given(launcher: str, given: float | None, seconds: float) -> None:
    mistakes = Mistakes()
    request = read_request(mistakes, "json:loads", launcher=launcher, max_seconds=given)
    mistakes.raise_any()
    assert request is not None
    assert request.options.max_seconds == seconds
