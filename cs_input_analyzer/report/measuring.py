"""What a reader needs to trust the numbers, or not to: the tail, the memory, the window, the noise, the budget."""

from __future__ import annotations

from cs_input_analyzer.records import (
    Analysis,
    Capture,
    ContentionPoint,
    Decomposition,
    Host,
    Measurement,
    Noise,
    SteadyState,
    WorkerResult,
)
from cs_input_analyzer.report.wording import Facts, confirming_measurement, one_line
from cs_input_analyzer.units import MISSING, counted, format_bytes, format_count, format_ratio, format_seconds

STOP_REASONS = {
    "precision": "stopped when the interval was tight enough",
    "budget": "stopped by the time budget",
    "data_end": "stopped because the data ended",
    "error": "stopped by an error in the data",
}

# Parameters that are named in a sentence; more are counted.
PARAMETERS_NAMED = 4


def shown_measurement(analysis: Analysis) -> Measurement | None:
    """The run that the plan rests on, else the last lone worker that delivered, else the last run that did."""
    confirming = confirming_measurement(analysis)
    if confirming is not None:
        return confirming
    delivered = [m for m in analysis.measurements if m.samples_per_s is not None and m.role == "probe"]
    shown = [measurement for measurement in delivered if len(measurement.workers) == 1] or delivered
    return shown[-1] if shown else None


# --- beside the measurements -------------------------------------------------------------------------------------------------


def measured_facts(analysis: Analysis) -> Facts:
    """What the time of a sample is made of, the tail of the batch gaps, the memory, what neighbours on the host cost."""
    facts = []
    if analysis.decomposition is not None:
        facts.append(("sample time", _decomposition(analysis.decomposition)))
    shown = shown_measurement(analysis)
    if shown is not None:
        facts += [("batch gaps", _batch_gaps(shown)), ("memory", _memory(shown, analysis))]
    if analysis.capacity is not None:
        facts.append(("contention", "; ".join(_contention(point) for point in analysis.capacity.contention)))
    return tuple((label, one_line(text)) for label, text in facts if text)


def _decomposition(parts: Decomposition) -> str:
    shares = {
        "hand-over": parts.consumer_ratio,
        "preparation": parts.prep_ratio,
        "fetch bandwidth": parts.fetch_ratio,
        "fetch latency": parts.latency_ratio,
    }
    text = ", ".join(f"{name} {format_ratio(ratio)}" for name, ratio in shares.items() if ratio is not None)
    return text if parts.fetch_ratio is not None else f"{text}; reading cold was not measured"


def _contention(point: ContentionPoint) -> str:
    kept = point.kept_ratio
    interval = f"{format_ratio(kept.low)} to {format_ratio(kept.high)}"
    who = f"{format_count(point.tasks)} workers of {counted(point.cpus, 'CPU')} together"
    return f"{who} keep {format_ratio(kept.estimate)} ({interval}) of the rate that each has alone"


def _batch_gaps(measurement: Measurement) -> str:
    """Of the worker with the longest tail."""
    gaps = [(worker.batch_gap_s, worker) for worker in measurement.workers if worker.batch_gap_s is not None]
    if not gaps:
        return ""
    gap, worker = max(gaps, key=lambda pair: pair[0].p99)
    quantiles = {"p50": gap.p50, "p95": gap.p95, "p99": gap.p99, "max": gap.max}
    text = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in quantiles.items())
    return f"{text} ({_whose(worker, measurement, 'longest tail')}); a wafer stalls on the tail"


def _memory(measurement: Measurement, analysis: Analysis) -> str:
    """Of the worker that holds most, and what the plan predicts for a node."""
    holding = [(worker.private_bytes or worker.pss_bytes or worker.peak_rss_bytes or 0, worker) for worker in measurement.workers]
    held, worker = max(holding, key=lambda pair: pair[0], default=(0, None))
    if worker is None or not held:
        return ""
    sizes = {"private": worker.private_bytes, "PSS": worker.pss_bytes, "peak RSS": worker.peak_rss_bytes}
    parts = [f"{name} {format_bytes(size)}" for name, size in sizes.items() if size is not None]
    if worker.buffered_bytes is not None:
        parts.append(f"{format_bytes(worker.buffered_bytes)} in buffers")
    if worker.rss_growth_bytes_per_min is not None:
        parts.append(_growth(worker.rss_growth_bytes_per_min))
    plan = analysis.recommendation
    predicted = plan.memory_bytes_per_node if plan is not None else None
    tail = f"; {format_bytes(predicted)} per node predicted for the plan" if predicted is not None else ""
    return f"{', '.join(parts)} ({_whose(worker, measurement, 'largest')}){tail}"


def _growth(bytes_per_min: float) -> str:
    if bytes_per_min == 0:
        return "not growing"
    return f"{'growing' if bytes_per_min > 0 else 'shrinking'} {format_bytes(abs(bytes_per_min))} a minute"


def _whose(worker: WorkerResult, measurement: Measurement, why: str) -> str:
    if len(measurement.workers) == 1:
        return f"the worker of {measurement.layout}"
    return f"worker {worker.index} of {measurement.layout}, the {why}"


# --- how it was measured -----------------------------------------------------------------------------------------------------


def measuring_facts(analysis: Analysis) -> Facts:
    """Host, window, noise and budget."""
    facts = [("host", _host(analysis.host))]
    if (parent := analysis.parent) is not None:
        saved = f", {parent.path}" if parent.path is not None else ""
        facts.append(
            ("planned again", f"from the run of {parent.created_at}{saved}, which measured; nothing was measured for this one")
        )
    if analysis.capture is not None:
        facts.append(("script", _script(analysis.capture)))
    shown = shown_measurement(analysis)
    if shown is not None and shown.steady_state is not None:
        facts.append(("steady state", f"{shown.layout}: {_steady_state(shown.steady_state)}"))
        facts += _window_facts(shown.steady_state)
    if shown is not None and shown.noise is not None:
        facts.append(("noise", _noise(shown.noise)))
    if analysis.capacity is not None and analysis.capacity.launch_spread_ratio > 0:
        facts.append(("launches", _launches(analysis.capacity.launch_spread_ratio)))
    if analysis.profile is not None and analysis.profile.harness_us_per_batch is not None:
        facts.append(("own cost", f"{format_seconds(analysis.profile.harness_us_per_batch * 1e-6)} a batch for the measuring loop"))
    left_out = "whatever came after the interruption" if analysis.interrupted else "nothing was left out"
    facts += [("budget", _budget(analysis)), ("not measured", ", ".join(analysis.budget.not_measured) or left_out)]
    if analysis.left_out:
        facts.append(("left out", "; ".join(analysis.left_out)))
    return tuple((label, one_line(text)) for label, text in facts)


def _script(capture: Capture) -> str:
    """What was captured of the user's script, and what else there was."""
    taken = [f"{one.call} at {one.source}" for one in capture.candidates if one.number == capture.picked]
    others = [one for one in capture.candidates if one.number != capture.picked]
    where = ", ".join([f"capture {format_count(capture.picked)}", *taken])
    parts = [f"{capture.command} was run up to {where}; the training never ran"]
    if others:
        named = [f"{format_count(one.number)} {one.call} at {one.source}" for one in others]
        parts.append(f"--capture takes another: {', '.join(named)}")
    if capture.stand_ins:
        parts.append(f"not installed, so a stand-in took its place: {', '.join(capture.stand_ins)}")
    return "; ".join([*parts, *capture.notes])


def _host(host: Host) -> str:
    model = f", {host.cpu_model}" if host.cpu_model else ""
    tensorflow = f"TensorFlow {host.tensorflow_version}" if host.tensorflow_version else "TensorFlow unknown"
    budget = f"{format_count(host.cpu_budget)} of {format_count(host.cpus)} CPUs ({host.cpu_budget_source})"
    return f"{host.hostname}{model}, {budget}, {format_bytes(host.memory_bytes)}, {tensorflow}, Python {host.python_version}"


def _steady_state(state: SteadyState) -> str:
    return (
        f"warm-up of {format_seconds(state.transient_s)} ({format_count(state.transient_batches)} batches) cut by MSER-5, then "
        f"{format_count(state.batches)} batches in {format_seconds(state.window_s)}, {format_count(state.blocks)} blocks; "
        f"{STOP_REASONS[state.stopped_by]}"
    )


def _window_facts(state: SteadyState) -> list[tuple[str, str]]:
    """What happened inside the window that an average hides."""
    facts = []
    if state.moved is not None:
        facts.append(("AUTOTUNE", _moved(state.moved)))
    if state.outliers is not None:
        facts.append(("outliers", _outliers(state.outliers)))
    if state.epoch_gap_s is not None:
        facts.append(("epoch gap", f"{format_seconds(state.epoch_gap_s)} from the last batch of a pass to the first of the next"))
    return facts


def _outliers(outliers: int) -> str:
    if outliers == 0:
        return "no batch gap beyond Tukey's far fence"
    return f"{format_count(outliers)} batch {'gap' if outliers == 1 else 'gaps'} beyond Tukey's far fence; kept, not dropped"


def _moved(moved: tuple[str, ...]) -> str:
    if not moved:
        return "changed nothing inside the window"
    named = ", ".join(moved[:PARAMETERS_NAMED])
    more = len(moved) - PARAMETERS_NAMED
    others = f" and {format_count(more)} more" if more > 0 else ""
    return (
        f"WARNING: changed {named}{others} inside the window, so the rate may not be the final one; "
        "more --max-seconds gives it time to settle"
    )


def _noise(noise: Noise) -> str:
    parts = {
        "threads waited for a CPU {} of the time they ran": noise.run_queue_wait_ratio,
        "the hypervisor took {}": noise.steal_ratio,
        "some task of the host waited for one {} of the window (PSI)": noise.pressure_ratio,
        "a fixed loop ran at {} of its speed at the start": noise.reference_ratio,
        "fresh processes differ by {} (standard deviation)": noise.between_processes_ratio,
    }
    known = [sentence.format(format_ratio(ratio)) for sentence, ratio in parts.items() if ratio is not None]
    return "; ".join(known) or MISSING


def _launches(spread_ratio: float) -> str:
    return (
        f"fresh ones of one layout are taken to differ by {format_ratio(spread_ratio)} (standard deviation), by those that were "
        "repeated and by how uneven their windows are; predictions hold it"
    )


def _budget(analysis: Analysis) -> str:
    budget = analysis.budget
    parts = {
        "warm-up": budget.transient_s,
        "probes": budget.probes_s,
        "storage": budget.storage_s,
        "fixes": budget.fixes_s,
    }
    spent = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in parts.items() if seconds)
    measured = f"{format_seconds(max(0.0, budget.total_s - budget.import_s))} of {format_seconds(analysis.options.max_seconds)}"
    return f"{measured}{f': {spent}' if spent else ''}; before that, {format_seconds(budget.import_s)} to import and to build"
