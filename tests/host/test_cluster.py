"""Clusters: from a file, a preset, flags and this host; each impossible one is refused with what to write instead."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from builders import make_host

from cs_input_analyzer.errors import LaunchError, UsageError
from cs_input_analyzer.host import cluster
from cs_input_analyzer.host.cluster.file import KEYS, REQUIRED
from cs_input_analyzer.records import Cluster, Options

GIB = 2**30

LAB = """
name: lab
nodes: 8
cpus_per_node: 64
threads_per_core: 2
memory_per_node: 128GiB
network_per_node: 100Gb/s
storage_bandwidth: 5GB/s
cpu_model: AMD EPYC 7713
source: the rack's label
"""
SMALLEST = "nodes: 2\ncpus_per_node: 4\nmemory_per_node: 1000000000\n"


def write(folder: Path, text: str, name: str = "lab.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def resolve(**options: object) -> Cluster:
    return cluster.resolve(Options(**options), make_host(cpu_budget=6))  # type: ignore[arg-type]


def test_a_file_gives_every_number(tmp_path: Path) -> None:
    path = write(tmp_path, LAB)
    found = resolve(cluster=str(path))
    assert found == Cluster(
        nodes=8,
        cpus_per_node=64,
        memory_bytes_per_node=128 * GIB,
        name="lab",
        threads_per_core=2,
        cpu_model="AMD EPYC 7713",
        network_bytes_per_s_per_node=12.5e9,
        storage_bytes_per_s=5e9,
        source="the rack's label",
    )


def test_what_a_file_leaves_out_is_unknown_and_not_zero(tmp_path: Path) -> None:
    found = resolve(cluster=str(write(tmp_path, SMALLEST, "two.yml")))
    assert (found.name, found.memory_bytes_per_node) == ("two", 10**9)
    assert (found.threads_per_core, found.cpu_model, found.network_bytes_per_s_per_node, found.storage_bytes_per_s) == (None,) * 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes: [", "not YAML"),
        ("- 1\n- 2\n", "mapping"),
        ("", "mapping"),
        (SMALLEST + "cores: 4\n", "unknown key cores; did you mean nodes?"),
        (SMALLEST + "node_sped: 2\n", "unknown key node_sped; did you mean node_speed?"),
        (SMALLEST + "7: 4\n", "unknown key 7; there are name, nodes"),
        ("nodes: 2\n", "misses cpus_per_node, memory_per_node"),
        (SMALLEST.replace("nodes: 2", "nodes: null"), "misses nodes"),
        (SMALLEST.replace("nodes: 2", "nodes: 0"), "0 nodes"),
        (SMALLEST.replace("nodes: 2", "nodes: 2.5"), "whole number"),
        (SMALLEST.replace("nodes: 2", f"nodes: 1{'0' * 400}"), "more than 1,000,000 nodes"),
        (SMALLEST.replace("1000000000", "1e300GiB"), "positive, finite"),
        (SMALLEST.replace("nodes: 2", "nodes: yes"), "whole number"),
        (SMALLEST.replace("1000000000", "128G"), "powers of 1000 or of 1024"),
        (SMALLEST + "threads_per_core: 0\n", "0 threads per core"),
        (SMALLEST + "threads_per_core: 8\n", "do not fit"),
        (SMALLEST + "network_per_node: fast\n", "not a bandwidth"),
        (SMALLEST + "storage_bandwidth: 0\n", "positive"),
        (SMALLEST + "node_speed: fast", "not a number"),
        (SMALLEST + "node_speed: 0", "positive"),
        (SMALLEST + "node_speed: 1000", "times as fast"),
        (SMALLEST + "node_reference: 10000000@2.7", "`node_reference` is gone: measure on a node"),
        (SMALLEST + "memory_bandwidth: 0", "positive"),
        (SMALLEST + "cyclic: 1\n", "cyclic: must be true or false"),
        (SMALLEST + "mount_dirs: {a: b}\n", "mount_dirs: must be a list"),
        (SMALLEST + "mount_dirs: [a, '']\n", "mount_dirs: must be a text"),
        (SMALLEST + "container: ' '\n", "container: must be a text"),
        (SMALLEST + "srun_args: --partition=a\n", "srun_args: --srun-args holds '--partition=a'"),
        (SMALLEST + 'sbatch_args: "\'"\n', "sbatch_args: --sbatch-args is not a readable command line"),
        (SMALLEST + "partition: a b\n", "partition: not the name of one partition"),
        (SMALLEST + "exclude_nodes: n[1-\n", "exclude_nodes: "),
        (SMALLEST + "source: this host\n", "source: 'this host' names no machine"),
    ],
)
def test_a_wrong_file_says_which_file_and_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        resolve(cluster=str(path))
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_all_that_is_wrong_in_a_file_is_said_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, "nodes: 0\ncpus_per_node: many\nnodez: 3\nstorage_bandwidth: fast\ncyclic: maybe\n")
    with pytest.raises(UsageError) as caught:
        resolve(cluster=str(path))
    lines = caught.value.lines
    assert all(line.startswith(f"the cluster file {path}") for line in lines)
    said = [": unknown key nodez; did you mean nodes?", " misses memory_per_node", ": nodes: ", ": cpus_per_node: "]
    for line, beginning in zip(lines, [*said, ": storage_bandwidth: ", ": cyclic: "], strict=True):
        assert line.removeprefix(f"the cluster file {path}").startswith(beginning)


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    for name in ("nowhere.yaml", "binary.yaml"):
        with pytest.raises(UsageError, match=name):
            resolve(cluster=str(tmp_path / name))
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(UsageError, match="cannot read"):
        resolve(cluster=str(tmp_path / "folder.yaml"))
    with pytest.raises(UsageError, match="andromeda"):
        resolve(cluster="andromda")


def test_slurm_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match="scontrol on PATH"):
        resolve(cluster="slurm")


FLAGS = {
    "nodes": 8,
    "cpus_per_node": 64,
    "memory_bytes_per_node": GIB,
    "storage_bytes_per_s": 5e9,
}
LARGEST = {"nodes": 1_000_000, "cpus_per_node": 4_096, "memory_bytes_per_node": 2**60}
HERE = {"nodes": 1, "cpus_per_node": 6, "memory_bytes_per_node": 64 * GIB, "cpu_model": "AMD EPYC 7702P"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        *(({"cluster": choice}, HERE | {"source": "this host", "storage_bytes_per_s": None}) for choice in (None, "local")),
        ({"nodes": 4}, HERE | {"nodes": 4, "source": "this host, with nodes from flags"}),
        (FLAGS, FLAGS | {"source": "flags", "cpu_model": None}),
        (LARGEST, LARGEST),
        ({"cluster": "andromeda", "nodes": 16}, {"nodes": 16, "cpus_per_node": 64, "name": "andromeda"}),
    ],
    ids=["this host", "local", "nodes like it", "flags", "largest", "preset"],
)
def test_where_the_numbers_of_a_cluster_are_from(options: dict[str, object], expected: dict[str, object]) -> None:
    found = resolve(**options)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize("threads", [None, 1, 2])
def test_nodes_like_this_host_have_its_threads_and_others_do_not(threads: int | None) -> None:
    host = make_host(cpu_budget=6, threads_per_core=threads)

    def found(**options: object) -> int | None:
        return cluster.resolve(Options(**options), host).threads_per_core  # type: ignore[arg-type]

    assert found() == found(nodes=4) == found(memory_bytes_per_node=GIB) == threads
    assert found(cpus_per_node=64) is found(cpus_per_node=1) is None


@pytest.mark.parametrize(
    "options",
    [
        {"nodes": 0},
        {"cpus_per_node": 0},
        {"memory_bytes_per_node": 0},
        {"nodes": 1_000_001},
        {"cpus_per_node": 4_097},
        {"memory_bytes_per_node": 2**60 + 1},
        {"storage_bytes_per_s": 0.0},
        {"storage_bytes_per_s": float("nan")},
        {"storage_bytes_per_s": float("inf")},
        {"cluster": "alcf-cs2-02", "cpus_per_node": 1},
    ],
)
def test_impossible_flags_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        resolve(**options)


@pytest.mark.parametrize("names", [{"partition": "a b"}, {"partition": ""}, {"excluded_nodes": ("n1", "n[2-3]")}])
def test_names_that_no_partition_or_node_has_are_refused(names: dict[str, object]) -> None:
    declared = Cluster(nodes=2, cpus_per_node=4, memory_bytes_per_node=GIB, **names)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="not the name of one partition or node"):
        cluster.resolve(Options(), make_host(), declared=declared)


@pytest.mark.parametrize("name", cluster.preset_names())
def test_every_preset_is_a_cluster_with_a_source_for_each_number(name: str) -> None:
    found = cluster.preset(name)
    assert found == resolve(cluster=name)
    assert found.name == name
    assert "https://" in found.source
    entry = yaml.safe_load((files("cs_input_analyzer.host.cluster") / "presets.yaml").read_text())[name]
    fields = {key: value for key, value in entry.items() if key not in ("description", "source")}
    numbers = {"threads_per_core", "network_per_node", "storage_bandwidth", "memory_bandwidth"}
    assert set(fields) == {*REQUIRED, *numbers, "cpu_model"} < set(KEYS)
    assert all(set(field) == {"value", "source"} and field["source"] for field in fields.values())
