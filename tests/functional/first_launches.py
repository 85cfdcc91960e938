"""The command line, but nothing is launched again after the first layouts.

A whole run repeats what decides its plan, cuts the pipeline after each of its ops and tries fixes, for as long as `--max-seconds`
lasts. A test that judges what comes of the first launch only would wait for that; and a small `--max-seconds` instead would end the
first launch itself too early on a busy host. What follows the first launch is tested by the whole runs of `test_analyze`,
`test_validate_run`, `test_known_truth` and `test_tune_command`.
"""

from __future__ import annotations

from cs_input_analyzer.cli import main
from cs_input_analyzer.probing import Probing


def _not_again(self: Probing, plan: object) -> bool:
    return False


Probing.measure_round = Probing.measure_prefixes = _not_again  # type: ignore[method-assign,assignment]

raise SystemExit(main())
