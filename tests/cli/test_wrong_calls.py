"""Wrong calls of Python and of the command line: one clear line for each mistake, and nothing is started."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cs_input_analyzer as csia
from cs_input_analyzer import api
from cs_input_analyzer.cli import main
from cs_input_analyzer.engines import selection as engine
from cs_input_analyzer.errors import LaunchError, UsageError
from cs_input_analyzer.host import cluster as clusters
from cs_input_analyzer.report import render
from cs_input_analyzer.request.target import pickled_into
from cs_input_analyzer.workflows import launched
from tests.builders import GIB, make_analysis, make_host

TARGET = f"{__file__}:input_fn"


def input_fn() -> None:
    raise AssertionError("nothing runs it")


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No engine, no process, no measuring; and a folder of our own, with a run in it."""

    def starts(*_: object, **__: object) -> None:
        raise AssertionError("something was started")

    monkeypatch.setattr(engine, "open_engine", starts)
    monkeypatch.setattr(api.tuning_here, "tune", starts)
    monkeypatch.setattr(subprocess, "Popen", starts)
    monkeypatch.chdir(tmp_path)
    Path("run.json").write_text(render(make_analysis(host=make_host(tensorflow_version=None)), "json"))
    Path("bare.yaml").write_text("nodes: 8\ncpus_per_node: 64\nmemory_per_node: 128\n")
    Path("a_file").write_text("")


def analyze(**choices: Any) -> object:
    return csia.analyze(choices.pop("target", TARGET), choices.pop("params", None), **choices)


def run() -> api.Analysis:
    return csia.load_analysis("run.json")


PYTHON: dict[str, tuple[Callable[[], object], str]] = {
    # what runs
    "target is a number": (lambda: analyze(target=42), "the target is 42: pass the input function"),
    "target is None": (lambda: analyze(target=None), "the target is None"),
    "params are a list": (lambda: analyze(params=[1]), r"params=\[1\]: a dictionary is needed"),
    "params hold an object": (lambda: analyze(params={"a": object()}), "params must be plain values"),
    "unknown keyword": (lambda: analyze(demnad=7000), "unknown keyword demnad: did you mean demand"),
    # the demand
    "demand is truth": (lambda: analyze(demand=True), "demand=True"),
    "demand is nothing": (lambda: analyze(demand=0), "demand=0: must be a positive number of samples/s"),
    "system": (lambda: analyze(system="CS-9", demand=5), "unknown system 'CS-9'"),
    "current": (lambda: analyze(current="2x8"), "current='2x8': a layout is written"),
    "select": (lambda: analyze(select="CSI9"), "select='CSI9': there is no rule"),
    "batch size is text": (lambda: analyze(batch_size="256"), "batch_size='256': expected `int or None`, got `str`"),
    "samples per element": (lambda: analyze(samples_per_element=0), "samples_per_element=0"),
    "wafer mode": (lambda: analyze(wafer_mode="fast"), "wafer_mode=fast: "),
    "compile report": (lambda: analyze(compile_report=Path("none.txt")), "none.txt"),
    # the cluster
    "cluster misses a field": (lambda: analyze(cluster={"nodes": 8}), "a mapping has the fields of csia.Cluster"),
    "cluster is a number": (lambda: analyze(cluster=8), "cluster=8: expected `str`, got `int`"),
    "cluster is not there": (lambda: analyze(cluster="no_such"), "cluster=no_such: no such file"),
    "cluster has no unit": (
        lambda: csia.Cluster(nodes=2, cpus_per_node=4, memory_bytes_per_node=128),
        "cannot have 128 bytes of memory per node",
    ),
    "cluster has an endless network": (
        lambda: csia.Cluster(nodes=2, cpus_per_node=4, memory_bytes_per_node=GIB, network_bytes_per_s_per_node=float("inf")),
        "the network bandwidth",
    ),
    "nodes": (lambda: analyze(nodes=0), "nodes=0: must be 1 or more"),
    "feed": (lambda: analyze(feed="first_come"), "feed='first_come': expected 'round-robin' or 'first-come'"),
    # measuring
    "max seconds": (lambda: analyze(max_seconds=float("nan")), "max_seconds=nan: too short"),
    "max seconds is a word": (lambda: analyze(max_seconds="soon"), "max_seconds='soon'"),
    "start timeout": (lambda: analyze(start_timeout_s=1), "start_timeout_s=1: "),
    "target error": (lambda: analyze(target_error_ratio=2), "target_error_ratio=2: "),
    "probe layouts": (lambda: analyze(probe_layouts="1x2x1"), "probe_layouts needs a layout of one task"),
    "probe layouts are a number": (lambda: analyze(probe_layouts=3), "probe_layouts=3: a list is needed"),
    "slurm's nodes without slurm": (lambda: analyze(slurm_nodes=2), "nothing asks Slurm here"),
    # the other functions
    "load a number": (lambda: csia.load_analysis(5), "5: cannot be read"),  # type: ignore[arg-type]
    "write to a number": (lambda: run().to_html(5), "cannot write 5"),  # type: ignore[arg-type]
    "table": (lambda: run().to_csv("x.csv", table="findings"), "`table` is gone: --format csv"),
    "validate rounds": (lambda: run().validate(rounds=0), "rounds=0: "),
    "validate option": (lambda: run().validate(demand=1), "unknown keyword demand: there are: cpus, "),
    "tune seconds are none": (lambda: csia.tune(None, seconds=float("nan")), "seconds=nan"),
    "tune select": (lambda: csia.tune(None, select=["CSI999"]), "there is no rule 'CSI999'"),
    "monitor batch size": (lambda: csia.InputMonitor([], batch_size="256"), "batch_size='256'"),  # type: ignore[arg-type]
    "monitor lines are negative": (lambda: csia.InputMonitor([], log_every=-1), "log_every -1"),
    "monitor folder": (lambda: csia.InputMonitor([], log_dir=5), "log_dir=5"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", PYTHON)
def test_a_wrong_call_of_python_is_told_in_one_line_before_anything_starts(call: str) -> None:
    wrong, message = PYTHON[call]
    with pytest.raises(UsageError, match=message) as caught:
        wrong()
    assert str(caught.value).count("\n") == 0


ANALYZE = ("analyze", TARGET)
MANY = "9" * 400  # digits: more than a float can hold
LINES: dict[tuple[str, ...], str] = {
    ("analyse", TARGET): "No such command 'analyse'",
    ("analyze", "data.py"): "write package.module:function",
    ("analyze", "none.py:f"): "there is no file none.py",
    (*ANALYZE, "again"): "Got unexpected extra argument (again)",
    (*ANALYZE, "--step-time", "3 days", "--batch-size", "8"): "not a number of seconds: '3 days'",
    (*ANALYZE, "--sequence-length", "128"): "describes a --wafer model",
    (*ANALYZE, "--performance-json", "a_file"): "a_file",
    (*ANALYZE, "--cluster", "bare.yaml"): "128 without a unit is that many bytes; write for example 128GiB",
    (*ANALYZE, "--current", "2x8"): "NODESxTASKSxCPUS",
    (*ANALYZE, "--current", "1x1x1,2x2x2"): "a layout is written NODESxTASKSxCPUS",
    (*ANALYZE, "--node-speed", "1.2"): "--node-speed sets nodes apart from this host",
    (*ANALYZE, "--probe-layouts", "2x1x1"): "this host is one node",
    (*ANALYZE, "--cpus", "0"): "--cpus 0",
    (*ANALYZE, "--stand-in", "a b"): "--stand-in 'a b'",
    (*ANALYZE, "--probe-layouts", "1x1x1,1x1x999999"): "--probe-layouts 1x1x999999",
    (*ANALYZE, "--nodes", MANY): "more than 1,000,000 nodes",
    (*ANALYZE, "--nodes", "2", "--cpus-per-node", "4097"): "more than 4,096 CPUs per node",
    (*ANALYZE, "--nodes", "2", "--memory-per-node", "1e300GiB"): "must be a positive, finite number",
    (*ANALYZE, "--nodes", "2", "--memory-per-node", "1e30GiB"): "bytes of memory per node",
    (*ANALYZE, "--demand", "5", "--batch-size", MANY): "--batch-size: more than 1,000,000,000 samples",
    (*ANALYZE, "--step-time", "1e-320", "--batch-size", "1000000000"): "positive number of samples/s, got inf",
    (*ANALYZE, "--wafer", "bert_large", "--batch-size", "64", "--sequence-length", MANY): "the sequence length must be at most",
    ("wafer", "bert_large", "--batch-size", "64", "--systems", MANY): "systems must be at most",
    (*ANALYZE, "--demand", MANY): "--demand inf: must be a positive number of samples/s",
    (*ANALYZE, "--demand", "5", "--system", "CS-9"): "unknown system 'CS-9'",
    (*ANALYZE, "--json", "out", "--html", "./out"): "--html and --json name the same file",
    (*ANALYZE, "--single-task-nodes", MANY): "single-task-nodes",
    (*ANALYZE, "--cpus", MANY): "this process may use",
    (*ANALYZE, "--current", f"{MANY}x1x1"): "a layout is written",
    ("demo", "--sample", "mnist"): "--sample mnist",
    ("tune", TARGET, "--write-patch", "data.py"): "a patch is no Python file",
    ("tune", TARGET, "--no-measure-fixes"): "is all that tune does",
    ("tune", TARGET, "--write-patch", "/nowhere/at/all/x.patch"): "no folder",
    ("tune", TARGET, "--json", "out", "--write-patch", "./out"): "another option names the same file",
    ("report", "run.json", "--select", "CSI2,CSI9"): "--select",
    ("report", "run.json", "--ignore", "CSI2,CSI9"): "--ignore",
    ("report", "run.json", "-o", "x.unknown"): "which format is x.unknown?",
    (
        "compare",
        "data.py:fn",
        "run.json",
    ): "data.py:fn: cannot be read: no such file or directory; give a run that `analyze --json FILE` wrote",
    ("validate", "run.json", "--layouts", "two"): "NODESxTASKSxCPUS",
    ("compare", "run.json", "run.json", "--fail-if-slower", "200"): "--fail-if-slower 200",
    ("wafer", "none.yaml", "--batch-size", "8"): "there is no file none.yaml; give",
    ("wafer", "bert_large"): "Missing option '--batch-size'",
    ("inspect-run", "none"): "none",
    ("explain", "CSI999"): "there is no rule 'CSI999'",
    ("python",): "which script",
    ("--demand", "5"): "which script",
    ("python", "none.py"): "there is no file none.py",
    ("--mount_dirs", "/a,/b", "python", "none.py"): "there is no file none.py",
    ("--no-such-option", "python", __file__): "No such option",
    ("--avail_nodes", "2", "--nodes", "3", "python", __file__): "give one of them",
    ("--available_nodes", "many", "python", __file__): "many",
    ("--capture", "0", "python", __file__): "--capture 0",
    ("--available-nodes", "0", "python", __file__): "--available-nodes 0",
    ("data.py:input_fn", "--demand", "5"): "type cs_input_analyzer analyze data.py:input_fn --demand 5",
    # a script without its Python is told what to type
    ("run.py", "--mode", "train"): "type cs_input_analyzer python run.py --mode train",
    ("--nodes", "4", "run.py", "a b"): "type cs_input_analyzer --nodes 4 python run.py 'a b'",
    ("analyze", "--demand", "7", "python", "run.py", "--res", "6"): "type cs_input_analyzer --demand 7 python run.py --res 6",
    ("tune", "--demand", "7", "python", "run.py", "--res", "6"): "of a script, cs_input_analyzer python run.py --res 6 shows",
    ("csrun_wse", "--total-nodes", "3", "python-ws", "run.py"): "type cs_input_analyzer python-ws run.py",
    ("--nodes", "4", "csrun_cpu", "python", "run.py"): "type cs_input_analyzer --nodes 4 python run.py",
    **dict.fromkeys((("srun", "-N", "2", "./x"), ("run.pyc",), ("csrun_wse",)), "No such command"),
}
# Defaults of a site that are no numbers.
SITES = {"DEF_NODES": ("five", "²", "99999999"), "DEF_TASKS": ("0",)}


@pytest.mark.parametrize("arguments", LINES, ids=lambda arguments: " ".join(arguments).replace(str(Path(__file__).parent), "")[:60])
def test_a_wrong_line_is_told_in_one_line_before_anything_starts(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["cs_input_analyzer", *arguments])
    assert main(arguments) == UsageError.exit_code
    out, err = capsys.readouterr()
    told = [line for line in err.splitlines() if line.startswith("cs_input_analyzer: ")]
    assert LINES[arguments] in told[-1]
    assert len(told) == 1
    assert out == ""


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in SITES.items() for value in values])
def test_a_wrong_default_of_the_site_is_told_by_its_name(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, value)
    for arguments in (ANALYZE, ("python", __file__)):
        assert main(arguments) == UsageError.exit_code
        assert f"{name}={value}: " in capsys.readouterr().err


def test_all_that_is_wrong_with_a_line_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ("--demand", "a lot", "--headroom", "-1", "--max-seconds", "1", "--json", "no/run.json", "--params", "none.yaml")
    assert main(["analyze", "--demnad", "7", "none.py:f", *wrong, "--mode", "test", "--headrom=1"]) == UsageError.exit_code
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 9
    assert all(line.startswith("cs_input_analyzer: ") for line in told)
    for words in (
        "a lot",
        "--headroom -1",
        "--max-seconds 1",
        "no/run.json",
        "none.yaml",
        "none.py",
        "'test'",
        "--demnad",
        "--headrom",
    ):
        assert sum(words in line for line in told) == 1


def test_numbers_of_the_demand_and_all_params_are_told_with_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ("--demand", "0", "--nodes", "0", "--system", "CS-9", "--set", "one", "--set", "=2", "--params", "none.yaml")
    assert main([*ANALYZE, *wrong]) == UsageError.exit_code
    assert len(capsys.readouterr().err.splitlines()) == 6


def test_all_that_is_wrong_with_a_question_about_a_wafer_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ("--batch-size", "0", "--systems", "-1", "--system", "CS-9", "--dtype", "int8", "--json", "no/wafer.json")
    assert main(["wafer", "brt_base", *wrong]) == UsageError.exit_code
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 6
    for words in ("'--batch-size': 0", "'--systems': -1", "unknown system 'CS-9'", "'int8'", "no/wafer.json", "'brt_base'"):
        assert sum(words in line for line in told) == 1


def test_several_outputs_may_go_to_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launched, "analyze", lambda request, **others: make_analysis())
    assert main([*ANALYZE, "--json", "/dev/null", "--html", "/dev/null", "--quiet"]) == 0


def test_a_slurm_that_does_not_answer_is_not_needed_for_a_cluster_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise LaunchError("no answer")

    monkeypatch.setattr(shutil, "which", lambda _: "scontrol")
    monkeypatch.setattr(clusters, "resolve", fails)
    assert main(["cluster"]) == LaunchError.exit_code
    assert "--cluster local describes this host" in capsys.readouterr().err


def test_what_follows_from_another_mistake_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a number of nodes the cluster is this host, which has too few for these; that is no mistake of the user's."""
    assert main([*ANALYZE, "--nodes", "many", "--single-task-nodes", "2", "--step-time", "0.1", "--batch-size", "x"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_all_that_is_wrong_with_a_call_is_told_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        analyze(target=42, demand="a lot", cache="hot", cpus="2", params=3, headroom_ratio=-1)
    assert len(caught.value.lines) == 6
    assert str(caught.value) == "\n".join(caught.value.lines)


def test_a_function_that_holds_what_only_this_process_has_is_refused(tmp_path: Path) -> None:
    lock = threading.Lock()
    with pytest.raises(csia.TargetError, match=r"cannot travel.*lock"):
        pickled_into(tmp_path, lambda: lock.release())


def test_right_calls_get_past_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as texts, numbers of numpy's, paths, mappings and functions with arguments of their own."""
    numpy = pytest.importorskip("numpy")
    seen: list[Any] = []
    monkeypatch.setattr(launched, "analyze", lambda request, **others: seen.append(request) or make_analysis())
    nodes = {"nodes": 8, "cpus_per_node": 64, "memory_bytes_per_node": 128 * GIB}
    analyze(demand="7k", current="2x8x4", probe_layouts="1x1x1,1x2x1", select="CSI1,CSI2", mount_dirs="/a,/b", cluster=nodes)
    options = seen[-1].options
    assert (options.demand_samples_per_s, str(options.current), len(options.probe_layouts)) == (7000.0, "2x8x4", 2)
    assert (options.select, options.mount_dirs, seen[-1].declared) == (("CSI1", "CSI2"), ("/a", "/b"), csia.Cluster(**nodes))
    analyze(target=functools.partial(input_fn), step_time="160ms", batch_size=numpy.int64(1024), shared_dir=None, headroom_ratio=0)
    assert (seen[-1].options.step_time_s, seen[-1].options.batch_size) == (pytest.approx(0.16), 1024)
    assert type(seen[-1].options.batch_size) is int
