"""Read what a saved run is launched again with: its secrets, its layouts, and the options of the launches."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cs_input_analyzer.engines import selection as engine
from cs_input_analyzer.errors import Mistakes, UsageError, typed
from cs_input_analyzer.masking import masked_options
from cs_input_analyzer.model.params import filled
from cs_input_analyzer.records import Analysis, Cluster, Host, Layout, Options
from cs_input_analyzer.request.keywords import known_among
from cs_input_analyzer.request.options import NO_LAUNCH, as_layouts, read_options
from cs_input_analyzer.request.target import check_importable
from cs_input_analyzer.tfdata import load
from cs_input_analyzer.worker import capture

VALIDATE_SECONDS = 120.0
VALIDATE_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaunch:
    """Saved runs that are launched again.

    Attributes:
        runs: with the secrets that their files do not hold.
        host: where they are launched; `nodes`: the number of nodes like it that the launcher has.
        layouts: empty if none are asked for.
        rounds: fresh launches of each layout, if there is time.
    """

    runs: tuple[Analysis, ...]
    options: Options
    host: Host
    cluster: Cluster
    layouts: tuple[Layout, ...]
    rounds: int
    nodes: int = 1

    @property
    def run(self) -> Analysis:
        """Return the first of the runs."""
        return self.runs[0]


def read_relaunch(runs: Sequence[Analysis], group: Any, choices: Mapping[str, Any]) -> Relaunch:
    """Return saved runs with what they are launched again with.

    Args:
        group: the keywords that there may be among the choices.

    Raises:
        UsageError, TargetError: all mistakes at once.
    """
    mistakes = Mistakes()
    left = {"max_seconds": VALIDATE_SECONDS, "cpus": None, **known_among(choices, group, mistakes)}
    layouts, rounds = left.pop("layouts", ()), left.pop("rounds", VALIDATE_ROUNDS)
    wanted: tuple[Layout, ...] = ()
    runs = _with_secrets(runs, left.pop("set", ()), mistakes)
    with mistakes:
        wanted = as_layouts("layouts", layouts)
    with mistakes:
        if typed("rounds", rounds, int) < 1:
            raise UsageError(f"--rounds {rounds}: must be 1 or more")
    with mistakes:
        for run in runs:
            check_importable(run.pipeline.target)
    limit = runs[0].options.cpus
    if left["cpus"] is None and limit is not None:
        is_local = left.get("launcher", "local") == "local"
        left["cpus"] = max(1, min(limit, len(os.sched_getaffinity(0)))) if is_local else limit
    options = read_options(mistakes, worker_memory_bytes=runs[0].options.worker_memory_bytes, current=NO_LAUNCH, **left)
    place = None if options is None else engine.resolve(options, mistakes)
    mistakes.raise_any()
    assert options is not None and place is not None  # noqa: PT018
    return Relaunch(runs=tuple(runs), options=options, host=place.host, cluster=place.cluster, layouts=wanted, rounds=rounds)


def _with_secrets(runs: Sequence[Analysis], overrides: Any, mistakes: Mistakes) -> list[Analysis]:
    """Return the runs with the secrets that their files do not hold. Note those that are still missing.

    Args:
        overrides: texts `key=value`, as `--set` takes them.
    """
    given: dict[str, Any] = {}
    for override in (overrides,) if isinstance(overrides, str) else overrides:
        key, equals, text = str(override).partition("=")
        with mistakes:
            if not equals:
                raise UsageError(f"--set {key}: write key=value or section.key=value")
            given[key.strip()] = load.value_of(key, text)
    found, used, masks = [], frozenset[str](), frozenset[str]()
    for run in runs:
        params_json, filled_keys, missing = filled(run.options.params_json, given)
        used |= filled_keys
        masks |= filled_keys | {*missing}
        for key in missing:
            mistakes.note(f"{key} of the params is not in the run, as it is a secret: give it, --set {key}=VALUE")
        found.append(replace(run, options=replace(run.options, params_json=params_json)))
        _check_words(run.pipeline.target, mistakes)
    for key in sorted({*given} - used):
        only = f"only secrets can be given, which are not in it: {', '.join(sorted(masks))}" if masks else "no value is missing"
        mistakes.note(f"--set {key}=…: the run has its params, so that it is launched as it was; {only}")
    return found


def _check_words(target: str, mistakes: Mistakes) -> None:
    """Note a script's command that was saved without its secrets."""
    if capture.is_script(target):
        with mistakes:
            words = shlex.split(capture.parse_script(target).command)
            for name in masked_options(words):
                mistakes.note(
                    f"{name} of the script's command is not in the run, as it is a secret: validate takes the whole command by "
                    "--target 'python …'; a script that reads it from its environment needs none"
                )
