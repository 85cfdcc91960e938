"""The place where one public pipeline is tried: its files and data, a user's run of the analyzer, and the process of the truth."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import by_command
from benchmarks.in_process import FreshError, fresh
from benchmarks.public_pipelines import synthetic
from benchmarks.public_pipelines.listed import Listed
from benchmarks.vendor_scripts.releases import take_out
from cs_input_analyzer.api import Analysis

TARGETS = Path(__file__).with_name("targets.py")


class FailedError(Exception):
    """One step of one pipeline gave nothing; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place where one pipeline is tried."""

    listed: Listed
    checkouts: Path
    data: Path

    def environment(self) -> dict[str, str]:
        return {**os.environ, "TFDS_DATA_DIR": str(self.data), "KERAS_HOME": str(self.data)}


def place_for(listed: Listed, repositories: Path, folder: Path) -> Place:
    """Take the Python files of the listed commit out of the clone, and write the data. Raise FailedError."""
    missing = [name for name in listed.packages if importlib.util.find_spec(name) is None]
    if missing:
        raise FailedError(f"not installed: {', '.join(missing)}; put them into a folder, and that on PYTHONPATH")
    checkouts = folder / "checkouts"
    if listed.from_package is None:
        name = listed.repository.replace("/", "+")
        clone = next((path for path in (repositories / name / "repo", repositories / name) if path.is_dir()), None)
        if clone is None:
            raise FailedError(f"there is no clone {repositories / name} of github.com/{listed.repository}")
        try:
            take_out(str(clone), listed.commit, checkouts / name, needed=("*.py",))
        except (subprocess.CalledProcessError, tarfile.TarError) as error:
            raise FailedError(f"{clone} does not have commit {listed.commit}: {error}") from error
    data = folder / "data" / listed.name
    if listed.own_folder is not None:
        for path in (checkouts / listed.repository.replace("/", "+")).rglob("*.py"):
            path.write_text(path.read_text(encoding="utf-8").replace(listed.own_folder, str(data)), encoding="utf-8")
    synthetic.write(listed.name, data)
    return Place(listed=listed, checkouts=checkouts, data=data)


def analyzed(place: Place, seconds: float, patience_s: float, more: Sequence[str] = ()) -> Analysis:
    """Return what `analyze` finds, as a process of its own. Raise FailedError with what the user would read."""
    listed, folder = place.listed, None
    options = ["--max-seconds", str(seconds), *more]
    if listed.stand_ins:
        options += ["--stand-in", ",".join(listed.stand_ins)]
    if listed.script:
        script = place.checkouts / listed.repository.replace("/", "+") / listed.file
        subject, folder = ["python", script.name], script.parent
        options += ["--available-nodes", "4"]
    else:
        params = ["--set", f"checkouts={place.checkouts}", "--set", f"data={place.data}"]
        subject = ["analyze", f"{TARGETS}:{listed.name}", *params]
    try:
        return by_command.analyzed(subject, options, patience_s + seconds, folder=folder, environment=place.environment())
    except by_command.CommandError as error:
        raise FailedError(str(error)[:400]) from error


def measured(place: Place, step: Callable[..., Any], argument: Any, seconds: float) -> Any:
    """Return the result of a step of `truth.py`, in a fresh process. Raise FailedError."""
    try:
        where = place.listed.name, str(place.checkouts), str(place.data)
        return fresh(step, *where, argument, environment=place.environment(), patience_s=seconds)
    except FreshError as error:
        raise FailedError(" ".join(str(error).split())[-400:]) from error
