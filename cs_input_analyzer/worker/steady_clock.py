"""Count seconds since the epoch evenly, even if somebody sets the host's clock.

TensorFlow stamps batches by the host's clock. A time server, an administrator or a waking virtual machine may set it.
"""

from __future__ import annotations

import math
import time

import numpy as np
import numpy.typing as npt

# A time server steps a clock that is off by more than a tenth of a second. Else it turns it, by less than 0.0005 a second.
LEAST_JUMP_S = 0.05
# A reading of both clocks is repeated where the kernel took the CPU away between them.
_READINGS, _CLOSE_S = 5, 1e-4
_EPOCH_S = time.time() - time.monotonic()


def now_s() -> float:
    """Return the time on the steady clock."""
    return time.monotonic() + _EPOCH_S


def ahead_s() -> float:
    """Return the seconds by which the host's clock is ahead of this one."""
    closest_s, found_s = math.inf, 0.0
    for _ in range(_READINGS):
        began_s, host_s, ended_s = now_s(), time.time(), now_s()
        if ended_s - began_s < closest_s:
            closest_s, found_s = ended_s - began_s, host_s - (began_s + ended_s) / 2
        if closest_s < _CLOSE_S:
            break
    return found_s


class SteadyStamps:
    """Put stamps of the host's clock on the steady clock. Locate each jump of the clock among the stamps."""

    def __init__(self) -> None:
        self._seen_s = ahead_s()
        self._taken_off_s = self._seen_s if abs(self._seen_s) >= LEAST_JUMP_S else 0.0
        self._last_s = now_s() + self._seen_s

    def steady(self, stamps_s: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the stamps that came since the last call, in their order, on the steady clock."""
        before_s, seen_s = self._taken_off_s, ahead_s()
        jump_s, self._seen_s = seen_s - self._seen_s, seen_s
        has_jumped = abs(jump_s) >= LEAST_JUMP_S
        if has_jumped:
            self._taken_off_s = before_s + jump_s
        if not len(stamps_s):
            self._last_s = now_s() + seen_s if has_jumped else self._last_s
            return stamps_s
        if not has_jumped:
            self._last_s = float(stamps_s[-1])
            return stamps_s - before_s
        place = _place_of(jump_s, np.diff(stamps_s, prepend=self._last_s))
        self._last_s = float(stamps_s[-1]) + (jump_s if place == len(stamps_s) else 0.0)
        return np.concatenate([stamps_s[:place] - before_s, stamps_s[place:] - self._taken_off_s])


def _place_of(jump_s: float, gaps_s: npt.NDArray[np.float64]) -> int:
    """Return the index of the first stamp after a jump of the clock; the number of stamps if no gap shows it."""
    place = int(np.argmax(gaps_s) if jump_s > 0 else np.argmin(gaps_s))
    is_seen = gaps_s[place] >= jump_s - LEAST_JUMP_S if jump_s > 0 else gaps_s[place] < 0
    return place if is_seen else len(gaps_s)
