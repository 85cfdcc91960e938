"""The keywords of the Python interface: one list, checked by type checkers, and named in errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import cs_input_analyzer as csia
from cs_input_analyzer.cli import cli
from cs_input_analyzer.errors import InputFunctionError, Mistakes, UsageError
from cs_input_analyzer.records import Cluster, Layout, Options
from cs_input_analyzer.request.keywords import (
    KEYWORDS,
    OTHER_NAMES,
    SHORT,
    AnalyzeKeywords,
    PlanKeywords,
    ValidateKeywords,
    fields_of,
    in_keywords,
    known_among,
    naming_keywords,
)
from cs_input_analyzer.request.options import _FROM_ANY, _FROM_TEXT
from tests.builders import GIB, make_analysis

ROOT = Path(__file__).parents[2]
# What a keyword takes beside the type of its field.
MORE: dict[str, Any] = {
    **dict.fromkeys(_FROM_TEXT, str),
    **dict.fromkeys(_FROM_ANY, str | Iterable[str]),
    "current": str,
    "node_speed_ratio": float | str,
    "max_seconds": str | None,
    "probe_layouts": str | Layout | Iterable[str | Layout],
}


def test_the_keywords_are_the_fields_of_the_options() -> None:
    """Two fields are no keywords of `analyze`: its arguments `params` and `cluster` fill them."""
    assert set(fields_of(AnalyzeKeywords)) == {field.name for field in fields(Options)} - {"params_json", "cluster"}
    assert set(PlanKeywords.__annotations__) < set(AnalyzeKeywords.__annotations__)


@pytest.mark.parametrize("keyword", AnalyzeKeywords.__annotations__)
def test_a_keyword_has_the_type_of_its_field_and_the_forms_that_are_read(keyword: str) -> None:
    name = SHORT.get(keyword, keyword)
    hint, field = get_type_hints(AnalyzeKeywords)[keyword], get_type_hints(Options)[name]
    if name in _FROM_ANY and name != "current":
        assert hint == MORE[name]  # any list in place of a tuple
    else:
        assert hint == (field | MORE[name] if name in MORE else field)


@pytest.mark.parametrize("group", [AnalyzeKeywords, ValidateKeywords])
def test_a_keyword_is_an_option_of_the_command(group: Any) -> None:
    """Field names of two short keywords, and the seed of the random order, are Python's alone."""
    command = cli.commands["analyze" if group is AnalyzeKeywords else "validate"]
    names = {option.name for option in command.params}
    assert set(group.__annotations__) - names <= {*SHORT.values(), "seed"}


@pytest.mark.parametrize("command", ["analyze", "validate", "plan", "tune"])
def test_an_option_is_named_by_its_keyword(command: str) -> None:
    for option in cli.commands[command].params:
        if option.name in KEYWORDS:
            long = next(word for word in option.opts if word.startswith("--"))
            assert in_keywords(f"{long} needs more") == f"{option.name} needs more"
            assert OTHER_NAMES.get(long, "") in ("", option.name)


TEXTS = {
    "--nodes 0: must be 1 or more": "nodes=0: must be 1 or more",
    "--step-time needs --batch-size: samples per step": "step_time needs batch_size: samples per step",
    "this host is one node; --launcher slurm measures on several": "this host is one node; launcher=slurm measures on several",
    "--queue-timeout S waits longer": "queue_timeout_s=S waits longer",
    "give it by --set KEY=VALUE, or": "give it by set=KEY=VALUE, or",
    # silent: another program's options, our commands, and what Python has no keyword for
    "sbatch says: --gres is unknown": "sbatch says: --gres is unknown",
    "run `cs_input_analyzer wafer MODEL --nodes 3`": "run `cs_input_analyzer wafer MODEL --nodes 3`",
    "--capture 3: the script": "--capture 3: the script",
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_message_names_keywords_in_place_of_options(text: str) -> None:
    assert in_keywords(text) == TEXTS[text]


def test_what_the_users_function_says_stays_as_it_is() -> None:
    with pytest.raises(InputFunctionError, match="pass --mode train"), naming_keywords():
        raise InputFunctionError("the input function failed: pass --mode train")


@pytest.mark.parametrize("choices", [{"demand": 7000, "demand_samples_per_s": 9000}, {"step_time_s": 1, "step_time": "2s"}])
def test_two_names_of_one_keyword_are_one_too_many(choices: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"(demand|step_time) and \1_\w+ are the same: give one"):
        csia.analyze("none.py:f", batch_size=4, **choices)


def test_every_misspelt_keyword_is_told_with_its_nearest() -> None:
    with pytest.raises(UsageError) as raised:
        csia.analyze("none.py:f", demnad=7, batchsize=3, zzz=1, nodes=0)  # type: ignore[call-arg]
    told = raised.value.lines
    assert told[0] == "unknown keyword batchsize: did you mean batch_size?"
    assert told[1] == "unknown keyword demnad: did you mean demand?"
    assert told[2].startswith("unknown keyword zzz: there are: batch_size, ")
    assert told[3].startswith("nodes=0: ")


def test_keywords_that_are_known_are_no_mistake() -> None:
    mistakes = Mistakes()
    assert known_among({"demand": 3}, PlanKeywords, mistakes) == {"demand": 3}
    assert not mistakes


def test_a_command_still_names_its_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from cs_input_analyzer.cli import main
    from cs_input_analyzer.report import render

    (tmp_path / "run.json").write_text(render(make_analysis(), "json"))
    assert main(["plan", str(tmp_path / "run.json"), "--nodes", "0"]) == UsageError.exit_code
    assert "--nodes 0: must be 1 or more" in capsys.readouterr().err


def test_sizes_and_bandwidths_are_read_from_texts() -> None:
    written = Cluster(nodes=2, cpus_per_node=4, memory_bytes_per_node="128GiB", storage_bytes_per_s="5GB/s")
    assert written == Cluster(nodes=2, cpus_per_node=4, memory_bytes_per_node=128 * GIB, storage_bytes_per_s=5e9)
    with pytest.raises(UsageError, match="not a size: 'much'"):
        Cluster(nodes=2, cpus_per_node=4, memory_bytes_per_node="much")


WRONG = """
import cs_input_analyzer as csia

run = csia.analyze("data.py:f", demnad=7)
run.plan(nodes="eight")
run.validate(rounds="3")
csia.compare("a.json", "b.json", measure=True, layots="1x1x1")
csia.Cluster(nodes=1, cpus_per_node=2, memory_bytes_per_node=3.5)
"""
RIGHT = """
import cs_input_analyzer as csia

cluster = csia.Cluster({cluster})
run = csia.analyze("data.py:f", demand="7k", cluster=cluster, worker_memory_bytes="8GiB", mount_dirs=["/a"], feed="first-come")
run.plan(current="2x8x4", headroom_ratio=0.2).validate(layouts=["1x1x1"], max_seconds="2min", launcher="slurm")
csia.compare(run, "b.json", measure=True, rounds=2)
"""


@pytest.mark.slow
def test_a_type_checker_sees_wrong_keywords_and_types(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    given = {name: "1" if name in ("nodes", "cpus_per_node") else "..." for name in (field.name for field in fields(Cluster))}
    given |= {"memory_bytes_per_node": '"128GiB"', "storage_bytes_per_s": '"5GB/s"'}
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "right.py").write_text(RIGHT.format(cluster=", ".join(f"{name}={value}" for name, value in given.items())))
    options = ("--config-file", str(ROOT / "pyproject.toml"))  # those of `make check`, so that its cache serves here too
    names = [str(tmp_path / "wrong.py"), str(tmp_path / "right.py")]
    found = subprocess.run([sys.executable, "-m", "mypy", *options, *names], cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in found.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[1] for line in lines if "wrong.py" in line] == ["4", "5", "6", "7", "8"], found.stdout
    assert not [line for line in lines if "right.py" in line and "ellipsis" not in line.lower()], found.stdout
