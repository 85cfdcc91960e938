"""What the files lie on: said where it is known, silent where it is not, and plain about whose rates these are."""

from __future__ import annotations

import pytest
from builders import make_analysis, make_bare_analysis, make_read_rate, make_storage
from hostile import HOSTILE
from rendered import to_console, to_html

from cs_input_analyzer.records import Storage
from cs_input_analyzer.report.storage import reads_table, storage_facts
from cs_input_analyzer.report.wording import one_line, visible

ADVICE = "--cache cold measures"


def facts(storage: Storage) -> dict[str, str]:
    return dict(storage_facts(make_analysis(storage=storage)))


def test_a_run_without_storage_has_no_section() -> None:
    assert "Storage ─" in to_console(make_analysis())
    assert 'id="storage"' in to_html(make_analysis())
    for analysis in (make_analysis(storage=None), make_bare_analysis()):
        assert storage_facts(analysis) == ()
        assert "Storage ─" not in to_console(analysis)
        assert 'id="storage"' not in to_html(analysis)
        assert "#storage" not in to_html(analysis)


def test_the_console_and_the_page_say_the_same() -> None:
    console, page = " ".join(to_console(make_analysis(), width=400).split()), " ".join(to_html(make_analysis()).split())
    for _, text in storage_facts(make_analysis()):
        assert text in console
        assert text in page
    for row in reads_table(make_storage()).rows:
        assert " ".join(row) in console


def test_only_the_known_is_said() -> None:
    sparse = make_storage(file_system=None, is_shared=None, cached_ratio=None, evicted=None, reads=(), source_samples_per_s=None)
    assert facts(sparse) == {
        "directory": "/data/imagenet/train",
        "file system": "of unknown type, whether it is shared is unknown",
        "dataset": "140 GiB",
    }
    part = to_console(make_analysis(storage=sparse)).split("Storage ─")[1].split("Pipeline ─")[0]
    assert "None" not in part
    assert "bandwidth" not in part


@pytest.mark.parametrize(("is_shared", "said"), [(True, "over the network"), (False, "local to this host")])
def test_whether_it_is_shared(is_shared: bool, said: str) -> None:
    assert said in facts(make_storage(is_shared=is_shared))["file system"]


def test_cached_rates_are_called_cached_and_the_way_out_is_named() -> None:
    text = facts(make_storage(cached_ratio=0.97))["page cache"]
    assert "held 97 %" in text
    assert "those of cached data" in text
    assert ADVICE in text


def test_half_a_cache_makes_a_mixture() -> None:
    text = facts(make_storage(cached_ratio=0.5))["page cache"]
    assert "partly cached" in text
    assert ADVICE in text


@pytest.mark.parametrize(("ratio", "evicted"), [(0.0, None), (0.05, None), (0.97, True)])
def test_rates_that_are_not_cached_are_not_called_so(ratio: float, evicted: bool | None) -> None:
    text = facts(make_storage(cached_ratio=ratio, evicted=evicted))["page cache"]
    assert "cached data" not in text
    assert ADVICE not in text


def test_an_eviction_that_failed_is_told_and_not_advised_again() -> None:
    said = facts(make_storage(evicted=False))
    assert "FAILED" in said["eviction"]
    assert "those of cached data" in said["page cache"]
    assert ADVICE not in said["page cache"]


@pytest.mark.parametrize("is_shared", [True, False, None])
def test_an_eviction_reaches_this_host_only(is_shared: bool | None) -> None:
    said = facts(make_storage(evicted=True, is_shared=is_shared))["eviction"]
    assert "FAILED" not in said
    assert ("file server is out of reach" in said) == (is_shared is True)
    assert "eviction" not in facts(make_storage(evicted=None))


def test_reads_are_told_by_streams_and_cache() -> None:
    reads = (make_read_rate(1, cache_state="cold", latency_s=0.008), make_read_rate(4, cache_state="warm", bytes_per_s=2.5e9))
    assert reads_table(make_storage(reads=reads)).rows == (
        ("1", "380 MB/s", "8 ms", "1 MiB", "cold"),
        ("4", "2.5 GB/s", "2.7 ms", "1 MiB", "cached"),
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_folders_stay_text(name: str) -> None:
    analysis = make_analysis(storage=make_storage(directory=HOSTILE[name], file_system=HOSTILE[name]))
    part = to_console(analysis).split("Storage ─")[1].split("Pipeline ─")[0]
    assert max(len(line) for line in part.split("\n")) <= 80
    assert dict(storage_facts(analysis))["directory"] == one_line(HOSTILE[name])
    page = to_html(analysis).partition('<script type="application/json"')[0]
    assert "<script>alert" not in page
    assert visible(page) == page
