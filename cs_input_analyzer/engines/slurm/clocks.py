"""Estimates how far the clock of another machine is ahead of ours, from exchanged messages. Pure.

Cristian, "Probabilistic clock synchronization" (Distributed Computing 3, 1989): the answer was written between the moments at which
we asked and heard, so the offset is known to half the round trip; of several exchanges the quickest says most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Asked and heard on our clock, answered on the other's; seconds."""

    asked_s: float
    answered_s: float
    heard_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """The other clock minus ours; the truth is within `error_s` of it."""

    ahead_s: float
    error_s: float


def offset_of(exchanges: Iterable[Exchange]) -> Offset | None:
    """From the quickest exchange; None without any."""
    best = min(exchanges, key=lambda exchange: exchange.heard_s - exchange.asked_s, default=None)
    if best is None:
        return None
    trip_s = max(0.0, best.heard_s - best.asked_s)
    return Offset(ahead_s=best.answered_s - (best.asked_s + best.heard_s) / 2, error_s=trip_s / 2)


def offsets_of_nodes(nodes: Sequence[str], offsets: Sequence[Offset | None]) -> tuple[Offset | None, ...]:
    """For each task, what is known best of the clock of its node: tasks of one node share it."""
    best: dict[str, Offset] = {}
    for node, offset in zip(nodes, offsets, strict=True):
        if offset is not None and (node not in best or offset.error_s < best[node].error_s):
            best[node] = offset
    return tuple(best.get(node) for node in nodes)


def skew_s(starts_s: Sequence[float]) -> float | None:
    """How far apart the first and the last of several starts are; None for fewer than two."""
    return max(starts_s) - min(starts_s) if len(starts_s) > 1 else None
