"""Which of the vendor's public reference scripts reach their input on this TensorFlow, unchanged, with their own params?

Each configuration is tried in the script form, `python run.py --mode train --params …`, and by its `data.py:train_input_fn`: found,
built in a worker, and a short window of it measured. Where a package is missing, what the message proposes is done, and noted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.launching import PATIENCE_S, launched
from benchmarks.vendor_scripts.releases import Case, cases_of, take_out
from benchmarks.vendor_scripts.synthetic import with_data
from cs_input_analyzer.engines.local import LocalLauncher
from cs_input_analyzer.engines.script import find_captures
from cs_input_analyzer.errors import AnalyzerError
from cs_input_analyzer.records import Options
from cs_input_analyzer.worker.capture import from_command, is_script
from cs_input_analyzer.workflows.probing.failures import failure_of

# The shortest window, and the longest: a batch of a thousand samples made in Python takes seconds.
WINDOW_S, LONGEST_WINDOW_S = 0.5, 30.0


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


def measured(launcher: LocalLauncher, target: str, params: dict[str, Any] | None, packages: tuple[str, ...]) -> Reached:
    """One worker. Raises the error that the user would see."""
    found = launched(launcher, target, params, "1x1x1", window_s=WINDOW_S, longest_s=LONGEST_WINDOW_S, stand_ins=packages)
    if found.failure is not None:
        raise failure_of(found.failure, Options(max_seconds=PATIENCE_S), is_script=is_script(target))
    pipeline = found.pipeline
    assert pipeline is not None
    return Reached(problem=None, batch_size=pipeline.batch_size, stand_ins=pipeline.stand_ins, packages=packages)


def tried(attempt: Callable[[tuple[str, ...]], Reached]) -> Reached:
    """Return the result of the attempt, repeated with each stand-in that its message proposes."""
    began_s = time.monotonic()
    packages: tuple[str, ...] = ()
    while True:
        try:
            reached = attempt(packages)
            break
        except AnalyzerError as error:
            proposed = re.search(r"--stand-in (\w+)", str(error))
            if proposed is None or proposed.group(1) in packages:
                reached = Reached(problem=str(error), packages=packages)
                break
            packages = (*packages, proposed.group(1))
    return Reached(**{**asdict(reached), "seconds": time.monotonic() - began_s})


def forms_of(case: Case, for_scripts: LocalLauncher, for_targets: LocalLauncher, data: Path) -> tuple[Reached, Reached | None]:
    """Return the results of the script and of the target."""
    random.seed(0)
    data.mkdir()
    params = with_data(yaml.safe_load(case.config.read_text(encoding="utf-8")), data, case.folder)
    config = data / "params.yaml"
    config.write_text(yaml.safe_dump(params))
    script = from_command(
        ["python", "run.py", "--mode", "train", "--params", str(config), "--model_dir", str(data / "model_dir")], number=1
    )

    def by_script(packages: tuple[str, ...]) -> Reached:
        find_captures(script, PATIENCE_S, packages=packages)
        return measured(for_scripts, script.target, None, packages)

    def by_target(packages: tuple[str, ...]) -> Reached:
        return measured(for_targets, f"{case.folder / 'data.py'}:train_input_fn", params, packages)

    return tried(by_script), tried(by_target) if (case.folder / "data.py").is_file() else None


@contextlib.contextmanager
def in_its_folder(case: Case) -> Iterator[None]:
    """As a user is who runs a script: in its folder, with the repository on PYTHONPATH."""
    was, before = Path.cwd(), os.environ.get("PYTHONPATH", "")
    os.chdir(case.folder)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(case.root), before])
    try:
        yield
    finally:
        os.chdir(was)
        os.environ["PYTHONPATH"] = before


def cell(reached: dict[str, Any] | None) -> str:
    if reached is None:
        return "no data.py"
    if reached["problem"] is not None:
        return f"no: {reached['problem'].partition(';')[0].removeprefix('the input function failed: ')}"
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
                with in_its_folder(case):
                    launchers = LocalLauncher(1), LocalLauncher(1)
                    try:
                        script, target = forms_of(case, *launchers, Path(temporary) / f"data{number}")
                    finally:
                        for launcher in launchers:
                            launcher.close()
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
    repository, file = os.path.abspath(chosen.zoo), os.path.abspath(chosen.json) if chosen.json else None
    rows = list(rows_of(repository, chosen.release or ("R_1.6.0", "R_1.6.1"), only=chosen.only))
    show(rows)
    if file:
        Path(file).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
