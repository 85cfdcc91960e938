"""Load the user's modules from changed texts, as a patch would make them. The files stay unchanged.

A module keeps its file name, so that it finds data beside it. AutoGraph, which reads the source of a function again, reads the
changed one.
"""

from __future__ import annotations

import importlib
import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from cs_input_analyzer.errors import TargetError
from cs_input_analyzer.tfdata.source.statements import is_installed

_NOT_THE_USERS = frozenset({"__main__", "__mp_main__", "cs_input_analyzer", "wafer_model"})


@contextmanager
def patched_sources(texts: Mapping[str, str]) -> Iterator[None]:
    """Load files of these paths with these texts, and the user's other modules again, while open.

    At the end the previous modules come back. Raise TargetError then, if one of the files was not loaded.
    """
    changed = {os.path.realpath(path): text for path, text in texts.items()}
    unread = set(changed)
    original: Any = SourceFileLoader.get_code
    sources = dict(linecache.cache)

    def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        text = changed.get(os.path.realpath(loader.path))
        if text is None:
            code: CodeType | None = original(loader, fullname)
            return code
        unread.discard(os.path.realpath(loader.path))
        # Without a time of change, `linecache` does not look whether the file has another text.
        linecache.cache[loader.path] = (len(text), None, re.findall(r"[^\n]*\n|[^\n]+", text), loader.path)
        compiled: CodeType = compile(text, loader.path, "exec", dont_inherit=True)
        return compiled

    put_aside = {name: sys.modules.pop(name) for name in _users_modules(changed)}
    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]
    importlib.invalidate_caches()
    try:
        yield
        if unread:  # a function that was handed over, or is run by its name: it would be the original once more
            raise TargetError(f"{', '.join(sorted(unread))} is not loaded anew here, so that a change of it shows nothing")
    finally:
        del SourceFileLoader.get_code
        for name in _users_modules(changed):
            del sys.modules[name]
        sys.modules.update(put_aside)
        linecache.cache.clear()
        linecache.cache.update(sources)


def _users_modules(changed: Mapping[str, str]) -> list[str]:
    """Return the loaded modules of the user.

    A package with compiled modules stays loaded, because many refuse a second load. A package with a changed file does not.
    """
    files = {name: str(file) for name, module in list(sys.modules.items()) if (file := getattr(module, "__file__", None))}
    packages = {name.partition(".")[0] for name, file in files.items() if os.path.realpath(file) in changed}
    compiled = {name.partition(".")[0] for name, file in files.items() if not file.endswith(".py")}
    stay, stdlib = compiled | _NOT_THE_USERS, sysconfig.get_path("stdlib")
    own = {name for name, file in files.items() if not is_installed(file) and not Path(file).is_relative_to(stdlib)}
    return [name for name in files if (top := name.partition(".")[0]) in packages or (top not in stay and name in own)]
