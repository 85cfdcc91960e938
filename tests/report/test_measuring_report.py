"""The tail, the memory and the window of a run: said where measured, silent where not, a warning only where there is a reason."""

from __future__ import annotations

from dataclasses import replace

from builders import make_analysis, make_bare_analysis, make_measurement, make_noise, make_plan, make_steady_state, make_worker

from cs_input_analyzer.records import Analysis, BatchGap, Measurement, Noise
from cs_input_analyzer.report.measuring import measured_facts, measuring_facts, pipeline_facts
from cs_input_analyzer.report.wording import shown_measurement

ALONE = {"recommendation": make_plan(confirmed_by=None)}


def run_with(**measurement: object) -> Analysis:
    return make_analysis(measurements=(make_measurement("1x1x1", **measurement),), **ALONE)


def measured(analysis: Analysis) -> dict[str, str]:
    return dict(measured_facts(analysis))


def window(**fields: object) -> dict[str, str]:
    return dict(measuring_facts(run_with(steady_state=make_steady_state(**fields))))


def noise(value: Noise) -> str:
    return dict(measuring_facts(run_with(noise=value)))["noise"]


def test_the_confirming_run_is_shown_else_the_last_lone_worker() -> None:
    runs = (make_measurement("1x1x1"), make_measurement("1x1x2"), make_measurement("1x4x2"))
    last, lone = runs[2], runs[1]
    assert shown_measurement(make_analysis(measurements=runs, recommendation=make_plan(confirmed_by=2))) == last
    assert shown_measurement(make_analysis(measurements=runs, **ALONE)) == lone
    assert shown_measurement(make_analysis(measurements=(last,), **ALONE)) == last
    lost = make_measurement("1x1x4", (None,))
    for other in (lost, make_measurement("1x1x4", role="validate")):
        assert shown_measurement(make_analysis(measurements=(*runs, other), **ALONE)) == lone
    assert shown_measurement(make_analysis(measurements=(lost,), **ALONE)) is None


def test_nothing_measured_says_nothing() -> None:
    assert measured_facts(make_bare_analysis()) == ()
    labels = {label for label, _ in measuring_facts(make_bare_analysis())}
    assert labels == {"host", "budget", "not measured"}


def workers(*fields: dict[str, object]) -> Measurement:
    return make_measurement(
        f"1x{len(fields)}x1", workers=tuple(make_worker(500.0, index=index, **each) for index, each in enumerate(fields))
    )


def test_the_batch_gaps_are_those_of_the_longest_tail() -> None:
    short, long = BatchGap(p50=0.1, p95=0.2, p99=0.3, max=9.0), BatchGap(p50=0.1, p95=0.2, p99=0.4, max=0.5)
    run = workers({"batch_gap_s": short}, {"batch_gap_s": long}, {"batch_gap_s": None})
    text = measured(make_analysis(measurements=(run,), **ALONE))["batch gaps"]
    assert text.startswith("p50 100 ms, p95 200 ms, p99 400 ms, max 500 ms (worker 1 of 1x3x1, the longest tail)")


def test_the_memory_is_that_of_the_largest_worker() -> None:
    run = workers({"private_bytes": 2**30}, {"private_bytes": 2**31})
    text = measured(make_analysis(measurements=(run,), **ALONE))["memory"]
    for part in ("private 2 GiB", "PSS 1.41 GiB", "peak RSS 1.7 GiB", "in buffers 590 MiB", "worker 1 of"):
        assert part in text
    unread = {"private_bytes": 2**30, "pss_bytes": None, "peak_rss_bytes": None}
    run = workers(unread | {"buffered_bytes": None})
    text = measured(make_analysis(measurements=(run,), recommendation=None, verdict="unknown"))["memory"]
    assert text == "private 1 GiB (the worker of 1x1x1)"
    nothing = workers(unread | {"private_bytes": None})
    assert "memory" not in measured(make_analysis(measurements=(nothing,), **ALONE))


def test_parameters_that_moved_are_a_warning_in_words() -> None:
    text = window(moved=("map.num_parallel_calls", "prefetch.buffer_size"))["AUTOTUNE"]
    assert "WARNING: changed map.num_parallel_calls, prefetch.buffer_size inside the window" in text
    assert "--max-seconds" in text
    assert all("AUTOTUNE" not in window(moved=quiet) for quiet in (None, ()))
    assert "and 6 more" in window(moved=tuple(f"map_{number}.n" for number in range(10)))["AUTOTUNE"]


def test_each_sign_of_noise_is_said_alone() -> None:
    unread = dict.fromkeys(make_noise().__dataclass_fields__)
    signs = {
        "run_queue_wait_ratio": "threads waited for a CPU 12.3 % of the time they ran",
        "steal_ratio": "the hypervisor took 12.3 %",
        "others_ratio": "others had 12.3 % of the worker's CPUs",
    }
    assert {field: noise(Noise(**(unread | {field: 0.123}))) for field in signs} == signs
    assert noise(Noise(**unread)) == "-"


def test_what_was_left_out_and_stood_in_for_is_shown_where_there_is_any() -> None:
    analysis = make_analysis(**ALONE)
    said = ("left out: copy_to_device, data.py:12: it moves batches to a device", "costs of ops need TensorFlow 2.17; this is 2.15")
    pipeline = replace(analysis.pipeline, notes=said, stand_ins=("horovod.tensorflow",))
    shown = dict(pipeline_facts(replace(analysis, pipeline=pipeline, capture=None)))
    assert shown["notes"] == "; ".join(said)
    assert "horovod.tensorflow: not installed" in shown["stood in for"]
    quiet = dict(pipeline_facts(replace(analysis, pipeline=replace(pipeline, notes=(), stand_ins=()), capture=None)))
    assert not {"notes", "stood in for"} & set(quiet)
