"""Programs and libraries that benchmarks compile, once for each source and each compiler's command."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import platformdirs


def compiled(source: Path, command: Sequence[str], libraries: Sequence[str] = ()) -> Path:
    """Return what a command makes of a source, from the user's cache folder where it is there already. Raise RuntimeError.

    Not from the temporary folder: every worker has its own, and would build its own.
    """
    key = hashlib.sha256(source.read_bytes() + repr((command, libraries)).encode()).hexdigest()[:16]
    folder = Path(platformdirs.user_cache_dir("cs_input_analyzer", ensure_exists=True))
    made = folder / f"{source.stem}-{key}"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=folder) as place:
            unfinished = Path(place) / made.name
            try:
                run = subprocess.run([*command, str(source), "-o", str(unfinished), *libraries], capture_output=True, text=True)
            except FileNotFoundError:
                raise RuntimeError(f"{command[0]} is not installed; apt-get install {command[0]}") from None
            if run.returncode != 0:
                raise RuntimeError(f"{source.name} does not build:\n{run.stderr[-2000:]}")
            unfinished.replace(made)  # at once: another process may be building it too
    return made
