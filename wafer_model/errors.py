"""Errors in the input of the user."""

from __future__ import annotations

# No size of a network or a batch comes near it, and products of a dozen such sizes are still floats.
MOST_COUNT = 10**15


class WaferModelError(ValueError):
    """An invalid demand, network, system, mode or report."""


class DoesNotFitError(WaferModelError):
    """The network needs more on-wafer memory or more cores than the system has in this mode."""


def check_count(what: str, value: object) -> None:
    """Raise WaferModelError if `value` (anything that YAML gives) is not a positive whole number, or absurd."""
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise WaferModelError(f"{what} must be a positive whole number, got {value!r}")
    if value > MOST_COUNT:
        raise WaferModelError(f"{what} must be at most {MOST_COUNT:,}: more is a typing error")
