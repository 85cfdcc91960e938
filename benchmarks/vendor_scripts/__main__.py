"""Which of the vendor's public reference scripts reach their input on this TensorFlow, unchanged, with their own params?

Each configuration is tried in the script form, `python run.py --mode train --params …`, and by its `data.py:train_input_fn`: found,
built in a worker, and a short window of it measured. Where a package is missing, what the message proposes is done, and noted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.by_command import CommandError, analyzed
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
    batch_size: int | None = None
    stand_ins: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    seconds: float = 0.0


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
        try:
            read = analyzed(subject, options, PATIENCE_S, **where).pipeline
            result: dict[str, Any] = {"problem": None, "batch_size": read.batch_size, "stand_ins": read.stand_ins}
        except CommandError as error:
            proposed = re.search(r"--stand-in (\w+)", str(error))
            if proposed is not None and proposed.group(1) not in packages:
                packages = (*packages, proposed.group(1))
                continue
            result = {"problem": str(error)}
        return Reached(**result, packages=packages, seconds=time.monotonic() - began_s)


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


def cell(reached: dict[str, Any] | None) -> str:
    if reached is None:
        return "no data.py"
    if reached["problem"] is not None:
        return f"no: {reached['problem'].partition(';')[0]}"
    return f"batches of {reached['batch_size']} ({reached['seconds']:.0f} s)"


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print a line for each configuration, the releases beside each other."""
    releases = list(dict.fromkeys(row["release"] for row in rows))
    columns = [f"{release}, {form}" for release in releases for form in ("script", "data.py")]
    print(f"| model | params | {' | '.join(columns)} | --stand-in |\n|---|---|{'---|' * len(columns)}---|")
    for model, config in dict.fromkeys((row["model"], row["config"]) for row in rows):
        those = {row["release"]: row for row in rows if (row["model"], row["config"]) == (model, config)}
        cells = [cell(those[release][form]) if release in those else "" for release in releases for form in ("script", "target")]
        packages = dict.fromkeys(name for row in those.values() for form in ("script", "target") for name in packages_of(row[form]))
        print(f"| {model} | {config} | {' | '.join(cells)} | {', '.join(packages)} |")
    for form in ("script", "target"):
        tries = [row[form] for row in rows if row[form] is not None]
        print(f"{form}: {sum(one['problem'] is None for one in tries)} of {len(tries)} reach their input")


def packages_of(reached: dict[str, Any] | None) -> Sequence[str]:
    return reached["packages"] if reached is not None else ()


def rows_of(repository: str, releases: Sequence[str], *, only: str) -> Iterator[dict[str, Any]]:
    for release in releases:
        with tempfile.TemporaryDirectory() as temporary:
            root = Path(temporary) / release
            take_out(repository, release, root)
            for number, case in enumerate(case for case in cases_of(release, root) if only in case.model):
                script, target = forms_of(case, Path(temporary) / f"data{number}")
                forms = {"script": asdict(script), "target": asdict(target) if target else None}
                print(
                    release, case.model, case.config.name, cell(forms["script"]), cell(forms["target"]), sep="; ", file=sys.stderr
                )
                yield {"release": release, "model": case.model, "config": case.config.name, **forms}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vendor_scripts", description=__doc__)
    parser.add_argument("--zoo", required=True, metavar="REPOSITORY", help="a git clone of the public Cerebras/modelzoo")
    parser.add_argument("--release", action="append", metavar="TAG", help="default: R_1.6.0 and R_1.6.1")
    parser.add_argument("--only", default="", metavar="TEXT", help="models whose folder has this in its name")
    parser.add_argument("--json", metavar="FILE")
    chosen = parser.parse_args()
    rows = list(rows_of(chosen.zoo, chosen.release or ("R_1.6.0", "R_1.6.1"), only=chosen.only))
    show(rows)
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
