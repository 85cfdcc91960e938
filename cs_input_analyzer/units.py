"""The one place where numbers become text and text becomes numbers; and where text of others is made safe to show.

Everything inside the program is in SI base units (seconds, bytes, samples per second) as floats or ints. Memory is shown in binary
units (GiB = 2^30), because that is how it is sold and how Slurm counts it; bandwidth in decimal ones (GB/s = 10^9 B/s), as
network and storage vendors state it. Parsing takes both, and refuses what could mean either.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Sequence

from cs_input_analyzer.errors import UsageError
from wafer_model import Estimate
from wafer_model.foreign import LONGEST_NUMBER

MISSING = "-"

_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_BINARY = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_NUMBER = r"\s*(?P<number>[-+]?(?:nan|inf|(?:[0-9][0-9,_]*\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?))\s*"
_SIZE = re.compile(_NUMBER + r"(?:(?P<prefix>[kKmMgGtTpP])(?P<binary>i?))?(?P<unit>[bB]|[bB]ytes?)?\s*")
_RATE = re.compile(_NUMBER + r"(?:(?:(?P<prefix>[kKMGTP])(?P<binary>i?))?(?P<unit>B|bytes?|b|bits?)(?:/s|ps|/sec)\s*)?")
_PER_S = re.compile(_NUMBER + r"(?P<prefix>[kKMG]?)\s*(?:samples)?\s*(?:/s|/sec)?\s*")
_DURATION = re.compile(_NUMBER + r"(?P<unit>ms|us|µs|μs|s|sec|seconds?|min|minutes?|h|)\s*")
_THOUSANDS = re.compile(r"[-+]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?")
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "min": 60.0, "h": 3600.0}
# Letters of a text that is no number, in a message.
SHOWN = 200
# Names that a sentence has room for; a table, or the JSON, has all.
NAMES_SHOWN = 4
# Terminal control (C0, DEL, C1), line separators that only some readers break at, text direction overrides, half surrogates.
# Tab and newline are not in it.
INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
# A bare number below these is one whose unit was forgotten: no node has so little memory, no link or file system is so slow.
_LEAST_BARE_BYTES = 2**20
_LEAST_BARE_BYTES_PER_S = 1e6
_ESTIMATE = re.compile(_NUMBER + r"[xX×]?\s*(?:(?:\+-|\+/-|±)\s*(?P<percent>[0-9]+(?:\.[0-9]*)?)\s*%)?\s*")


LINE = 100
"""Characters of a `repr` at most."""


def in_a_line(text: str) -> str:
    """Return a `repr`: the text in angle brackets, in one line of at most `LINE` characters."""
    text = visible(" ".join(text.split()))
    return f"<{text}>" if len(text) <= LINE - 2 else f"<{text[: LINE - 3]}…>"


def parse_per_s(text: str | float) -> float:
    """Return samples per second from what a user writes: `7000`, `7,000`, `7k`, `1.5M`, `7000/s`, `7k samples/s`.

    Raises:
        UsageError: not such a number. Whether one can be a rate is for others to say.
    """
    value, match = _read(_PER_S, text, "not a number of samples per second", "7000, 7,000 or 7k")
    return value * _DECIMAL[match["prefix"].lower()]


def parse_seconds(text: str | float) -> float:
    """Return seconds from what a user writes: `0.16`, `0.16s`, `160ms`, `2min`, `1h`.

    The caller checks the limits.

    Raises:
        UsageError: not a number of seconds.
    """
    value, match = _read(_DURATION, text, "not a number of seconds", "0.16, 160ms or 2min")
    unit = match["unit"] or "s"
    return value * _SECONDS["s" if unit.startswith("sec") else "min" if unit.startswith("min") else unit]


def _read(pattern: re.Pattern[str], text: str | float, what: str, examples: str) -> tuple[float, re.Match[str]]:
    """Return the number, `7000`, `7,000` or `1e3`, and what else the pattern found; a comma may only stand before three digits."""
    written = str(text)
    # To try a pattern takes the square of the digits, and the cube of spaces in a row.
    match = pattern.fullmatch(" ".join(written.split())) if len(written) <= LONGEST_NUMBER else None
    if match is not None:
        number = match["number"]
        with contextlib.suppress(ValueError):
            return float(number.replace(",", "") if _THOUSANDS.fullmatch(number) else number), match
    shown = text if len(written) <= SHOWN else f"{written[:SHOWN]}…"
    raise UsageError(f"{what}: {shown!r}; write for example {examples}")


def parse_bytes(text: str | int | float) -> int:
    """Return bytes from a user's text: `128GiB` (2^30), `128GB` (10^9), `1.5TiB`, or a million or more without a unit.

    Raises:
        UsageError: not a size, not positive, a bare `128`, or a bare `128G`, which means 10^9 to some tools and 2^30 to Slurm.
    """
    value, match = _read(_SIZE, text, "not a size", "128GiB (2^30 bytes) or 128GB (10^9 bytes)")
    if match["prefix"] and not match["unit"]:
        raise UsageError(f"{text!r} could mean powers of 1000 or of 1024; write for example 128GB (10^9) or 128GiB (2^30 bytes)")
    size = _positive(text, value * _factor(match))
    if size < 1:
        raise UsageError(f"a size must be at least one byte, got {text!r}")
    if not match["unit"] and size < _LEAST_BARE_BYTES:
        raise UsageError(f"{text} without a unit is that many bytes; write for example {text}GiB")
    return round(size)


def parse_bytes_per_s(text: str | int | float) -> float:
    """Return bytes per second from `5GB/s`, `800MiB/s`, or a link speed in bits (`100Gb/s`, `100Gbit/s`, `100Gbps`).

    A number without a unit is in B/s. The case of `B` distinguishes bytes from bits, as on every network card's box.

    Raises:
        UsageError: not a bandwidth, not positive, or a bare number of less than a million.
    """
    value, match = _read(_RATE, text, "not a bandwidth", "5GB/s (bytes) or 100Gb/s (bits)")
    rate = _positive(text, value * _factor(match))
    if not match["unit"] and rate < _LEAST_BARE_BYTES_PER_S:
        raise UsageError(f"{text} without a unit is that many bytes per second; write for example {text}GB/s or {text}Gb/s")
    return rate / 8 if match["unit"] in ("b", "bit", "bits") else rate


def _factor(match: re.Match[str]) -> int:
    """Return the factor of a unit's prefix; 1 without a prefix."""
    return (_BINARY if match["binary"] else _DECIMAL)[(match["prefix"] or "").lower()]


def parse_estimate(text: str | float) -> Estimate:
    """Return a positive number with the half-width of its 90 % interval, if that is known: `1.2`, `1.2x`, `1.2+-5%`, `1.2±5%`.

    Raises:
        UsageError: not such a number, or an interval that reaches down to zero.
    """
    value, match = _read(_ESTIMATE, text, "not a number", "1.2, or 1.2+-5% where its error is known")
    value = _positive(text, value)
    half = 0.0 if match["percent"] is None else float(match["percent"]) / 100
    if half >= 1:
        raise UsageError(f"the interval of {text!r} reaches down to zero: less than 100 % is needed")
    return Estimate(estimate=value, low=value * (1 - half), high=value * (1 + half))


def format_count(count: float | None) -> str:
    """Return `1,234,567`."""
    return MISSING if count is None or not math.isfinite(count) else f"{count:,.0f}"


def counted(count: int, noun: str) -> str:
    """Return `1 node`, `1,024 nodes`."""
    return f"{format_count(count)} {noun}{'' if count == 1 else 's'}"


def several(names: Sequence[str]) -> str:
    """Return the first ones, and how many more there are."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {format_count(more)} more" if more > 0 else "")


def visible(text: str) -> str:
    """Return text that cannot act on a terminal or hide: control characters become escapes, as Python writes them.

    Newlines stay.
    """
    return INVISIBLE.sub(lambda match: ascii(match[0])[1:-1], text.replace("\r\n", "\n").expandtabs(4))


def format_rate(per_s: float | None, unit: str = "samples/s") -> str:
    """Return `12,346 samples/s`, `85.2 samples/s`: whole numbers from 1000 up, three digits below."""
    return MISSING if per_s is None or not math.isfinite(per_s) else f"{_digits(per_s)} {unit}"


def format_rate_short(per_s: float | None) -> str:
    """Return `1,234`, `13.98k`, `1.611M`: four digits, for columns that hold an interval beside its estimate."""
    if per_s is None or not math.isfinite(per_s):
        return MISSING
    scale, letter = 1.0, ""
    # 9,999.5 rounds to five digits.
    for step in ("k", "M", "G", "T"):
        if abs(per_s) / scale < (9_999.5 if scale == 1.0 else 999.95):
            break
        scale, letter = scale * 1000, step
    if letter == "":
        return _digits(per_s)
    return f"{per_s / scale:#.4g}{letter}"


def format_seconds(seconds: float | None) -> str:
    """Return `535 µs`, `3.2 ms`, `4.1 s`, `2 min 05 s`, `1 h 02 min`."""
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    size = abs(seconds)
    if size >= 3600:
        minutes = round(seconds / 60)
        return f"{minutes // 60:,} h {minutes % 60:02d} min"
    if size >= 119.5:
        whole = round(seconds)
        return f"{whole // 60} min {whole % 60:02d} s"
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if size >= factor:
            return f"{_digits(seconds / factor)} {unit}"
    if 0 < size < 1e-12:
        return "< 0.001 ns"
    return "0 s" if seconds == 0 else f"{_digits(seconds / 1e-9)} ns"


def format_bytes(size: float | None) -> str:
    """Return `512 B`, `1.5 KiB`, `128 GiB`: binary units, as for memory."""
    return _scaled(size, 1024.0, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


def format_bytes_per_s(bytes_per_s: float | None) -> str:
    """Return `753 MB/s`, `5 GB/s`: decimal units, as for links and file systems."""
    return _scaled(bytes_per_s, 1000.0, ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"))


def format_ratio(ratio: float | None) -> str:
    """Return `12.3 %`. Only an exact 0 or 1 is shown as 0 % or 100 %."""
    if ratio is None or not math.isfinite(ratio):
        return MISSING
    percent = ratio * 100
    text = f"{percent:.1f}"
    if text in ("0.0", "-0.0") and percent != 0:
        return "< 0.1 %" if percent > 0 else "> -0.1 %"
    if text == "100.0" and percent != 100:
        return "> 99.9 %" if percent < 100 else "100.1 %"
    return f"{text.removesuffix('.0')} %"


def format_estimate(value: Estimate | None, form: Callable[[float | None], str] = format_rate) -> str:
    """Return `1,234 samples/s (1,200 to 1,270)`: the estimate with its 90 % interval; no interval if the number is exact."""
    if value is None:
        return MISSING
    whole = form(value.estimate)
    if value.low == value.high:
        return whole
    low, high = form(value.low), form(value.high)
    if whole == low == high and whole.startswith(("<", ">")):  # `> 99.9 %` says as much of both ends
        return whole
    (low_number, low_unit), (high_number, high_unit) = map(_parted, (low, high))
    if low_unit == high_unit == _parted(whole)[1]:
        return f"{whole} ({low_number} to {high_number})"
    return f"{whole} ({low} to {high})"


def _parted(text: str) -> tuple[str, str]:
    """Return the number of a text with the `<` or `>` before it, and its unit."""
    sign, space, rest = text.partition(" ") if text.startswith(("<", ">")) else ("", "", text)
    number, _, unit = rest.partition(" ")
    return f"{sign}{space}{number}", unit


def _positive(text: object, value: float) -> float:
    if not math.isfinite(value) or value <= 0:
        raise UsageError(f"must be a positive, finite number, got {text!r}")
    return value


def _digits(value: float) -> str:
    """Return three significant digits, or all digits before the point if there are more."""
    if value == 0:
        return "0"
    if abs(value) >= 999.5:
        return f"{value:,.0f}"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _scaled(value: float | None, base: float, units: tuple[str, ...]) -> str:
    if value is None or not math.isfinite(value):
        return MISSING
    step = 0
    # 999.5 and not the base: _digits would print 1,000 where the next unit reads better.
    while step < len(units) - 1 and abs(value) / base**step >= (999.5 if base == 1000.0 else base):
        step += 1
    return f"{_digits(value / base**step)} {units[step]}"
