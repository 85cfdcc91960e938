"""The few constants of the model that no data sheet gives, each with its meaning and its source.

They were fitted in November 2026 on the rows of published.yaml whose bound is `compute` or `estimate`, as docs/wafer_model.md says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from wafer_model.errors import WaferModelError

MODES = ("pipelined", "weight_streaming")
# A two-sided 90 % interval of a normal error reaches this many standard deviations each way.
Z90 = 1.6448536269514722
# Standard deviations of logarithms that are added where no run was fitted. For networks the interval so reaches to about a tenth
# and ten times the estimate: our judgement. Public runs of such networks, held back by their input or not, reached 0.04 to 1.08 of
# the model. A system is as far from the reference as the prior of the fit lets it be.
UNKNOWN_NETWORK = math.log(10) / Z90
UNKNOWN_SYSTEM = 0.25
NEAR_SIZE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The range of the fitted runs of a mode: kinds of networks, systems, parameters of the smallest and the largest network."""

    kinds: tuple[str, ...]
    systems: tuple[str, ...]
    parameters: tuple[int, int]

    def beyond(self, mode: str, kind: str, parameters: int, system: str) -> tuple[tuple[str, float], ...]:
        """Return each way in which a network on a system is not covered: in words, and the standard deviation that it adds."""
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
    """The constants of one mode.

    Attributes:
        efficiency: share of the dense peak that working cores reach.
        layer_latency_s: time per streamed block and pass that nothing hides (weight streaming).
        usable_share: share of the usable fabric that a placement reaches (pipelined).
        port_elements_per_s: activations that one kernel can take in, or give out, per second (pipelined).
        system_factor: by system, how far its efficiency is above or below; 1 where not fitted. It also holds the error of the peak.
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
    log_sigma: float
    calibrated_log_sigma: float
    domain: Domain

    def efficiency_on(self, system: str) -> float:
        """Return the efficiency on a system."""
        return self.efficiency * self.system_factor.get(system, 1.0)

    def interval_factor(self, *, calibrated: bool = False, beyond: tuple[tuple[str, float], ...] = ()) -> float:
        """Return the factor by which the 90 % interval reaches below and above. `beyond`: as `Domain.beyond` gives it."""
        if calibrated:
            return math.exp(Z90 * self.calibrated_log_sigma)
        return math.exp(Z90 * math.hypot(self.log_sigma, *(sigma for _, sigma in beyond)))


PIPELINED = Constants(
    mode="pipelined",
    efficiency=0.28351,
    # Not fitted: 92 % active PEs in the fullest public compile report, and the ports of its attention kernels.
    usable_share=0.92,
    port_elements_per_s=1.64e9,
    system_factor={},
    log_sigma=0.1547,
    calibrated_log_sigma=0.03,
    domain=Domain(kinds=("transformer",), systems=("CS-1", "CS-2"), parameters=(124_439_808, 336_226_108)),
)
WEIGHT_STREAMING = Constants(
    mode="weight_streaming",
    efficiency=0.21304,  # of releases 2.x; those before reached 0.77 of it
    layer_latency_s=0.0025016,
    system_factor={"CS-3": 1.1382},
    log_sigma=0.2558,
    calibrated_log_sigma=0.03,
    domain=Domain(kinds=("transformer",), systems=("CS-2", "CS-3"), parameters=(33_269_313, 8_030_261_248)),
)


def constants_of(mode: str) -> Constants:
    """Return the fitted constants. Raise WaferModelError: unknown mode."""
    for constants in (PIPELINED, WEIGHT_STREAMING):
        if constants.mode == mode:
            return constants
    raise WaferModelError(f"unknown mode {mode!r}: one of {', '.join(MODES)}")
