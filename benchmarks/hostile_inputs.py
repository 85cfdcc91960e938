"""Do the readers of files that others wrote end in time, in little memory and with one line, whatever these files hold?

Real files of each kind (console logs, packed ones, journals, event files, performance.json, compile reports, run files and pages of
them, networks, clusters, params) are mutated: bytes change, pieces are cut, repeated, moved or taken from another file, and numbers
and tokens that readers stumble over are put in. Each input goes through the reader of its kind, each tenth through the command. An
input has failed where that takes more than five seconds, more than 500 MB, or ends in anything but an answer or one line of ours.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gzip
import io
import json
import multiprocessing
import os
import random
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from benchmarks import run_logs
from benchmarks.paired import arguments, save, show
from cs_input_analyzer.cli import main as command
from cs_input_analyzer.errors import AnalyzerError
from cs_input_analyzer.host.counters import read_memory
from wafer_model import WaferModelError

LONGEST_S, MOST_BYTES = 5.0, 500e6
BATCH = 1000
EXITS = (0, 1, 2, 3, 4)
# What is made of a run file.
FORMS = ("console", "full", "html", "md", "json", "csv", "sbatch", "env", "plan", "compare")
LONGEST_INPUT = 1 << 17
ROOT = Path(__file__).resolve().parent.parent
TOKENS = [
    *(b"9" * 400, b"1e999", b"-1", b"nan", b"Infinity", b"0x", b"1_", b"1:" * 500, b"null", b"true", b'""'),
    *(b"[" * 400, b"{" * 400, b'{"a":' * 300, b"]}", b"- " * 200, b"&a [*a]", b"*a", b"<<: ", b"!!int x", b"!!python/none", b"? "),
    *(b"\x1b]0;t\x07", b"\xc2\x9b31m", "\u202e".encode(), b"\x00", b"\xff\xfe", b"\r", b"\n", b"\xed\xa0\x80", b" " * 3000),
    *(b"<script id=run", b"<script ", b"</script>", b"<!--", b"Rate=", b"GlobalRate=1,", b"1" * 3000, b"." * 3000, b"2024-13-45 "),
    *(b"| Train Device=", b"global step ", b'"event": "start"', b'"schema_version": 1', b"base: gpt2_small", b"repeat: 99999"),
]
COMPILE_REPORT = b"Estimated Overall Performance\nSamples/s:   860.3\nCompute Samples/s: 861.1\nActive PEs: 92%\n+---+\n| a |\n"
NETWORK = b"name: n\ninputs:\n- {name: i, elements: 784, kind: float}\nlayers:\n- {kind: dense, name: a, inputs: 784, outputs: 9}\n"
BLOCK = b"- {kind: transformer_block, name: b, repeat: 4, hidden: 64, heads: 4, feed_forward: 256, queries: 8, keys: 8}\n"
CLUSTER = b"name: c\nnodes: 8\ncpus_per_node: 64\nmemory_per_node: 128GiB\nstorage_bandwidth: 5GB/s\nthreads_per_core: 2\n"
PARAMS = b"train_input:\n  batch_size: 256\n  files: [a, b]\n  date: 2024-01-01\nrun: &r {max_steps: 1_000, lr: 1e-4}\nmore: *r\n"
WORKER = {"samples_per_sec": 450.5, "total_samples": 64000, "total_time": 142}
PERFORMANCE = WORKER | {
    "compile_time": 9.5,
    "est_samples_per_sec": 900.0,
    "ordinals": [WORKER] * 4,
    "suspected_input_bottleneck": "true",
}


@dataclass(frozen=True, slots=True)
class Sort:
    """A kind of file: its name, real ones, its reader, and the command that reads it (`{}` is the file).

    `wrapped`: what is done to a mutated content, so that it gets past the first check of its reader.
    """

    name: str
    file: str
    real: tuple[bytes, ...]
    read: Callable[[Path], object]
    line: tuple[str, ...]
    wrapped: Callable[[bytes], bytes] = bytes


@dataclass(slots=True)
class Outcome:
    """The results of a batch of inputs."""

    inputs: int = 0
    by_command: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    peak_bytes: int = 0
    failures: list[str] = field(default_factory=list)


def _events(folder: Path) -> bytes:
    plant = run_logs.healthy(4)
    run_logs.write_events(plant, run_logs.simulate(plant), folder / "events")
    return (folder / "events").read_bytes()


def _recorded(content: bytes) -> bytes:
    """Return an event file of one record, many times."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    file = io.BytesIO()
    for _ in range(20):
        RecordWriter(file).write(content)
    return file.getvalue()


def _journal(folder: Path) -> bytes:
    from cs_input_analyzer import InputMonitor

    with InputMonitor([[1] * 8] * 200, 8, console=None, environ={}, tensorboard=False, log_dir=folder, log_every=10) as monitor:
        for _ in monitor:
            monitor.sync()
    return (folder / "steps.jsonl").read_bytes()


def made(path: Path, form: str, other: Path) -> object:
    """Return one use of a run file: a format, another plan, or a comparison with the other run."""
    from cs_input_analyzer import api, report
    from cs_input_analyzer.workflows import replan

    found = report.load(path)
    if form == "plan":
        return report.render(replan.plan(found, command="plan", demand="9k"), "console", full=True)
    if form == "compare":
        return report.render(api.compare(other, found), "console", full=True)
    if form == "full":
        return report.render(found, "console", full=True)
    return report.render(found, cast(Any, form))


def sorts() -> tuple[Sort, ...]:
    """All kinds, with real files of each."""
    from cs_input_analyzer import report
    from cs_input_analyzer.host.cluster.file import read_file
    from cs_input_analyzer.runs.inspection import inspect_run
    from cs_input_analyzer.tfdata.load import load_params
    from wafer_model import ask

    run_file = ROOT / "tests" / "report" / "run_0.1.0.json"
    saved = report.load(run_file)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        logs = tuple(
            run_logs.write(plant, run_logs.simulate(plant), folder).read_bytes()[:8000]
            for plant in map(run_logs.starved, range(12))
            if plant.form == "console"
        )
        events, journal = _events(folder), _journal(folder / "journal")
    inspecting = ("inspect-run", "{}")
    wafer = ("wafer", "{}", "--batch-size", "8")

    def predicted(path: Path) -> object:
        return ask.ask(str(path), batch_size=8)

    def planned(path: Path) -> object:
        return made(path, FORMS[zlib.crc32(path.read_bytes()) % len(FORMS)], run_file)

    def given(path: Path) -> object:
        return load_params(str(path), ())

    page = report.render(saved, "html").encode()
    run = page.rindex(b"<script", 0, page.index(b'id="run"'))
    return (
        Sort("console log", "run.log", logs, inspect_run, inspecting),
        Sort("packed log", "run.log.gz", tuple(gzip.compress(log) for log in logs), inspect_run, inspecting),
        Sort("log, then packed", "run.log.gz", logs, inspect_run, inspecting, gzip.compress),
        Sort("journal", "steps.jsonl", (journal[:9000],), inspect_run, inspecting),
        Sort("event file", "a.tfevents.1", (events[:9000],), inspect_run, inspecting),
        Sort("record, right sums", "a.tfevents.1", (events[12 : 12 + events[0]],), inspect_run, inspecting, _recorded),
        Sort("performance.json", "performance.json", (json.dumps(PERFORMANCE).encode(),), inspect_run, inspecting),
        Sort("compile report", "compile_report.txt", (COMPILE_REPORT,), inspect_run, inspecting),
        Sort("run file", "run.json", (run_file.read_bytes(),), planned, ("report", "{}")),
        Sort(
            "page",
            "run.html",
            (page[:2000] + page[run : page.index(b"</script>", run) + 20],),
            planned,
            ("report", "{}", "--format", "json"),
        ),
        Sort("network", "net.yaml", (NETWORK, NETWORK + BLOCK), predicted, wafer),
        Sort("cluster", "c.yaml", (CLUSTER,), lambda path: read_file(path), ("plan", str(run_file), "--cluster", "{}")),
        Sort("params", "p.yaml", (PARAMS,), given, ("analyze", "none.py:f", "--params", "{}")),
    )


def mutated(draw: random.Random, real: bytes, others: tuple[bytes, ...]) -> bytes:
    """One to six changes of a real file."""
    content = bytearray(real)
    for _ in range(draw.choice((1, 1, 2, 3, 6))):
        at = draw.randrange(len(content) + 1)
        end = min(len(content), at + draw.choice((1, 2, 8, 60, 1000)))
        change = draw.randrange(8)
        if change == 0:
            content[at:end] = b""
        elif change == 1:
            content[at:at] = draw.choice(TOKENS) * draw.choice((1, 1, 2, 20, 5000))
        elif change == 2:
            content[at:end] = content[at:end] * draw.choice((2, 3, 50))
        elif change == 3:
            content = content[:at]
        elif change == 4:
            for place in range(at, end):
                content[place] ^= 1 << draw.randrange(8)
        elif change == 5:
            other = draw.choice(others)
            start = draw.randrange(len(other) + 1)
            content[at:end] = other[start : start + draw.choice((4, 40, 400))]
        elif change == 6:
            content[at:end] = draw.choice(TOKENS)
        else:
            content[at:end] = draw.randbytes(end - at)
    return bytes(content[:LONGEST_INPUT])


def tried(sort: Sort, path: Path, content: bytes, is_command: bool, outcome: Outcome) -> None:
    """One input, read."""
    path.write_bytes(content)
    began_s = time.perf_counter()
    try:
        if is_command:
            ending = f"exit {command([part.replace('{}', str(path)) for part in sort.line])}"
        else:
            sort.read(path)
            ending = "read"
    except (AnalyzerError, WaferModelError) as error:
        ending = "refused" if str(error) else "refused without a word"
    except BaseException as error:
        ending = f"{type(error).__name__}: {str(error)[:80]}"
    seconds = time.perf_counter() - began_s
    outcome.inputs += 1
    outcome.by_command += is_command
    outcome.slowest_s = max(outcome.slowest_s, seconds)
    outcome.endings[ending] += 1
    is_right = ending in ("read", "refused", *(f"exit {code}" for code in EXITS))
    if not is_right or seconds > LONGEST_S:
        kept = Path(tempfile.gettempdir()) / f"hostile-{os.getpid()}-{outcome.inputs}-{path.name}"
        kept.write_bytes(content)
        outcome.failures.append(f"{sort.name}: {ending}, {seconds:.1f} s: {kept}")


def batch(place: int, seed: int, count: int) -> tuple[int, Outcome]:
    """`count` inputs of one kind."""
    all_sorts = sorts()
    sort, outcome = all_sorts[place], Outcome()
    others = tuple(real for each in all_sorts for real in each.real)
    draw = random.Random(f"{sort.name} {seed}")
    faulthandler.dump_traceback_later(20 * LONGEST_S + count, exit=True)
    said = io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        open(os.devnull, "w") as nothing,
        contextlib.redirect_stdout(nothing),
        contextlib.redirect_stderr(said),
    ):
        for number in range(count):
            tried(
                sort,
                Path(folder) / sort.file,
                sort.wrapped(mutated(draw, draw.choice(sort.real), others)),
                number % 10 == 0,
                outcome,
            )
            said.truncate(0)
    faulthandler.cancel_dump_traceback_later()
    outcome.peak_bytes = read_memory().peak_rss_bytes or 0
    return place, outcome


def fuzz(count: int, seed: int = 0, processes: int = 1) -> list[Outcome]:
    """At least `count` inputs in all, as many of each kind; an outcome for each kind."""
    total = [Outcome() for _ in sorts()]
    each = -(-count // len(total))
    jobs = [
        (place, seed + number, min(BATCH, each - number * BATCH))
        for number in range(-(-each // BATCH))
        for place in range(len(total))
    ]
    # Not forked: what the caller holds, as pytest with TensorFlow does, is no memory that an input takes.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for place, found in pool.map(batch, *zip(*jobs, strict=True)):
            one = total[place]
            one.inputs, one.by_command = one.inputs + found.inputs, one.by_command + found.by_command
            one.endings += found.endings
            one.slowest_s, one.peak_bytes = max(one.slowest_s, found.slowest_s), max(one.peak_bytes, found.peak_bytes)
            one.failures += found.failures
    return total


def main() -> None:
    options = arguments(__doc__, inputs=(int, 100_000, "inputs in all"), processes=(int, 1, "at a time"))
    found = fuzz(options.inputs, processes=options.processes)
    rows, result = [], dict[str, Any]()
    for sort, one in zip(sorts(), found, strict=True):
        refused = one.endings["refused"] + one.endings["exit 2"]
        is_right = not one.failures and one.peak_bytes <= MOST_BYTES
        numbers = f"{one.inputs:,}", f"{one.by_command:,}", f"{refused:,}", f"{one.slowest_s:.2f}", f"{one.peak_bytes / 1e6:.0f} MB"
        rows.append((sort.name, *numbers, str(len(one.failures)), "yes" if is_right else "NO"))
        result[sort.name] = {
            "inputs": one.inputs,
            "endings": dict(one.endings),
            "slowest_s": one.slowest_s,
            "failures": one.failures,
        }
    inputs = sum(one.inputs for one in found)
    show(
        f"{inputs:,} hostile inputs (targets: none over {LONGEST_S:g} s or {MOST_BYTES / 1e6:.0f} MB, none that ends otherwise)",
        ("kind", "inputs", "by command", "refused", "slowest, s", "peak memory", "failed", "as it should"),
        rows,
    )
    for one in found:
        for failure in one.failures[:5]:
            print(failure)
    save(options.json, {"inputs": inputs, "kinds": result})


if __name__ == "__main__":
    main()
