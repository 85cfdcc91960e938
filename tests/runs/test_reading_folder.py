"""Files and folders: what is found, what is left aside, and what is refused."""

from __future__ import annotations

import gzip
import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.runs.inspection import inspect_run
from cs_input_analyzer.runs.log_file import LogFile
from tests.runs import logs

REPORT = """Estimated Overall Performance
-------------------------------
Samples/s:                    640.0
Compute Samples/s:            640.0
Transmission Samples/s:       900.0
Active PEs:                   93%
Compute Utilization:          80%
+-------------+-----------+-------------------+------------------------+------------+---------------------+
| Kernel Name | Samples/s | Compute Samples/s | Transmission Samples/s | Active PEs | Compute Utilization |
+-------------+-----------+-------------------+------------------------+------------+---------------------+
| fc1         | 640.0     | 640.0             | 900.0                  | 1200       | 80%                 |
+-------------+-----------+-------------------+------------------------+------------+---------------------+
"""


def age(path: Path, seconds: float) -> None:
    now = path.stat().st_mtime
    os.utime(path, (now - seconds, now - seconds))


def test_a_model_dir_gives_all_of_a_run(tmp_path: Path) -> None:
    logs.write(tmp_path / "cerebras_logs" / "run.log", logs.smoothed_log([2.0] * 30))
    logs.write(tmp_path / "performance" / "performance.json", [json.dumps({"compile_time": 60.0})])
    logs.write(tmp_path / "tfcs_12" / "compile_report.txt", REPORT.splitlines())
    (tmp_path / "checkpoint_200.mdl").write_bytes(b"\0" * 1000)
    found = inspect_run(tmp_path)
    assert {source.kind for source in found.sources} == {"console log", "performance.json", "compile report"}
    assert found.rates.estimated_samples_per_s == 640.0
    assert found.rates.batch_size == 64
    assert found.evidence["reached_ratio"] == pytest.approx(0.5, rel=0.01)
    assert [span.phase for span in found.timeline] == ["compile", "train"]


def test_the_newest_of_several_logs_counts_and_the_others_are_named(tmp_path: Path) -> None:
    older = logs.write(tmp_path / "run_1.log", logs.smoothed_log([20.0] * 30))
    logs.write(tmp_path / "run_2.log", logs.smoothed_log([2.0] * 30))
    logs.write(tmp_path / "make.log", ["nothing of ours"])
    age(older, 600)
    found = inspect_run(tmp_path)
    assert [source.path for source in found.sources] == [str(tmp_path / "run_2.log")]
    assert any(str(older) in note for note in found.notes)


@pytest.mark.parametrize("name", ["train.o4711", "train.e4711", "slurm-4711.out", "train.log.1.gz"])
def test_a_log_is_known_by_the_names_that_schedulers_give(name: str, tmp_path: Path) -> None:
    lines = "".join(f"{line}\n" for line in logs.smoothed_log([20.0] * 9)).encode()
    (tmp_path / name).write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)
    assert inspect_run(tmp_path).rates.batch_size == 64


def test_a_newer_text_that_holds_no_run_hides_no_log(tmp_path: Path) -> None:
    log = logs.write(tmp_path / "run.log", logs.smoothed_log([20.0] * 30))
    logs.write(tmp_path / "notes.txt", ["training is on node 3"])
    age(log, 600)
    found = inspect_run(tmp_path)
    assert found.rates.batch_size == 64
    assert {source.path: bool(source.note) for source in found.sources} == {
        str(tmp_path / "notes.txt"): True,
        str(log): False,
    }


def test_a_newer_file_of_other_json_lines_hides_no_run(tmp_path: Path) -> None:
    log = logs.write(tmp_path / "run.log", logs.smoothed_log([20.0] * 30))
    logs.write(tmp_path / "samples.jsonl", [json.dumps({"text": "a sample"})])
    age(log, 2 * 86_400)
    assert inspect_run(tmp_path).rates.batch_size == 64


def test_what_is_a_day_older_is_of_another_run(tmp_path: Path) -> None:
    old = logs.write(tmp_path / "performance.json", [json.dumps({"samples_per_sec": 5.0, "suspected_input_bottleneck": "true"})])
    logs.write(tmp_path / "run.log", logs.smoothed_log([2.0] * 30))
    age(old, 2 * 86_400)
    found = inspect_run(tmp_path)
    assert found.rates.average_samples_per_s is None
    assert "suspected_input_bottleneck" not in found.evidence
    assert any(str(old) in note for note in found.notes)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("performance.json", "{"),
        ("performance.json", '{"samples_per_sec": NaN}'),
        ("performance.json", '{"something": 1}'),
        ("empty.log", ""),
        ("steps.jsonl", "{}\n"),
        ("events.out.tfevents.1.host", "not events at all"),
        ("binary.log", "\0\1\2" * 1000),
    ],
)
def test_a_file_that_holds_no_run_is_refused_by_name(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match=name):
        inspect_run(tmp_path / name)


def test_a_bad_document_in_a_folder_does_not_hide_the_rest(tmp_path: Path) -> None:
    (tmp_path / "performance.json").write_text('{"samples_per_sec": "fast"}')
    logs.write(tmp_path / "run.log", logs.smoothed_log([2.0] * 30))
    found = inspect_run(tmp_path)
    assert found.rates.batch_size == 64
    assert any(source.kind == "performance.json" and "not used" in source.note for source in found.sources)


def test_nothing_there_is_refused_with_what_was_looked_for(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", Path("/dev/zero")):
        with pytest.raises(UsageError) as error:
            inspect_run(path)
        assert str(path) in str(error.value)
    with pytest.raises(UsageError, match=r"performance\.json"):
        inspect_run(tmp_path)


def test_a_folder_that_links_to_itself_ends(tmp_path: Path) -> None:
    logs.write(tmp_path / "run.log", logs.smoothed_log([2.0] * 30))
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "lost.log").symlink_to(tmp_path / "not there")
    assert inspect_run(tmp_path).rates.batch_size == 64


STEP = {"event": "step", "steps": 1, "samples": 8, "wait_s": 0.0, "step_s": 0.1, "phase": "steady"}


@pytest.mark.parametrize(
    ("name", "kind", "lines"),
    [
        ("other.json", "performance.json", [json.dumps({"samples_per_sec": 5.0})]),
        ("other.jsonl", "step journal", [json.dumps(STEP | {"step": step, "at_s": 0.1 * step}) for step in range(1, 9)]),
        ("my_compile_report_7.txt", "compile report", REPORT.splitlines()),
        ("other", "console log", logs.smoothed_log([2.0] * 5)),
    ],
)
def test_a_file_that_is_named_is_known_by_its_name(name: str, kind: str, lines: list[str], tmp_path: Path) -> None:
    found = inspect_run(logs.write(tmp_path / name, lines))
    (source,) = found.sources
    assert (source.kind, source.note) == (kind, "")
    if kind == "compile report":  # says what is expected, and no more
        assert (found.verdict, found.rates.estimated_samples_per_s) == ("unknown", 640.0)
        assert (found.rates.steady_samples_per_s, found.change.input_factor) == (None, None)


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = "".join(f"{line}\n" for line in logs.smoothed_log([2.0] * 30))
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    found = inspect_run(pipe)
    writer.join()
    assert found.rates.batch_size == 64


@given(
    st.lists(st.sampled_from((b"ab", b"cd", b"bb", b"x", b"GlobalRate=1", b"\n", b"\r", b"\r\n", b"\n\n")), max_size=60),
    st.integers(1, 50),
)
def test_every_line_worth_parsing_comes_once_and_in_order_whatever_the_blocks(parts: list[bytes], size: int) -> None:
    data, pattern = b"".join(parts), re.compile(b"ab|GlobalRate=|bb")

    class Blocks(LogFile):
        def blocks(self) -> Iterator[bytes]:
            yield from (data[place : place + size] for place in range(0, len(data), size))

    assert list(Blocks(Path("run.log")).lines(pattern)) == [line for line in re.split(rb"[\r\n]+", data) if pattern.search(line)]
