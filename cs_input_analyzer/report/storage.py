"""The file system under the pipeline, worded."""

from __future__ import annotations

from cs_input_analyzer.records import Analysis, Storage
from cs_input_analyzer.report.tables import Column, Table
from cs_input_analyzer.report.wording import Facts, one_line
from cs_input_analyzer.units import format_bytes, format_bytes_per_s, format_count, format_estimate, format_ratio, format_seconds

# From here on the rates are those of memory; below the other one, those of storage; between them, of a mixture.
MOSTLY_CACHED = 0.9
HARDLY_CACHED = 0.1

CACHE_WORDS = {"warm": "cached", "cold": "cold", "as-is": "as found"}


def storage_facts(analysis: Analysis) -> Facts:
    """What the files lie on, and whether the rates are those of the storage or of the page cache."""
    storage = analysis.storage
    if storage is None:
        return ()
    facts = [
        ("directory", storage.directory),
        ("file system", _file_system(storage)),
        ("dataset", format_bytes(storage.dataset_bytes)),
    ]
    if storage.cached_ratio is not None:
        facts.append(("page cache", f"held {format_ratio(storage.cached_ratio)} of it before measuring{_consequence(storage)}"))
    if storage.evicted is not None:
        facts.append(("eviction", _eviction(storage)))
    if storage.source_samples_per_s is not None:
        alone = format_estimate(storage.source_samples_per_s)
        facts.append(("readers alone", f"{alone} in one worker: nothing behind the readers can make that worker faster"))
    return tuple((label, one_line(text)) for label, text in facts)


def _file_system(storage: Storage) -> str:
    reach = {True: "shared over the network", False: "local to this host", None: "whether it is shared is unknown"}
    return f"{storage.file_system or 'of unknown type'}, {reach[storage.is_shared]}"


def _consequence(storage: Storage) -> str:
    """What the cache did to the rates. Nothing where it was emptied before them, or hardly held anything."""
    ratio = storage.cached_ratio or 0.0
    if storage.evicted or ratio < HARDLY_CACHED:
        return ""
    whose = "those of cached data" if ratio >= MOSTLY_CACHED else "of partly cached data"
    # Who asked for a cold run and did not get one needs no advice to ask for it.
    advice = "; --cache cold measures the others" if storage.evicted is None else ""
    return f": the rates of this report are {whose}{advice}"


def _eviction(storage: Storage) -> str:
    if not storage.evicted:
        return "FAILED: --cache cold could not empty this host's cache of these files: the measured rates are not cold ones"
    servers = "; that of the file server is out of reach" if storage.is_shared else ""
    return f"--cache cold emptied this host's cache of these files{servers}"


def reads_table(storage: Storage) -> Table:
    """The raw probe: the pipeline's own files, read without TensorFlow."""
    columns = (
        Column(name="streams", meaning="readers at the same time", is_number=True),
        Column(name="bandwidth", meaning="of all streams together", is_number=True),
        Column(name="latency", meaning="median time of a single read", is_number=True),
        Column(name="read size", meaning="bytes of a single read", is_number=True),
        Column(name="cache", meaning="cold: dropped from this host's page cache first; as found: left as it was"),
    )
    rows = tuple(
        (
            format_count(read.streams),
            format_bytes_per_s(read.bytes_per_s),
            format_seconds(read.latency_s),
            format_bytes(read.read_bytes),
            CACHE_WORDS[read.cache_state],
        )
        for read in storage.reads
    )
    return Table(title="Storage", columns=columns, rows=rows)
