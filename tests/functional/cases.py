"""Runs that are judged one by one: a table of cases, started a few at a time before the first test, as each imports TensorFlow."""

from __future__ import annotations

import functools
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.functional.running import BRIEF, FUNCTIONS, QUICK, Outcome, Stop, run_cli

CPUS = sorted(os.sched_getaffinity(0))
TWO_WORKERS = ("--cpus", "2", "--probe-layouts", "1x1x1,1x2x1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run and what must come of it. `function`: in `file`; `target` in place of both; `arguments`: of the command line;
    `{data}` stands for the data folder; `says`: patterns on stderr; `holds` judges the rest; `prepare`: fills the data folder;
    `users_file`, a name and a text, is in the user's folder, where the command runs; `within`: a command that sets the scene
    and becomes the one that follows it."""

    name: str
    code: int
    function: str = ""
    file: Path = FUNCTIONS
    target: str = ""
    says: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    prepare: Callable[[Path], None] = lambda data: None
    users_file: tuple[str, str] | None = None
    within: Callable[[], tuple[str, ...]] = tuple
    stop: Stop | None = None
    holds: Callable[[Outcome], None] = lambda outcome: None


def records(count: int, files: int = 1, *, corrupt: int | None = None, forbidden: int | None = None) -> Callable[[Path], None]:
    """TFRecord files of `count` records of 100 bytes each. The record numbered `corrupt` of the first file fails its checksum;
    nobody may read the file numbered `forbidden`."""

    def write(data: Path) -> None:
        import tensorflow as tf

        paths = [data / f"part-{number}.tfrecord" for number in range(files)]
        for path in paths:
            with tf.io.TFRecordWriter(str(path)) as writer:
                for _ in range(count):
                    writer.write(b"x" * 100)
        if corrupt is not None:
            content = bytearray(paths[0].read_bytes())
            content[corrupt * 116 + 12 + 50] ^= 0xFF
            paths[0].write_bytes(bytes(content))
        if forbidden is not None:
            paths[forbidden].chmod(0)

    return write


@functools.cache
def refusal_of(within: Callable[[], tuple[str, ...]]) -> str:
    """Why this scene cannot be set here; empty where it can."""
    if not within():
        return ""
    command = [*within(), sys.executable, "-c", "pass"]
    if shutil.which(command[0]) is None:
        return f"no {command[0]} here"
    scratch = Path(os.environ["XDG_CACHE_HOME"]) / "scene"
    scratch.mkdir(exist_ok=True)
    tried = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(scratch)})
    return "" if tried.returncode == 0 else tried.stderr.strip() or f"{command[0]} failed"


def outcomes_of(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, at_once: int) -> dict[str, Outcome]:
    """The runs of the cases that this session will judge."""
    items = [item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function)]
    params = [item.callspec.params for item in items if hasattr(item, "callspec")]
    cases = [case for param in params if (case := param.get("case")) and not refusal_of(case.within)]
    folders = {case.name: tmp_path_factory.mktemp("case") for case in cases}
    for case in cases:
        users, data = folders[case.name] / "users", folders[case.name] / "data"
        users.mkdir()
        data.mkdir()
        case.prepare(data)
        if case.users_file is not None:
            path = users / case.users_file[0]
            path.parent.mkdir(exist_ok=True)
            path.write_text(case.users_file[1])

    def run(case: Case, cpu: int) -> Outcome:
        folder = folders[case.name]
        own = [argument.format(data=folder / "data") for argument in case.arguments]
        arguments = ["analyze", case.target or f"{case.file}:{case.function}", *QUICK, "--full", *own]
        program = "cs_input_analyzer" if case.stop else BRIEF  # one that is to be stopped must not be over before
        pinned = None if "--cpus" in case.arguments else cpu
        return run_cli(arguments, folder, stop=case.stop, cpu=pinned, within=case.within(), program=program)

    # Those that wait the longest first.
    waiting = {"--max-seconds", "--start-timeout", "--cpus"}
    ordered = sorted(cases, key=lambda case: not (case.stop or waiting.intersection(case.arguments)))
    with ThreadPoolExecutor(at_once) as pool:
        return dict(zip([case.name for case in ordered], pool.map(run, ordered, itertools.cycle(CPUS)), strict=True))


def params(cases: Sequence[Case], *quick: str) -> list[Any]:
    """The cases as parameters; all but those named are left to `make test-long`."""
    assert {case.name for case in cases}.issuperset(quick)
    return [pytest.param(case, id=case.name, marks=[] if case.name in quick else [pytest.mark.long]) for case in cases]


def judge(case: Case, outcome: Outcome) -> None:
    """What must hold of every run, and of this one: code, messages, and that nothing is left behind."""
    context = f"exit {outcome.code}\n{outcome.err[-3000:]}"
    assert outcome.code == case.code, context
    for pattern in case.says:
        assert re.search(pattern, outcome.err), f"{pattern!r} is not in: {context}"
    assert "/cs_input_analyzer/" not in "".join(re.findall(r'File "[^"]+"', outcome.err)), context
    assert "0000 00:00" not in outcome.out + outcome.err, context  # TensorFlow's chatter about itself
    assert outcome.left_processes == ()
    assert outcome.is_tree_untouched
    if case.code in (2, 3):
        assert outcome.out == ""
    if case.code > 0 and case.code != 130:
        assert "cs_input_analyzer: " in outcome.err or "Error: " in outcome.err, context
    if case.code >= 0:  # nobody can tidy up after a SIGKILL
        assert outcome.left_files == ()
    case.holds(outcome)


def finding(outcome: Outcome, code: str) -> dict[str, Any]:
    found = [finding for finding in outcome.run["findings"] if finding["code"] == code]
    assert found, outcome.run["findings"]
    return found[0]  # type: ignore[no-any-return]


def first_worker(outcome: Outcome) -> dict[str, Any]:
    worker: dict[str, Any] = outcome.run["measurements"][0]["workers"][0]
    return worker


def has_rate(worker: dict[str, Any]) -> bool:
    rate = worker["samples_per_s"]
    return rate is not None and 0 < rate["low"] <= rate["estimate"] <= rate["high"]


def two_workers(outcome: Outcome, second: str, message: str, says: str = "worker 1 of layout 1x2x1") -> list[dict[str, Any]]:
    """Both workers of the launch of two: the first is done, the second came to the status `second`; checks their records."""
    launch = next(launch for launch in outcome.run["measurements"] if launch["layout"]["tasks_per_node"] == 2)
    workers: list[dict[str, Any]] = launch["workers"]
    assert [worker["status"] for worker in workers] == ["done", second]
    assert has_rate(workers[0])
    assert re.search(message, workers[1]["message"])
    if not workers[1]["samples_per_s"]:
        assert launch["samples_per_s"]["estimate"] == pytest.approx(workers[0]["samples_per_s"]["estimate"])
    found = finding(outcome, "CSI502")
    assert second != "lost" or found["severity"] == "warning"
    assert re.search(says, found["message"])
    return workers


def done(outcome: Outcome) -> dict[str, Any]:
    """The first worker, which measured to its end."""
    worker = first_worker(outcome)
    assert (worker["status"], worker["message"]) == ("done", "")
    assert has_rate(worker)
    assert outcome.run["interrupted"] is False
    assert not [found for found in outcome.run["findings"] if found["code"] == "CSI501"]
    return worker


def data_error(outcome: Outcome, message: str) -> None:
    """What was measured before an element that cannot be read stands, with an error finding."""
    worker = first_worker(outcome)
    assert worker["status"] == "data_error", (worker["status"], worker["message"], worker["steady_state"])
    assert has_rate(worker)
    assert re.fullmatch(message, worker["message"]), worker["message"]
    assert finding(outcome, "CSI501")["severity"] == "error"
    assert "CSI501" in outcome.out


def nothing_written(outcome: Outcome) -> None:
    assert outcome.run is None
