"""Start one of our own processes: build its command line, its environment and its pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import cs_input_analyzer
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.worker.isolation import Wanted

# The variable that holds the private folder of the command that started the process.
MARK = "CS_INPUT_ANALYZER_FOLDER"

# The package may be a plain checkout. Its root goes last on the path, so it hides none of the user's modules.
_BOOTSTRAP = (
    "import sys; root = sys.argv.pop(1); sys.path[:] = [p for p in sys.path if p] + [root]; "
    "import importlib; importlib.import_module(sys.argv.pop(1)).main(sys.argv[1:])"
)


def command(module: str, *arguments: str, isolated: Wanted | None = None) -> list[str]:
    """Return the command line that calls `main` of one of our modules.

    With `isolated`, the process runs on the private files of its launch.
    """
    root = str(Path(cs_input_analyzer.__file__).resolve().parent.parent)
    first = []
    if isolated is not None:
        place, network = str(isolated.place or ""), str(int(isolated.has_network))
        first = ["cs_input_analyzer.worker.isolation", str(isolated.launch), place, network, str(os.getpid())]
    return [sys.executable, "-c", _BOOTSTRAP, root, *first, module, *arguments]


def environment(folder: Path) -> dict[str, str]:
    """Return the user's environment, without accelerators and without TensorFlow's log lines.

    The variable `MARK` names the private folder of the command.
    """
    return {
        **os.environ,
        MARK: str(folder),
        "CUDA_VISIBLE_DEVICES": "-1",
        "TPU_VISIBLE_CHIPS": "",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",  # write nothing into the user's folders
    }


def started(line: list[str], scratch: Path, variables: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a process with pipes, for the command with the private folder `scratch`. Add `variables` to its environment."""
    try:
        return subprocess.Popen(
            line,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**environment(scratch), **(variables or {})},
            start_new_session=True,  # the parent handles Ctrl-C; the whole group can be ended at once
        )
    except OSError as error:
        raise LaunchError(f"a process could not be started: {error}") from error
