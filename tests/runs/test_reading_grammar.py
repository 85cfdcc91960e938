"""One line of text in, at most one `Line` out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.runs.grammar import WORTH_PARSING, Line, parse_line
from tests.runs import logs

RATES = st.integers(0, 10**11).map(lambda value: value / 100)
STEPS = st.integers(0, 10**15)
TAILS = st.sampled_from(
    ("", "\x1b[0m", ", LoopTimeRemaining=0:06:42, TimeRemaining>0:06:42", ", LoopTimeRemaining=1:20:41, TimeRemaining=1:20:41")
)
DEVICES = st.sampled_from(("CSX", "xla:0", "cpu", "наш", "w 1"))
LOSSES = st.sampled_from(("9.46875", "nan", "inf", "-1e-05"))
RANKS = st.sampled_from(
    (
        ("", None),
        ("\x1b[32m", None),
        ("3: ", "3"),
        ("[1,12]<stdout>: ", "12"),
        ("[rank 5] ", "5"),
        ("worker-7 | ", "7"),
        (" 0: ", "0"),
    )
)


def parsed(text: str) -> Line:
    line = parse_line(text.encode())
    assert line is not None, text
    return line


@given(STEPS, RATES, RATES, TAILS, DEVICES, LOSSES, RANKS, st.integers(0, 10**8))
def test_a_train_line_reads_back(
    step: int, rate: float, whole: float, tail: str, device: str, loss: str, rank: tuple[str, str | None], at: int
) -> None:
    line = parsed(rank[0] + logs.train_line(logs.stamp(at / 1000), step, rate, whole, loss=loss, device=device, tail=tail))
    assert line == Line("step", line.t_s, 0.001, rank[1], device, step, rate, whole)
    assert line.t_s - parsed(logs.train_line(logs.stamp(0), 1, 1, 1)).t_s == pytest.approx(at / 1000, abs=1e-4)


@given(RATES.map(lambda rate: rate + 0.01), RATES, STEPS)
def test_other_lines_with_numbers_read_back(rate: float, whole: float, step: int) -> None:
    estimator = f"INFO:tensorflow:global step {step}: loss = 2.3671875 ({rate} steps/sec)"
    assert parsed(estimator) == Line("step", step=step, steps_per_s=rate)
    streamer = f"| Streamer Step=100, Rate=9.00 steps/sec, GlobalRate={whole} steps/sec"
    assert parsed(streamer) == Line("streamer", steps_per_s=whole)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Saving dict for global step 1000: accuracy = 0.97, global_step = 1000, loss = 0.08", "evaluation"),
        ("global_step = 1000, loss = 0.08 (1.5 sec)", "step"),
        ("global step 1000: loss = 0.08 (51.3 steps/sec)", "step"),
    ],
)
def test_results_of_an_evaluation_are_no_training_step(text: str, kind: str) -> None:
    for prefix in ("INFO:tensorflow:", "2: "):
        line = parsed(prefix + text)
        assert (line.step, line.kind) == (1000, kind)


@given(st.integers(0, 10**15), st.integers(1, 10**10).map(lambda value: value / 1000))
def test_an_end_reads_back(samples: int, seconds: float) -> None:
    for text, rate in (
        (f"INFO:tensorflow:Training finished with {samples} samples in {seconds} seconds, 12.5 samples/second.", 12.5),
        (f"INFO:tensorflow:Training finished with {samples} samples in {seconds} seconds, 12.5 samples / second", 12.5),
        (f"INFO:root:Training complete. Completed {samples} sample(s) in {seconds} seconds", None),
        (f"2023 INFO:   Training Complete. Completed {samples} sample(s) in {seconds} seconds.", None),
        (f"2023 INFO:   Training completed successfully! Processed {samples} sample(s) in {seconds} seconds.", None),
        (f"2023 INFO:   Processed {samples} training sample(s) in {seconds} seconds.", None),
    ):
        line = parsed(text)
        expected = Line("finished", samples=samples, duration_s=seconds, rate=rate, includes_start="Processed" in text)
        assert line._replace(rank=None) == expected


@pytest.mark.parametrize(
    ("text", "phase", "edge", "step", "seconds"),
    [
        ("Compile was successful!", "compile", "end", None, None),
        ("About to send initial weights", "weights", "begin", None, None),
        ("Finished sending initial weights", "weights", "end", None, None),
        ("Completed weight initialization on CPU in: 41.5 seconds", "weights", "end", None, 41.5),
        ("Loading CPU pre-initialized weights took 12 seconds", "weights", "end", None, 12.0),
        ("| Streamer IteratorCreationTime=3.25 seconds", "priming", "end", None, 3.25),
        ("INFO:tensorflow:Programming CS-1 fabric. This may take a couple of minutes", "programming", "begin", None, None),
        ("Programming Cerebras Wafer Scale Cluster for execution.", "programming", "begin", None, None),
        ("Waiting for device programming to complete", "programming", "begin", None, None),
        ("Device programming is complete", "programming", "end", None, None),
        ("INFO:tensorflow:Fabric programmed", "programming", "end", None, None),
        ("Waiting for 6 streamer(s) to prime the data pipeline", "priming", "begin", None, None),
        ("Waiting for input workers to prime the data pipeline and begin streaming ...", "priming", "begin", None, None),
        ("Streamers are ready", "priming", "end", None, None),
        ("Input workers have begun streaming input data", "priming", "end", None, None),
        ("Beginning appliance run", "train", "begin", None, None),
        ("Saving checkpoint at step 200", "checkpoint", "begin", 200, None),
        ("Saving checkpoint at global step 1000", "checkpoint", "begin", 1000, None),
        ("INFO:root:Taking final checkpoint at step: 500", "checkpoint", "begin", 500, None),
        ("INFO:tensorflow:Saving checkpoints for 100000 into run/model.ckpt.", "checkpoint", "begin", 100000, None),
        ("Saved checkpoint at global step: 1000", "checkpoint", "end", 1000, None),
        ("Saved checkpoint for global step 500 in 304.37 seconds: run/model.ckpt-500", "checkpoint", "end", 500, 304.37),
        ("Saved checkpoint run/checkpoint_200.mdl", "checkpoint", "end", None, None),
    ],
)
def test_a_phase_is_known(text: str, phase: str, edge: str, step: int | None, seconds: float | None) -> None:
    for line in (text, f"2024-03-01 12:00:00,500 INFO:   {text}", f"2: {text}"):
        found = parsed(line)
        assert (found.phase, found.kind, found.step, found.duration_s) == (phase, edge, step, seconds)
        assert WORTH_PARSING.search(line.encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Saving checkpoint: 100%|██████| 1321/1321 [00:09<00:00, 146.24 tensors/s]",
        "Compiled cluster using XLA!  This line is logged at most once for the lifetime of the process.",
        "Rate=5.00 samples/sec, GlobalRate=7.00 samples/sec",
        "| Streamer Step=100, Rate=5.00 steps/sec, GlobalRate=5.0",
        "| Train Device=CSX, Step=10, Loss=1, Rate=5.0 samp",
        "| Train Device=CSX, Step=10, Loss=1, Rate=NaN samples/sec, GlobalRate=7.00 samples/sec",
        "the rate was 5 samples/sec",
        "| Train Device=CSX, Step=ten, Loss=1, Rate=5.0 samples/sec, GlobalRate=5.0 samples/sec",
        "| Train Device=CSX, Step=10, Loss=1, Rate=5.0 samples/sec, GlobalRate=5.",
        "INFO:tensorflow:global step 100: loss = 0.5 (1400.41 steps/se",
        "INFO:root:Training complete. Completed 1024000 sample(s) in 160.7",
    ],
)
def test_other_lines_are_nothing(text: str) -> None:
    assert parse_line(text.encode()) is None


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "-5.00"])
def test_a_rate_that_cannot_be_is_missing(number: str) -> None:
    line = parsed(f"| Train Device=CSX, Step=10, Loss=1, Rate={number} samples/sec, GlobalRate=7.00 samples/sec")
    assert (line.rate, line.global_rate) == (None, 7.0)


@pytest.mark.parametrize(
    "at", ["2023-13-01 10:00:00,000", "2023-02-30 10:00:00", "2023-02-20 25:00:00,1", "0000-01-01 10:00:00", ""]
)
def test_a_stamp_that_no_calendar_has_is_missing(at: str) -> None:
    assert parsed(logs.train_line(at, 10, 5, 5)).t_s is None


@given(st.binary(max_size=60), st.binary(max_size=60), st.sampled_from((b"", *WORTH_PARSING.pattern.split(b"|"))))
def test_no_bytes_around_a_needle_raise(before: bytes, after: bytes, needle: bytes) -> None:
    parse_line(before + needle + after)


@given(st.integers(0, 140), st.text(max_size=40))
def test_a_line_cut_short_with_another_behind_it_gives_the_other(cut: int, between: str) -> None:
    whole = logs.train_line(logs.stamp(9), 200, 8.25, 8.5)
    rest = logs.train_line(logs.stamp(1), 100, 7.25, 7.5)[:cut]
    line = parsed(rest + whole)
    assert (line.kind, line.step, line.rate, line.global_rate) == ("step", 200, 8.25, 8.5)
