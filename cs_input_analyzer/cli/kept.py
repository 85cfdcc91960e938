"""Runs that commands keep in the cache folder, so that the next command needs no file."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from cs_input_analyzer.cli.terminal import complain
from cs_input_analyzer.errors import AnalyzerError, UsageError

if TYPE_CHECKING:
    from cs_input_analyzer.records import Analysis

FOLDER, MOST_KEPT = "runs", 20


def keep(run: Analysis) -> Path | None:
    """Keep a run, and no more than the newest `MOST_KEPT`. Return its file, or None, and say why, if it cannot be written."""
    from cs_input_analyzer import report as reports

    began = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H%M%S.%f")
    named = re.sub(r"[^\w.-]+", "_", reports.masked(run).pipeline.target)[-60:]
    path = _folder() / f"{began}-{named}.json"
    try:
        path.parent.mkdir(exist_ok=True, mode=0o700)
        reports.write_report(path, reports.render(run, "json"), "json")
        for old in kept()[:-MOST_KEPT]:
            old.unlink(missing_ok=True)
    except (OSError, AnalyzerError) as error:
        complain(f"the run is not kept for later commands: {error}")
        return None
    return path


def kept() -> list[Path]:
    """Return the files of the runs that are kept, the newest last."""
    return sorted(_folder().glob("*.json"))


def given_or_newest(*files: str | None) -> tuple[str, ...]:
    """Return the files of a command's runs; in place of those that were not given, the newest runs that are kept, and say which.

    Raises:
        UsageError: fewer are kept than are wanted.
    """
    given = [file for file in files if file is not None]
    wanted = len(files) - len(given)
    if wanted == 0:
        return tuple(given)
    found = [str(path) for path in kept()[-wanted:]]
    if len(found) < wanted:
        raise UsageError("no run is kept here yet: name a file, RUN.json, or run `cs_input_analyzer analyze TARGET` first")
    complain(f"takes {' and '.join(found)}")
    return (*given, *found)


def _folder() -> Path:
    from cs_input_analyzer.files import cache_folder

    return cache_folder() / FOLDER
