"""The few constants of the model that no data sheet gives, read from `constants.yaml`, where each has its meaning and its source.

They were fitted by `wafer_model.calibration` on public runs; `python -m benchmarks.wafer_accuracy --refit` writes the file again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from wafer_model.errors import WaferModelError

MODES = ("pipelined", "weight_streaming")
OWN_FILE = Path(__file__).with_name("constants.yaml")
LATEST = "latest"
# A two-sided 90 % interval of a normal error reaches this many standard deviations each way.
Z90 = 1.6448536269514722
# Standard deviations of logarithms that are added where no run was fitted. For networks the interval so reaches to about a tenth
# and ten times: our judgement, as nobody knows. (What public runs of such networks reached, held back by their input or not, lies
# between 0.04 and 1.08 of the model.) A system is as far from the reference as the prior of the fit lets it be.
UNKNOWN_NETWORK = math.log(10) / Z90
UNKNOWN_SYSTEM = 0.25
NEAR_SIZE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """What the fitted runs of a mode cover: kinds of networks, systems, parameters of the smallest and the largest network."""

    kinds: tuple[str, ...]
    systems: tuple[str, ...]
    parameters: tuple[int, int]

    def beyond(self, mode: str, kind: str, parameters: int, system: str) -> tuple[tuple[str, float], ...]:
        """Each way in which a network on a system is not covered, in words, and the standard deviation of the logarithm that it
        adds."""
        found: list[tuple[str, float]] = []
        runs = f"no public {mode.replace('_', ' ')} run"
        smallest, largest = self.parameters
        if kind not in self.kinds:
            article = "an" if kind[0] in "aeiou" else "a"
            found.append((f"{runs} of {article} {kind} network could be fitted", UNKNOWN_NETWORK))
        elif not smallest / NEAR_SIZE <= parameters <= largest * NEAR_SIZE:
            size = "small" if parameters < smallest else "large"
            found.append((f"{runs} of a network so {size} could be fitted", UNKNOWN_NETWORK))
        if system not in self.systems:
            found.append((f"{runs} on a {system} could be fitted: its efficiency is taken for that of a CS-2", UNKNOWN_SYSTEM))
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Of one mode.

    Attributes:
        efficiency: share of the dense peak that working cores reach.
        layer_latency_s: time per streamed block and pass that nothing hides (weight streaming).
        usable_share: share of the usable fabric that a placement reaches (pipelined).
        port_elements_per_s: activations that one kernel can take in, or give out, per second (pipelined).
        system_factor: by system, what its efficiency is above or below (an unsourced peak ends up here too); 1 where not fitted.
        release_factor: by major release, the same; `latest` is 1.
        log_sigma: standard deviation of ln(model / published) on networks that were left out of the fit.
        calibrated_log_sigma: the same after one measured point of the same network, system and mode.
        domain: what they were fitted on.
    """

    mode: str
    efficiency: float
    layer_latency_s: float = 0.0
    usable_share: float = 1.0
    port_elements_per_s: float = math.inf
    system_factor: Mapping[str, float]
    release_factor: Mapping[str, float]
    log_sigma: float
    calibrated_log_sigma: float
    domain: Domain

    def efficiency_on(self, system: str, release: str = LATEST) -> float:
        """Efficiency on a system under a release, `latest` or as `1.7.1`. Unknown ones count as the latest."""
        return self.efficiency * self.system_factor.get(system, 1.0) * self.release_factor.get(release.split(".")[0], 1.0)

    def interval_factor(self, *, calibrated: bool = False, beyond: tuple[tuple[str, float], ...] = ()) -> float:
        """The 90 % interval is estimate / factor to estimate x factor. `beyond`: how the network is outside of the domain."""
        if calibrated:
            return math.exp(Z90 * self.calibrated_log_sigma)
        return math.exp(Z90 * math.hypot(self.log_sigma, *(sigma for _, sigma in beyond)))


@cache
def own_constants() -> Mapping[str, Constants]:
    """By mode."""
    import yaml

    document = yaml.safe_load(OWN_FILE.read_text(encoding="utf-8"))
    return {mode: _constants(mode, **document[mode]) for mode in MODES}


def constants_of(mode: str) -> Constants:
    """Raises WaferModelError: unknown mode."""
    if mode not in MODES:
        raise WaferModelError(f"unknown mode {mode!r}: one of {', '.join(MODES)}")
    return own_constants()[mode]


def _constants(mode: str, fitted: Mapping[str, Any], **numbers: Any) -> Constants:
    return Constants(mode=mode, domain=Domain(**{name: tuple(covered) for name, covered in fitted.items()}), **numbers)
