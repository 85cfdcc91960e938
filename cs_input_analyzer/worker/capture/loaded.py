"""Has modules looked after as soon as they are loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType
from typing import Any

from cs_input_analyzer.worker.capture.missing import Finder

__all__ = ["Loaded"]


class Loaded(MetaPathFinder):
    """First on `sys.meta_path`: has modules looked `after` as soon as they are loaded, those that it `wants`."""

    def __init__(self, wants: Callable[[str], bool], after: Callable[[ModuleType], None]) -> None:
        self._wants, self._after = wants, after

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if not self._wants(name):
            return None
        for finder in sys.meta_path:
            if not isinstance(finder, Loaded | Finder) and (spec := finder.find_spec(name, path, None)) is not None:
                if spec.loader is not None:
                    spec.loader = _Then(spec.loader, self._after)
                return spec
        return None


class _Then(Loader):
    """Another loader, and something to do after it."""

    def __init__(self, loader: Any, after: Callable[[ModuleType], None]) -> None:
        self._loader, self._after = loader, after

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._after(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
