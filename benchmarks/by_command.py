"""The analyzer as a user runs it: a command in a folder, and the run that it writes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from cs_input_analyzer import load_analysis
from cs_input_analyzer.api import Analysis


class CommandError(Exception):
    """The command wrote no run; its exit code, and the message that the user would read."""


def analyzed(
    subject: Sequence[str],
    options: Sequence[str],
    patience_s: float,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Analysis:
    """Return the run of `analyze TARGET` or of `python SCRIPT`, started in a folder. Raise CommandError."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "run.json"
        options = [*options, "--quiet", "--json", str(file)]
        words = [*options, *subject] if subject[0] == "python" else [*subject, *options]
        command = [sys.executable, "-m", "cs_input_analyzer", *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=patience_s, cwd=folder)
        except subprocess.TimeoutExpired as error:
            raise CommandError(f"not done after {error.timeout:.0f} s") from error
        if done.returncode != 0 or not file.is_file():
            message = f"\n{done.stderr}".rpartition("\ncs_input_analyzer: ")[2]  # a traceback of the user's code stands before it
            raise CommandError(f"exit {done.returncode}: {' '.join(message.split())}")
        return load_analysis(file)
