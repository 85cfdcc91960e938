"""Which of the vendor's public reference scripts reach their input on this TensorFlow, unchanged, with their own params?

Each configuration is tried in the script form, `python run.py --mode train --params …`, and by its `data.py:train_input_fn`: found,
built in a worker, and a short window of it measured. Where a package is missing, what the message proposes is done, and noted.
"""

from __future__ import annotations

import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from benchmarks.by_command import CommandError, analyzed
from benchmarks.paired import arguments, save
from benchmarks.vendor_scripts.releases import Case, cases_of, take_out
from benchmarks.vendor_scripts.synthetic import with_data

# A batch of a thousand samples made in Python takes seconds.
LONGEST_WINDOW_S = 30
PATIENCE_S = 300.0
# One worker on one CPU, until its rate is known roughly.
SHORTLY = (
    *("--probe-layouts", "1x1x1", "--cpus", "1", "--target-error", "0.5", "--max-seconds", str(LONGEST_WINDOW_S)),
    *("--no-measure-fixes", "--fresh"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The result of one form.

    Attributes:
        problem: None if a batch of samples was read.
        packages: packages given to --stand-in.
    """

    problem: str | None
    batch_size: int | None
    packages: tuple[str, ...]
    seconds: float


def tried(case: Case, subject: Sequence[str]) -> Reached:
    """Return what a command reaches, repeated with each stand-in that its message proposes.

    It runs in the folder of the script with the repository on PYTHONPATH, as a user runs it.
    """
    path = os.pathsep.join([str(case.root), os.environ.get("PYTHONPATH", "")])
    where = {"folder": case.folder, "environment": {**os.environ, "PYTHONPATH": path}}
    packages: tuple[str, ...] = ()
    began_s = time.monotonic()
    while True:
        options = [*SHORTLY, *(["--stand-in", ",".join(packages)] if packages else [])]
        problem = batch_size = None
        try:
            batch_size = analyzed(subject, options, PATIENCE_S, **where).pipeline.batch_size
        except CommandError as error:
            problem = str(error)
            proposed = re.search(r"--stand-in (\w+)", problem)
            if proposed is not None and proposed.group(1) not in packages:
                packages = (*packages, proposed.group(1))
                continue
        return Reached(problem=problem, batch_size=batch_size, packages=packages, seconds=time.monotonic() - began_s)


def forms_of(case: Case, data: Path) -> tuple[Reached, Reached | None]:
    """Return the results of the script and of the target."""
    random.seed(0)
    data.mkdir()
    config = data / "params.yaml"
    config.write_text(yaml.safe_dump(with_data(yaml.safe_load(case.config.read_text(encoding="utf-8")), data, case.folder)))
    params = ["--params", str(config)]
    script = tried(case, ["python", "run.py", "--mode", "train", *params, "--model_dir", str(data / "model_dir")])
    has_target = (case.folder / "data.py").is_file()
    return script, tried(case, ["analyze", "data.py:train_input_fn", *params]) if has_target else None


def cell(reached: Reached | None) -> str:
    if reached is None:
        return "no data.py"
    if reached.problem is not None:
        return f"no: {reached.problem.partition(';')[0]}"
    return f"batches of {reached.batch_size} ({reached.seconds:.0f} s)"


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print a line for each configuration, the releases beside each other."""
    releases = list(dict.fromkeys(row["release"] for row in rows))
    columns = [f"{release}, {form}" for release in releases for form in ("script", "data.py")]
    print(f"| model | params | {' | '.join(columns)} | --stand-in |\n|---|---|{'---|' * len(columns)}---|")
    for model, config in dict.fromkeys((row["model"], row["config"]) for row in rows):
        those = {row["release"]: row for row in rows if (row["model"], row["config"]) == (model, config)}
        cells = [cell(those[release][form]) if release in those else "" for release in releases for form in ("script", "target")]
        tries = [row[form] for row in those.values() for form in ("script", "target") if row[form] is not None]
        packages = dict.fromkeys(name for one in tries for name in one.packages)
        print(f"| {model} | {config} | {' | '.join(cells)} | {', '.join(packages)} |")
    for form in ("script", "target"):
        tries = [row[form] for row in rows if row[form] is not None]
        print(f"{form}: {sum(one.problem is None for one in tries)} of {len(tries)} reach their input")


def rows_of(repository: str, releases: Sequence[str], *, only: str) -> Iterator[dict[str, Any]]:
    for release in releases:
        with tempfile.TemporaryDirectory() as temporary:
            root = Path(temporary) / release
            take_out(repository, release, root)
            for number, case in enumerate(case for case in cases_of(root) if only in case.model):
                script, target = forms_of(case, Path(temporary) / f"data{number}")
                print(release, case.model, case.config.name, cell(script), cell(target), sep="; ", file=sys.stderr)
                yield {"release": release, "model": case.model, "config": case.config.name, "script": script, "target": target}


def main() -> None:
    options = arguments(
        __doc__,
        zoo=(str, ".", "a git clone of the public Cerebras/modelzoo"),
        release=(str, "R_1.6.0,R_1.6.1", "its tags, with commas between"),
        only=(str, "", "models whose folder has this in its name"),
    )
    rows = list(rows_of(options.zoo, options.release.split(","), only=options.only))
    show(rows)
    save(options.json, {"rows": msgspec.to_builtins(rows)})


if __name__ == "__main__":
    main()
