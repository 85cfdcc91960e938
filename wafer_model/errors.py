"""What the user did wrong, said so that the user can mend it."""

from __future__ import annotations

# No size of a network or a batch comes near it, and products of a dozen such sizes are still floats.
MOST_COUNT = 10**15


class WaferModelError(ValueError):
    """An input of the demand side that cannot be: a demand, a network, a system, a mode, a report."""


class DoesNotFitError(WaferModelError):
    """The network needs more on-wafer memory or more cores than the system has in this mode."""


def check_count(what: str, value: object) -> None:
    """Raises WaferModelError: not a positive whole number, or an absurd one. Takes anything, for YAML gives anything."""
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise WaferModelError(f"{what} must be a positive whole number, got {value!r}")
    if value > MOST_COUNT:
        raise WaferModelError(f"{what} must be at most {MOST_COUNT:,}: more is a typing error")
