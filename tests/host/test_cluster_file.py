"""A cluster file: what the command writes is read back as it was, and what it says of launches stands behind the options."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import make_host
from hypothesis import example, given
from hypothesis import strategies as st
from test_slurm_cluster import with_scontrol

from cs_input_analyzer.cli import main
from cs_input_analyzer.errors import Mistakes, UsageError
from cs_input_analyzer.host import cluster, machine
from cs_input_analyzer.host.cluster.file import KEYS, file_text, read_file
from cs_input_analyzer.host.cluster.slurm import discover
from cs_input_analyzer.records import Cluster, Options
from cs_input_analyzer.request.options import read_options, with_cluster_file

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(str.strip)
names = st.from_regex(r"[A-Za-z0-9_.-]{1,20}", fullmatch=True)
rates = st.none() | st.floats(1e3, 1e18)
written = st.builds(
    Cluster,
    nodes=st.integers(1, 1_000_000),
    cpus_per_node=st.integers(64, 4096),
    threads_per_core=st.none() | st.integers(1, 64),
    memory_bytes_per_node=st.integers(1 << 20, 1 << 50) | st.integers(1, 1 << 40).map(lambda count: count << 20),
    name=texts,
    cpu_model=st.none() | texts,
    network_bytes_per_s_per_node=rates,
    storage_bytes_per_s=rates,
    memory_bandwidth_bytes_per_s_per_node=rates,
    partition=st.none() | names,
    excluded_nodes=st.lists(names, unique=True, max_size=4).map(tuple),
    source=texts.filter(lambda text: text != cluster.THIS_HOST),
)
SMALLEST = "nodes: 2\ncpus_per_node: 4\nmemory_per_node: 8GiB\n"


@given(written)
@example(
    Cluster(nodes=1, cpus_per_node=1, memory_bytes_per_node=10**9, name="yes", cpu_model="1e3", partition="007", source="a\x85")
)
def test_what_is_written_is_read_back_as_it_was(nodes: Cluster) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lab.yaml")
        path.write_text(file_text(nodes), encoding="utf-8")
        assert read_file(path).cluster == nodes


def resolved(path: Path, **options: Any) -> Cluster:
    return cluster.resolve(Options(cluster=str(path), **options), make_host())


def test_the_command_writes_what_slurm_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_scontrol(tmp_path, monkeypatch)
    path = tmp_path / "lab.yaml"
    for words, found in (((), discover()), (("--partition", "big", "--exclude-nodes", "c"), discover("big", ("c",)))):
        assert main(["cluster", "--write", str(path), "--force", *words]) == 0
        assert resolved(path) == found.cluster
    assert "big" in path.read_text()


def test_the_command_writes_this_host_as_a_machine_like_any_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "--cluster", "local"]) == 0
    path = tmp_path / "lab.yaml"
    path.write_text(capsys.readouterr().out)
    found = resolved(path)
    assert found == cluster.named_host(machine.read_host())
    assert (found.source, found.speed_ratio) == (machine.read_host().hostname, None)


@pytest.mark.parametrize("name", cluster.preset_names())
def test_the_command_writes_a_preset(name: str, tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    assert main(["cluster", "--cluster", name, "--write", str(path)]) == 0
    assert resolved(path) == cluster.preset(name)


def test_a_file_that_is_there_is_replaced_only_by_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text("mine")
    assert main(["cluster", "--cluster", "local", "--write", str(path)]) == 2
    assert "this file exists; name another one, or replace it with --force" in capsys.readouterr().err
    assert path.read_text() == "mine"
    assert main(["cluster", "--cluster", "local", "--write", str(path), "--force"]) == 0
    assert resolved(path).nodes == 1
    assert os.listdir(tmp_path) == ["lab.yaml"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cluster", "lab.yaml"), "this is a cluster file"),
        (("--cluster", "local", "--partition", "big"), "only Slurm has these; add --cluster slurm"),
        (("--cluster", "andromda"), "did you mean andromeda"),
        (("--cluster", "local", "--write", "/nowhere/at/all/lab.yaml"), "no folder"),
    ],
)
def test_what_the_command_cannot_write_is_told(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", *words]) == 2
    assert message in capsys.readouterr().err


def test_the_page_shows_every_key_in_a_file_that_can_be_read(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "interfaces.md").read_text(encoding="utf-8")
    example = page.partition("## The cluster file")[2].partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "lab.yaml").write_text(example, encoding="utf-8")
    assert (read_file(tmp_path / "lab.yaml").cluster.name, set(yaml.safe_load(example))) == ("lab", set(KEYS))


# --- what a file says of launches -------------------------------------------------------------------------------------------------

LAUNCH = """
cyclic: true
shared_nodes: true
container: /images/wafer.sif
mount_dirs: [/data, /scratch]
srun_args: --cpu-freq=high
sbatch_args: --account=lab
partition: big
exclude_nodes: n[1-2],n7
"""


def chosen(path: Path, **choices: Any) -> Options:
    mistakes = Mistakes()
    options = read_options(mistakes, **with_cluster_file({"cluster": str(path), **choices}))
    mistakes.raise_any()
    assert options is not None
    return options


def test_a_file_says_how_jobs_are_launched_and_options_win(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(SMALLEST + LAUNCH)
    options = chosen(path, cyclic=None)
    assert (options.cyclic, options.shared_nodes, options.container) == (True, True, "/images/wafer.sif")
    assert options.mount_dirs == ("/data", "/scratch")
    assert (options.srun_args, options.sbatch_args) == ("--cpu-freq=high", "--account=lab")
    nodes = resolved(path)
    assert (nodes.partition, nodes.excluded_nodes) == ("big", ("n1", "n2", "n7"))

    typed = chosen(path, cyclic=False, mount_dirs="/other", container="mine.sif", partition="small", exclude_nodes="n3")
    assert (typed.cyclic, typed.shared_nodes, typed.mount_dirs, typed.container) == (False, True, ("/other",), "mine.sif")
    nodes = cluster.resolve(typed, make_host())
    assert (nodes.partition, nodes.excluded_nodes) == ("small", ("n3",))


def test_what_a_file_leaves_out_is_as_without_one(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(SMALLEST)
    assert chosen(path, shared_nodes=None, cyclic=None, mount_dirs=None) == Options(cluster=str(path))


def test_a_partition_without_slurm_or_a_file_is_refused() -> None:
    for choice in ("andromeda", "local"):
        with pytest.raises(UsageError, match="nothing asks Slurm here"):
            chosen(Path(choice), partition="big")
