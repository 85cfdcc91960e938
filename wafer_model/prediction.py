"""The prediction of one execution mode: one record for both modes, ready for a table or JSON."""

from __future__ import annotations

from dataclasses import dataclass

from wafer_model.estimate import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """A bound: no rate above `samples_per_s` is possible as long as `name` is what it is."""

    name: str
    samples_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRow:
    """One line of the table: a kernel of the pipelined mode, a block of weight streaming.

    Attributes:
        samples_per_s: of this row alone.
        compute_samples_per_s: what arithmetic alone would allow.
        transmission_samples_per_s: what moving activations (pipelined) or weights (weight streaming) alone would allow; None of a
            block without weights.
        cores: allocated (pipelined); None if the whole wafer works on every block.
        step_s: time per optimizer step, all micro-batches, forward and backward (weight streaming).
    """

    name: str
    samples_per_s: float
    compute_samples_per_s: float
    transmission_samples_per_s: float | None
    cores: int | None = None
    step_s: float | None = None
    limited_by: str


def limits_of(**samples_per_s: float) -> tuple[RateLimit, ...]:
    """Return the bounds by their names, smallest first."""
    found = (RateLimit(name=name, samples_per_s=rate) for name, rate in samples_per_s.items())
    return tuple(sorted(found, key=lambda limit: limit.samples_per_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How a network runs in one mode.

    Attributes:
        limited_by: the term that decides: `compute`, `transmission`, `ingress`, `weights`, `latency`.
        limiting_row: the kernel that decides (pipelined), the slowest block (weight streaming).
        limits: all bounds, smallest first; the estimate is below each.
        active_core_ratio: share of the usable cores that work; 1 in weight streaming.
        fill_steps: step at which every stage is busy (pipelined); None in weight streaming. `fill_s`: time until then.
        micro_batches, micro_batch_size: per system and step.
        memory_bytes: on-wafer memory of one system.
    """

    limited_by: str
    limiting_row: str
    limits: tuple[RateLimit, ...]
    rows: tuple[KernelRow, ...]
    active_core_ratio: float = 1.0
    fill_steps: int | None = None
    fill_s: float = 0.0
    micro_batches: int = 1
    micro_batch_size: int
    memory_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WaferPrediction(Execution):
    """The rate that the wafer can take.

    Attributes:
        samples_per_s: of all systems together, with its 90 % interval.
        sample_bytes: one sample on the wire, whose traffic into all systems is `ingress_bytes_per_s`.
        calibrated: whether a measured point of the user replaced the fitted efficiency.
        notes: assumptions a reader should know, one sentence each.
        beyond_fit: how network and system lie outside of what was fitted, one sentence each; the interval is wider for it.
    """

    network: str
    system: str
    mode: str
    dtype: str
    batch_size: int
    systems: int
    samples_per_s: Estimate
    step_s: float
    parameters: int
    training_flops: float
    sample_bytes: int
    ingress_bytes_per_s: float
    calibrated: bool
    notes: tuple[str, ...]
    sequence_length: int | None = None
    beyond_fit: tuple[str, ...] = ()
