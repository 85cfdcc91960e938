"""Facts by which a reader trusts the numbers or not: the tail, the memory, the storage, the window, the noise, the budget."""

from __future__ import annotations

import dataclasses

from cs_input_analyzer.records import (
    CACHED_RATIO,
    Analysis,
    Capture,
    Estimate,
    Measurement,
    Noise,
    Options,
    Profile,
    SteadyState,
    Storage,
    UserFiles,
)
from cs_input_analyzer.report.document import Table, number, table_of, text
from cs_input_analyzer.report.wording import AS_MEASURED, Pairs, one_line, pairs, shown_measurement
from cs_input_analyzer.report.workers import longest_tail
from cs_input_analyzer.units import (
    MISSING,
    counted,
    format_bytes,
    format_bytes_per_s,
    format_count,
    format_estimate,
    format_ratio,
    format_seconds,
    several,
)

STOP_REASONS = {
    "precision": "stopped when the interval was tight enough",
    "budget": "stopped by the time budget",
    "data_end": "stopped because the data ended",
    "error": "stopped by an error in the data",
}
# Below this share of cached files the rates are those of storage; from `CACHED_RATIO` on, of memory; between them, of a mixture.
HARDLY_CACHED = 0.1
USER_FILES: dict[UserFiles, str] = {
    "private copies": "as they were: the code ran on private copies",
    "read-only": "as they were: they were read-only while the code ran, as this kernel allows no private copies",
    "own files": "the code ran on them: its writes were real",
}
READERS_ALONE = "nothing behind the readers makes it faster"
CACHE_WORDS = {"warm": "cached", "cold": "cold", "as-is": "as found"}


def pipeline_facts(analysis: Analysis) -> Pairs:
    """Return the facts of the pipeline and its files."""
    pipeline, files, size = analysis.pipeline, analysis.pipeline.files, ""
    moved, missing = ", ".join(pipeline.redirected), ", ".join(pipeline.stand_ins)
    if analysis.capture is not None:  # the facts of a script name them
        missing = ""
    if files is not None:
        each = f"{format_bytes(files.smallest_bytes)} to {format_bytes(files.largest_bytes)} each"
        where = f", in {files.directory}" if files.directory else ""
        size = f"{format_count(files.count)}, {format_bytes(files.bytes)} in all, {each}{where}"
    return pairs(
        (
            ("target", pipeline.target),
            ("element", ", ".join(map(str, pipeline.element_spec)) or MISSING),
            ("batch size", "varies" if pipeline.batch_size is None else format_count(pipeline.batch_size)),
            ("files", size),
            ("redirected", moved and f"{moved}: moved to a private folder while measuring"),
            ("your files", pipeline.user_files and USER_FILES[pipeline.user_files]),
            ("replaced by stubs", missing and f"{missing}: not installed; no data come from there"),
            ("notes", "; ".join(pipeline.notes)),
        )
    )


def storage_facts(storage: Storage | None) -> Pairs:
    """Return on what the files lie, and whether the rates are those of the storage or of the page cache."""
    if storage is None:
        return ()
    reach = {True: "shared over the network", False: "local to this host", None: "whether it is shared is unknown"}
    held, alone, cached, eviction = storage.cached_ratio, storage.source_samples_per_s, "", ""
    if held is not None:
        cached = f"held {format_ratio(held)} of it before measuring"
    if held is not None and held >= HARDLY_CACHED and not storage.evicted:
        whose = "those of cached data" if held >= CACHED_RATIO else "of partly cached data"
        # Who asked for a cold run and did not get one needs no advice to ask for it.
        advice = "; --cache cold measures the others" if storage.evicted is None else ""
        cached += f": the rates of this report are {whose}{advice}"
    if storage.evicted:
        servers = "; that of the file server is out of reach" if storage.is_shared else ""
        eviction = f"--cache cold emptied this host's cache of these files{servers}"
    elif storage.evicted is False:
        eviction = "FAILED: --cache cold could not empty this host's cache of these files: the measured rates are not cold ones"
    readers = "" if alone is None else f"{format_estimate(alone)} in one worker, {AS_MEASURED}: {READERS_ALONE}"
    return pairs(
        (
            ("directory", storage.directory),
            ("file system", f"{storage.file_system or 'of unknown type'}, {reach[storage.is_shared]}"),
            ("dataset", format_bytes(storage.dataset_bytes)),
            ("page cache", cached),
            ("eviction", eviction),
            ("readers alone", readers),
        )
    )


def reads_table(storage: Storage) -> Table:
    """Return the measured bandwidths of the storage."""
    columns = (
        number("streams", "readers at the same time of the pipeline's own files, without TensorFlow", "streams"),
        number("bandwidth", "of all streams together", "bytes_per_s", format_bytes_per_s),
        number("latency", "median time of a single read", "latency_s", format_seconds),
        number("read size", "bytes of a single read", "read_bytes", format_bytes),
        text("cache", "cold: dropped from the page cache first; as found: left as it was", "cache_state", form=CACHE_WORDS.get),
    )
    return table_of("Storage", columns, storage.reads)


def measured_facts(analysis: Analysis) -> Pairs:
    """Return the longest tail of the batch gaps, the memory of the worker that holds most, and the processes of a worker."""
    shown, facts = shown_measurement(analysis), []
    if shown is None:
        return ()
    tail = longest_tail(shown)
    if tail is not None:
        gap, slow = tail
        names = {"p50": gap.p50, "p95": gap.p95, "p99": gap.p99, "max": gap.max}
        said = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in names.items())
        facts.append(("batch gaps", f"{said} ({_whose(slow.index, shown, 'longest tail')}); a wafer stalls on the tail"))
    holding = [(worker.private_bytes or worker.pss_bytes or worker.peak_rss_bytes or 0, worker) for worker in shown.workers]
    held, large = max(holding, key=lambda pair: pair[0], default=(0, None))
    if large is not None and held:
        sizes = (large.private_bytes, large.pss_bytes, large.peak_rss_bytes, large.buffered_bytes)
        named = zip(("private", "PSS", "peak RSS", "in buffers"), sizes, strict=True)
        said = ", ".join(f"{name} {format_bytes(size)}" for name, size in named if size is not None)
        facts.append(("memory", f"{said} ({_whose(large.index, shown, 'largest')})"))
    most = max((worker.processes or 1 for worker in shown.workers), default=1)
    if most > 1:
        said = f"{format_count(most)} a worker, with those that the input function started: CPU time, bytes and memory are of all"
        facts.append(("processes", said))
    return pairs(facts)


def _whose(index: int, measurement: Measurement, why: str) -> str:
    if len(measurement.workers) == 1:
        return f"the worker of {measurement.layout}"
    return f"worker {index} of {measurement.layout}, the {why}"


def measuring_facts(analysis: Analysis) -> Pairs:
    """Return how the run was measured: host, budget, noise."""
    host, parent, shown, budget = analysis.host, analysis.parent, shown_measurement(analysis), analysis.budget
    tensorflow = f"TensorFlow {host.tensorflow_version or 'unknown'}, Python {host.python_version}"
    cpus = f"{format_count(host.cpu_budget)} of {format_count(host.cpus)} CPUs ({host.cpu_budget_source})"
    model = f", {host.cpu_model}" if host.cpu_model else ""
    facts: list[tuple[str, str | None]] = [
        ("host", f"{host.hostname}{model}, {cpus}, {format_bytes(host.memory_bytes)}, {tensorflow}")
    ]
    if parent is not None:
        saved = f", {parent.path}" if parent.path is not None else ""
        said = f"from the run of {parent.created_at}{saved}, which measured; nothing was measured for this one"
        facts.append(("planned again", said))
    facts.append(("script", None if analysis.capture is None else _script(analysis.capture)))
    if shown is not None and shown.steady_state is not None:
        facts.append(("steady state", f"{shown.layout}: {_steady_state(shown.steady_state)}"))
        if shown.steady_state.moved:
            changed = (
                f"WARNING: changed {several(shown.steady_state.moved)} inside the window, so the rate may not be the final one"
            )
            facts.append(("AUTOTUNE", f"{changed}; give it more --max-seconds"))
        if (gap_s := shown.steady_state.epoch_gap_s) is not None:
            facts.append(("epoch gap", f"{format_seconds(gap_s)} from the last batch of a pass to the first of the next"))
    facts.append(("costs of ops", _costs(analysis.profile)))
    facts.append(("noise", _noise(shown.noise) if shown is not None and shown.noise is not None else None))
    facts.append(("validated", _earlier_errors(analysis)))
    spent = {"warm-up": budget.transient_s, "probes": budget.probes_s, "storage": budget.storage_s, "fixes": budget.fixes_s}
    parts = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in spent.items() if seconds)
    measured = f"{format_seconds(max(0.0, budget.total_s - budget.import_s))} of {format_seconds(analysis.options.max_seconds)}"
    before = f"before that, {format_seconds(budget.import_s)} to import and to build"
    facts.append(("budget", f"{measured}{f': {parts}' if parts else ''}; {before}"))
    left_out = "all the rest" if analysis.interrupted or budget.cut_short else "nothing was left out"
    return pairs((*facts, ("not measured", ", ".join(budget.not_measured) or left_out), ("left out", "; ".join(analysis.left_out))))


def _script(capture: Capture) -> str:
    places = {one.number: f"{one.call} at {one.source}" for one in capture.candidates}
    where = ", ".join([f"capture {capture.picked}", *filter(None, [places.pop(capture.picked, "")])])
    others = ", ".join(f"{number} {place}" for number, place in places.items())
    parts = [f"{capture.command} was run up to {where}; the training never ran"]
    if capture.runs is not None:
        parts.append(
            f"it ran up to there at least {counted(capture.runs, 'time')}: a tracker that it starts has as many runs; --no-network "
            "runs it without a network"
        )
    parts += [f"--capture takes another: {others}"] if others else []
    if capture.stand_ins:
        parts.append(f"not installed, so a stand-in took its place: {', '.join(capture.stand_ins)}")
    return "; ".join([*parts, *capture.notes])


def _earlier_errors(analysis: Analysis) -> str | None:
    """Return what the errors of earlier predictions add to the intervals. Return None if none was validated."""
    errors, model = analysis.host.site_errors, analysis.capacity
    if not errors or model is None:
        return None
    rates, spread = counted(len(errors), "rate"), format_ratio(model.run_spread_ratio)
    kept = "kept in prediction_errors.json of the cache folder"
    return f"{rates} of `validate` on such hosts, {kept}: their errors add a spread of {spread} to each interval"


def _steady_state(state: SteadyState) -> str:
    return (
        f"warm-up of {format_seconds(state.transient_s)} ({format_count(state.transient_batches)} batches) cut by MSER-5, then "
        f"{format_count(state.batches)} batches in {format_seconds(state.window_s)}, {format_count(state.blocks)} blocks; "
        f"{STOP_REASONS[state.stopped_by]}"
    )


def _costs(profile: Profile | None) -> str:
    """Say where the costs of ops come from, and how much of the time it took to read them."""
    if profile is None or profile.poll_count is None:
        return ""
    parts = any(row.told_apart_cpu_s_per_sample for row in profile.ops)
    beside = "; what they do not show comes from parts of the pipeline that ran alone" if parts else ""
    taken = f", {format_ratio(profile.poll_time_ratio)} of the time" if profile.poll_time_ratio is not None else ""
    return f"{counted(profile.poll_count, 'snapshot')} of the running pipeline{taken}{beside}"


def _noise(noise: Noise) -> str:
    """Return what disturbed the workers, as far as it is known."""
    parts = {
        "threads waited for a CPU {} of the time they ran": noise.run_queue_wait_ratio,
        "the hypervisor took {}": noise.steal_ratio,
        "other programs used {} of the worker's CPUs": noise.others_ratio,
    }
    known = [sentence.format(format_ratio(ratio)) for sentence, ratio in parts.items() if ratio is not None]
    return "; ".join(known) or MISSING


def options_facts(options: Options) -> Pairs:
    """Return every choice that is not the default, by its name in `Options`."""
    chosen = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    defaults = {field.name: field.default for field in dataclasses.fields(options)}
    return tuple((name, one_line(_text(value))) for name, value in chosen.items() if value != defaults[name])


def _text(value: object) -> str:
    if isinstance(value, Estimate):
        return format_estimate(value, lambda at: f"{at:.4g}")
    return ", ".join(map(_text, value)) if isinstance(value, tuple) else str(value)
