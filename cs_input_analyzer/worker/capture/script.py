"""The user's own command line, `python run.py ARGS`, as a target that names a script."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cs_input_analyzer.errors import TargetError
from cs_input_analyzer.planning.train_command import is_python

PREFIX = "script:"
# By the presence of this module a script sees that weights are streamed; that is what `python-ws` is for.
_STREAMING = "tfwse"
# Options of Python that change nothing about the data a script reads.
_PLAIN = re.compile(r"-[bBdEiIOPqsSuvx]+")
_VALUED = ("-W", "-X")


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A command that runs a script, by its `file` or `module`, and the number of the call that is meant, None while they are
    looked for."""

    number: int | None = None
    python: str
    file: str | None
    module: str | None
    arguments: tuple[str, ...]

    @property
    def command(self) -> str:
        """As a shell would take it."""
        what = [self.file] if self.file is not None else ["-m", str(self.module)]
        return shlex.join([self.python, *what, *self.arguments])

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """Packages that are there under the Python that it names."""
        return (_STREAMING,) if self.python.endswith("-ws") else ()

    @property
    def target(self) -> str:
        """The text that `parse_script` reads."""
        return f"{PREFIX}{self.number or 0}:{self.command}"


def is_script(target: str) -> bool:
    return target.startswith(PREFIX)


def other_python(word: str) -> str | None:
    """The Python that a shell would run for `word`, where it is not the one that runs this; None where it is, or none is found."""
    found = shutil.which(word)
    if found is None or os.path.dirname(os.path.abspath(found)) == os.path.dirname(os.path.abspath(sys.executable)):
        return None
    return found


def parse_script(target: str) -> Script:
    """Reads `script:1:python run.py ARGS`. Raises TargetError."""
    number, colon, command = target.removeprefix(PREFIX).partition(":")
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not is_script(target) or not colon or not number.isdigit() or not words:
        raise TargetError(f"target {target!r} is not understood: write script:1:python run.py ARGS")
    return from_command(words, number=int(number) or None)


def from_command(words: Sequence[str], number: int | None = None) -> Script:
    """Reads the words of a command, and checks that the script it names is there. Raises TargetError."""
    python, *rest = words
    if not is_python(python):
        raise TargetError(f"{python!r} is not Python: write the command that trains, for example python run.py --mode=train")
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        option = rest.pop(0)
        if option in _VALUED and rest:
            rest.pop(0)
        elif not (_PLAIN.fullmatch(option) or option.startswith(_VALUED)):
            raise TargetError(f"{python} {option} cannot be run here; write {python} SCRIPT.py ARGS or {python} -m MODULE ARGS")
    if not rest or rest == ["-m"]:
        raise TargetError(f"{python}: which script? Write {python} run.py ARGS")
    name = os.path.basename(python)
    if rest[0] == "-m":
        module = rest[1]
        if not all(part.isidentifier() for part in module.split(".")):
            raise TargetError(f"{python} -m {module}: {module!r} is no name of a module")
        return Script(number=number, python=name, file=None, module=module, arguments=tuple(rest[2:]))
    if not Path(rest[0]).is_file():
        raise TargetError(f"{python} {rest[0]}: there is no file {rest[0]} (looked from {Path.cwd()})")
    return Script(number=number, python=name, file=rest[0], module=None, arguments=tuple(rest[1:]))
