"""Hook imports: make stand-ins for missing modules, and patch modules when they are loaded.

A stand-in is made only if Python finds no module, and only in three cases. The user's own code imports it below `tensorflow` or
`keras` and does not expect that it may be missing. It belongs to the vendor's packages, which are in a closed container. The user
has named its package.
"""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import linecache
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from types import FrameType, ModuleType
from typing import Any

from cs_input_analyzer.tfdata.graph import is_users_own
from cs_input_analyzer.worker.capture.estimators import KNOWN
from cs_input_analyzer.worker.capture.launchers import known_of
from cs_input_analyzer.worker.capture.stand_ins import StandIn, made_for

_ATTRIBUTE = "estimator"
_SHRINKING = ("tensorflow", "keras")
_VENDORS = ("cerebras", "tensorflow_estimator")
_IMPORTING = ("importlib", "importlib._bootstrap", "importlib._bootstrap_external")
_ASKING = "importlib.util"
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_CATCHING = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")


@contextmanager
def patching_on_import(names: Sequence[str], patch: Callable[[ModuleType], None]) -> Iterator[None]:
    """Patch the modules of these names: loaded ones now, others when they are loaded while open."""
    finder = _PatchingFinder(names, patch)
    sys.meta_path.insert(0, finder)
    try:
        for name in names:
            if name in sys.modules:
                patch(sys.modules[name])
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def standing_in(named: Sequence[str], on_stub: Callable[[str], None]) -> Iterator[None]:
    """Give missing modules stand-ins while open: TensorFlow's, the vendor's, and those that are `named`.

    Call `on_stub` with the name of such a module at each use.
    """
    # Loaded before they are looked at: `import tensorflow.compat.v1` makes another module than `tf.compat.v1` was until then.
    homes = [importlib.import_module(name) for name in ("tensorflow", "tensorflow.compat.v1", "tensorflow.compat.v2")]
    finder = _StandInFinder(tuple(named), on_stub)
    sys.meta_path.append(finder)  # the last: asked where all others have found nothing
    lost = [module for module in homes if _ATTRIBUTE not in vars(module)]
    estimator = StandIn("tensorflow.estimator", KNOWN, on_stub)
    for module in lost:  # not in its dictionary: some of these modules keep another of what was asked for
        setattr(module, _ATTRIBUTE, estimator)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for module in lost:
            delattr(module, _ATTRIBUTE)
        finder.forget()


def innermost(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of modules, each once, without those that only hold another of them."""
    every = tuple(dict.fromkeys(names))
    return tuple(name for name in every if not any(other.startswith(f"{name}.") for other in every))


def missing_advice(message: str) -> str:
    """Return advice on a package that is not installed, if the message says so."""
    missing = re.search(r"No module named '([\w.]+)'", message)
    if missing is None:
        return ""
    package = missing.group(1).partition(".")[0]
    alone = ", and the script runs as rank 0 of 1" if known_of(package) else ""
    return f"; install it, or where the data need nothing of it, give --stand-in {package}{alone}"


def is_vendors(name: str) -> bool:
    """Return whether a module belongs to a package of the vendor, or to Estimators."""
    top = name.partition(".")[0]
    return top in _VENDORS or top.startswith("cerebras_")


class _StandInFinder(MetaPathFinder, Loader):
    """Find and load stand-ins, as the last finder on `sys.meta_path`."""

    def __init__(self, named: tuple[str, ...], on_stub: Callable[[str], None]) -> None:
        self._named, self._on_stub = named, on_stub
        self._made: dict[str, Any] = {}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """Return a stand-in's spec if the importing code may have one."""
        importer: FrameType | None = sys._getframe(1)  # of the code that imports, or asks whether it could
        while importer is not None and importer.f_globals.get("__name__") in _IMPORTING:
            importer = importer.f_back
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if self._stands_in(name, importer) else None

    def _stands_in(self, name: str, importer: FrameType | None) -> bool:
        is_question = importer is not None and importer.f_globals.get("__name__") == _ASKING
        if any(name == package or name.startswith(f"{package}.") for package in self._named):
            return True
        if is_vendors(name):
            # Some releases ask whether they are in the vendor's source tree, `cerebras`, or beside its wheels, `cerebras_…`, and
            # go by the answer: users have the wheels.
            return not (is_question and name.partition(".")[0] == "cerebras")
        if name.partition(".")[0] not in _SHRINKING or "." not in name or importer is None or is_question:
            return False
        # Packages try for modules that they can do without, TensorFlow among them.
        return is_users_own(importer.f_code.co_filename) and not expects_import_error(
            importer.f_code.co_filename, importer.f_lineno
        )

    def create_module(self, spec: Any) -> ModuleType:
        """Return a stand-in that knows the names of Estimators and of Horovod."""
        return StandIn(spec.name, {**KNOWN, **known_of(spec.name)}, self._on_stub)

    def exec_module(self, module: ModuleType) -> None:
        """Replace the stand-in by a class if its name is that of a class: `from tensorflow.keras.layers import Lost`."""
        parent, _, name = module.__name__.rpartition(".")
        if parent and not isinstance(sys.modules.get(parent), StandIn) and name[:1].isupper():
            self._on_stub(module.__name__)
            sys.modules[module.__name__] = made_for(parent, name, KNOWN)
        else:  # to be named, also where nothing of it is used
            self._on_stub(module.__name__)
        self._made[module.__name__] = sys.modules[module.__name__]

    def forget(self) -> None:
        """Remove the stand-ins, so that their modules are missing again."""
        for name, made in self._made.items():
            parent, _, last = name.rpartition(".")
            if sys.modules.get(name) is made:
                del sys.modules[name]
            holder = sys.modules.get(parent)
            if holder is not None and vars(holder).get(last) is made:
                delattr(holder, last)


class _PatchingFinder(MetaPathFinder):
    """Have the loaders of wanted modules patch them, as the first finder on `sys.meta_path`."""

    def __init__(self, names: Sequence[str], patch: Callable[[ModuleType], None]) -> None:
        self._names, self._patch = names, patch

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """Return the spec of a wanted module, with a loader that patches it."""
        if name not in self._names:
            return None
        for finder in sys.meta_path:
            if (
                not isinstance(finder, _PatchingFinder | _StandInFinder)
                and (spec := finder.find_spec(name, path, None)) is not None
            ):
                if spec.loader is not None:
                    self._patch_after(spec.loader)
                return spec
        return None

    def _patch_after(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._patch(module)

        loader.exec_module = exec_module


def is_shape_peek(source: str) -> bool:
    """Return whether the statement at `path:line` takes one element outside of a loop.

    Scripts do that to build their model by its shape: `name = next(iter(dataset))`, `next(dataset.as_numpy_iterator())`, a part of
    these, or a loop that breaks in its first round.
    """
    path, _, line = source.rpartition(":")
    if not line.isdigit():
        return False
    here = [node for node in _nodes(path) if getattr(node, "lineno", 0) <= int(line) <= (getattr(node, "end_lineno", 0) or 0)]
    loops = [node for node in here if isinstance(node, _LOOPS)]
    if len(loops) == 1 and isinstance(loops[0], ast.For):
        begins = loops[0].lineno <= int(line) <= (loops[0].iter.end_lineno or 0)
        return begins and any(isinstance(statement, ast.Break) for statement in loops[0].body)
    return not loops and any(isinstance(node, ast.Assign | ast.AnnAssign) and _takes_first(node.value) for node in here)


def takes_to_the_end(source: str) -> bool:
    """Return whether a `for` takes its data until they end: it is in another loop, or has no `break`.

    The `for` is at `path:line`, or it is over the name that the statement there assigns.
    """
    path, _, line = source.rpartition(":")
    at, nodes = int(line) if line.isdigit() else 0, _nodes(path)
    loops = [node for node in nodes if isinstance(node, _LOOPS)]
    statements = [node for node in nodes if isinstance(node, ast.Assign) and node.lineno <= at <= (node.end_lineno or 0)]
    names = _names_in(target for statement in statements for target in statement.targets)
    return any(
        (loop.lineno <= at <= (loop.iter.end_lineno or 0) or not names.isdisjoint(_names_in([loop.iter])))
        and (_is_inside(loop, loops) or not any(isinstance(node, ast.Break) for node in ast.walk(loop)))
        for loop in loops
        if isinstance(loop, ast.For)
    )


def _names_in(expressions: Iterable[ast.expr]) -> set[str]:
    """Return the names and attributes in expressions: `data` of `self.data`."""
    parts = [node for expression in expressions for node in ast.walk(expression)]
    named = {node.id for node in parts if isinstance(node, ast.Name) and node.id != "self"}
    return named | {node.attr for node in parts if isinstance(node, ast.Attribute)}


def _is_inside(loop: ast.stmt, others: Sequence[ast.AST]) -> bool:
    """Return whether a loop is in another one."""
    return any(other is not loop and loop in ast.walk(other) for other in others)


def expects_import_error(path: str, line: int) -> bool:
    """Return whether the statement is in a `try` that handles a failed import."""
    return any(
        isinstance(node, ast.Try)
        and any(tried.lineno <= line <= (tried.end_lineno or 0) for tried in node.body)
        and any(_catches_import_error(handler.type) for handler in node.handlers)
        for node in _nodes(path)
    )


def _nodes(path: str) -> list[ast.AST]:
    """Return the nodes of a file's syntax tree; none if it cannot be read."""
    try:
        return list(ast.walk(ast.parse("".join(linecache.getlines(path)))))
    except (SyntaxError, ValueError):
        return []


def _takes_first(value: ast.expr | None) -> bool:
    while isinstance(value, ast.Subscript | ast.Attribute):
        value = value.value
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "next" and len(value.args) == 1):
        return False
    taken = value.args[0]
    if not isinstance(taken, ast.Call):
        return False
    is_iter = isinstance(taken.func, ast.Name) and taken.func.id == "iter" and len(taken.args) == 1
    return is_iter or (isinstance(taken.func, ast.Attribute) and taken.func.attr == "as_numpy_iterator")


def _catches_import_error(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(isinstance(kind, ast.Name | ast.Attribute) and ast.unparse(kind).rpartition(".")[2] in _CATCHING for kind in kinds)
