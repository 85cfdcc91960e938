"""Units: what users type means what they think, and what they read is what was measured."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer import units
from cs_input_analyzer.errors import UsageError
from wafer_model import Estimate

READ: dict[Callable[[str], float], dict[str | float, float]] = {
    units.parse_bytes: {
        "128GiB": 128 * 2**30,
        "128 GB": 128 * 10**9,
        "128gb": 128 * 10**9,
        "1.5TiB": 3 * 2**39,
        " 512 MiB ": 2**29,
        "1e9": 10**9,
        "1_048_576": 2**20,
        "4294967296": 2**32,
        "4096B": 4096,
        2**32: 2**32,
        ".5kB": 500,
        "2PiB": 2**51,
    },
    units.parse_bytes_per_s: {
        "5GB/s": 5e9,
        "800MiB/s": 800 * 2**20,
        "100Gb/s": 12.5e9,
        "100Gbit/s": 12.5e9,
        "100Gbps": 12.5e9,
        "5 kB/s": 5e3,
        "2.5e9": 2.5e9,
        2.5e9: 2.5e9,
    },
    units.parse_per_s: {
        "7000": 7e3,
        "7,000": 7e3,
        "7k": 7e3,
        " 7 k ": 7e3,
        "1.5M": 1.5e6,
        "7k/s": 7e3,
        "7000 samples/s": 7e3,
        7: 7.0,
    },
    units.parse_seconds: {
        "0.16": 0.16,
        "0.16s": 0.16,
        "160ms": 0.16,
        "160 ms": 0.16,
        "20µs": 2e-5,
        "2min": 120.0,
        "1h": 3600.0,
        60: 60.0,
    },
}
REFUSED: dict[Callable[[str], float], tuple[str | None, tuple[str | float, ...]]] = {
    units.parse_bytes: (
        None,
        (
            *("", "GiB", "-1GiB", "0", "0GB", "nan", "inf", "1e999", "1e300GiB", "128G", "128Gi", "12iB", "1 2GB", "128 GB/s"),
            *("0.1B", "1..5GB", "٣GB", "a lot", "128", 131072),  # the last: of a cluster file in GiB, as Slurm has it in MiB
        ),
    ),
    units.parse_bytes_per_s: (
        None,
        ("", "5GB", "5 gb/s", "-5GB/s", "0GB/s", "nan", "-1", "0", "1e300PB/s", "5G/s", "iB/s", "5iB/s", "fast", "100"),
    ),
    units.parse_per_s: ("7,000 or 7k", ("", "k", "7,00", "7,5", "7m", "7 apples", "7k/h", "0x10", "seven")),
    units.parse_seconds: ("160ms or 2min", ("", "s", "3 days", "0,16", "2m", "5s5", "soon")),
}


@pytest.mark.parametrize("parse", READ, ids=lambda parse: parse.__name__)
def test_what_people_write_means_what_the_unit_says(parse: Callable[[str | float], float]) -> None:
    for text, value in READ[parse].items():
        assert parse(text) == pytest.approx(value, rel=1e-12), text


@pytest.mark.parametrize("parse", REFUSED, ids=lambda parse: parse.__name__)
def test_what_is_no_such_number_or_could_mean_two_is_refused(parse: Callable[[str | float], float]) -> None:
    message, texts = REFUSED[parse]
    for text in texts:
        with pytest.raises(UsageError, match=message):
            parse(text)


@given(st.one_of(st.floats(), st.integers(-(10**400), 10**400)))
def test_every_number_is_read_as_python_does(number: float) -> None:
    """Whether one can be a rate or a time is asked elsewhere, where the option is known."""
    for parse in (units.parse_per_s, units.parse_seconds):
        assert str(parse(str(number))) == str(float(str(number)))


SHOWN = {
    units.format_seconds: (
        *((None, "-"), (0.0, "0 s"), (8e-22, "< 0.001 ns"), (4.2e-10, "0.42 ns"), (535e-6, "535 µs"), (3.2e-3, "3.2 ms")),
        *((4.1, "4.1 s"), (119.4, "119 s"), (119.6, "2 min 00 s"), (125, "2 min 05 s"), (3720, "1 h 02 min")),
    ),
    units.format_bytes: (
        *((None, "-"), (0, "0 B"), (512, "512 B"), (1536, "1.5 KiB"), (128 * 2**30, "128 GiB"), (2**60, "1,024 PiB")),
    ),
    units.format_bytes_per_s: ((None, "-"), (5e9, "5 GB/s"), (999_700.0, "1 MB/s")),
    # a share never rounds to nothing or all
    units.format_ratio: (
        *((None, "-"), (0.0, "0 %"), (1.0, "100 %"), (0.123, "12.3 %"), (-0.5, "-50 %")),
        *((0.00001, "< 0.1 %"), (-0.00001, "> -0.1 %"), (0.9999, "> 99.9 %"), (1.0001, "100.1 %")),
    ),
    # three digits, or all before the point
    units.format_rate: ((None, "-"), (12345.6, "12,346 samples/s"), (85.24, "85.2 samples/s"), (999.7, "1,000 samples/s")),
    units.format_count: ((None, "-"), (1234567, "1,234,567")),
}


@pytest.mark.parametrize("form", SHOWN, ids=lambda form: form.__name__)
def test_numbers_take_the_unit_that_reads_best(form: Callable[[float | None], str]) -> None:
    for value, text in SHOWN[form]:
        assert form(value) == text


@pytest.mark.parametrize("form", SHOWN, ids=lambda form: form.__name__)
@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_what_is_no_number_is_missing(form: Callable[[float | None], str], number: float) -> None:
    """An edited file may hold numbers whose difference is not finite."""
    assert form(number) == "-"


def test_an_estimate_shows_its_interval_and_an_exact_number_none() -> None:
    assert units.format_estimate(Estimate(estimate=1234, low=1200, high=1270)) == "1,234 samples/s (1,200 to 1,270)"
    assert units.format_estimate(Estimate.exact(7000)) == "7,000 samples/s"
    assert units.format_estimate(Estimate(estimate=2, low=0.5, high=3), units.format_seconds) == "2 s (500 ms to 3 s)"
    assert units.format_estimate(None) == "-"


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((0.9999, 0.9996, 1.0), "> 99.9 % (> 99.9 to 100)"),
        ((0.9999, 0.9996, 0.9999), "> 99.9 %"),
        ((0.99, 0.9, 0.9999), "99 % (90 to > 99.9)"),
        ((0.0001, 0.00001, 0.2), "< 0.1 % (< 0.1 to 20)"),
        ((-0.0001, -0.1, 0.0001), "> -0.1 % (-10 to < 0.1)"),
    ],
)
def test_a_sign_before_a_number_is_part_of_it(ends: tuple[float, float, float], text: str) -> None:
    middle, low, high = ends
    assert units.format_estimate(Estimate(estimate=middle, low=low, high=high), units.format_ratio) == text


@given(st.integers(min_value=1, max_value=2**50))
def test_bytes_survive_writing_and_reading(size: int) -> None:
    assert units.parse_bytes(f"{size}B") == size
    assert units.parse_bytes(f"{size}KiB") == size * 1024
    assert math.isclose(units.parse_bytes(units.format_bytes(size).replace(",", "")), size, rel_tol=0.006)


@given(st.floats(min_value=1e-9, max_value=1e12))
def test_a_printed_rate_is_within_half_a_percent(rate: float) -> None:
    assert math.isclose(float(units.format_rate(rate).split()[0].replace(",", "")), rate, rel_tol=0.0051)


@given(st.text("0123456789_.,+-eEkMGTPiBbits /s\u0663", max_size=12))
def test_any_text_is_a_positive_size_or_a_usage_error(text: str) -> None:
    try:
        size = units.parse_bytes(text)
    except UsageError:
        assert not re.fullmatch(r"[1-9]\d{0,9}(GiB|GB|B)|[1-9]\d{6,9}", text, re.ASCII) or int(text) < 2**20
    else:
        assert size >= 1
