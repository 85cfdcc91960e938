"""Runs a user's script as Python would, unmodified, up to where it takes data."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from cs_input_analyzer.capture.doors import opened, opened_for_functions
from cs_input_analyzer.capture.gate import Gate, Taken, watch_writes
from cs_input_analyzer.capture.script import Script, parse_script

__all__ = ["NotReachedError", "captured", "run_script"]


class NotReachedError(Exception):
    """The script ended before the place that was chosen."""


def captured(target: str) -> Any:
    """The Dataset that a script would have taken its data from, or a function that gives it; `target` as `Script.target`.

    Raises what the script raises, and NotReachedError.
    """
    script = parse_script(target)
    gate = Gate(script.number or 1)
    run_script(script, gate, lambda name: None)
    if gate.taken is None:
        raise NotReachedError(f"`{script.command}` ended before capture {script.number}" + (f": {gate.why}" if gate.why else ""))
    make_eager()
    return _dataset_or_function(gate.taken)


def run_script(script: Script, gate: Gate, told: Callable[[str], None]) -> None:
    """Runs the script in this process until it ends, or is ended at the gate. Raises what it raises, SystemExit too.

    `told`: hears of modules that are stood in for. The script stays this process's `__main__`, which what was captured may need.
    """
    watch_writes()
    with gate.running(), opened(gate, is_streaming=script.python.endswith("-ws"), told=told):
        main, code = _prepared(script)
        try:
            exec(code, vars(main))
        except Exception:
            if gate.taken is None:  # raised after it had caught what was to end it
                raise
        except SystemExit:
            if gate.taken is None:
                raise


def _prepared(script: Script) -> tuple[ModuleType, CodeType]:
    """The module `__main__` and its code; arguments and search path as Python sets them."""
    main = ModuleType("__main__")
    if script.file is not None:
        path = os.path.abspath(script.file)
        folder, first = os.path.dirname(os.path.realpath(path)), script.file
    else:
        folder, first = os.getcwd(), "-m"
    sys.path[:] = [folder, *(entry for entry in sys.path if entry != folder)]
    sys.argv = [first, *script.arguments]
    importlib.invalidate_caches()
    if script.file is not None:
        # A loader's, so that a changed copy of the script can be tried as that of a module can.
        code = SourceFileLoader("__main__", path).get_code("__main__")
        assert code is not None
    else:
        spec, code = _of_module(str(script.module))
        path = spec.origin or ""
        main.__spec__, main.__package__ = spec, spec.parent
        sys.argv[0] = path
    main.__file__ = path
    sys.modules["__main__"] = main
    return main, code


def _of_module(name: str) -> tuple[Any, CodeType]:
    """As `python -m` finds it: of a package, its `__main__`."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    loader: Any = spec.loader if spec is not None else None
    code = loader.get_code(spec.name) if spec is not None and hasattr(loader, "get_code") else None
    if code is None:
        raise ModuleNotFoundError(f"there is no module {name} to run (looked in {os.getcwd()} and on PYTHONPATH)", name=name)
    return spec, code


def make_eager() -> None:
    """Undoes `disable_eager_execution`, which scripts of TensorFlow 1 begin with: what is captured is measured eagerly."""
    from tensorflow.python.eager import context

    context.default_execution_mode = context.EAGER_MODE
    context.context()._thread_local_data.is_eager = True


def _dataset_or_function(taken: Taken) -> Any:
    import tensorflow as tf

    if isinstance(taken.subject, tf.data.Dataset):
        return _eager(taken.subject)
    bound = functools.partial(taken.subject, **taken.arguments)

    @functools.wraps(bound)
    def build(*args: Any, **kwargs: Any) -> Any:
        gate = Gate(1)
        result = None
        with gate.running(), opened_for_functions(gate):
            result = bound(*args, **kwargs)
        return result if gate.taken is None else _eager(gate.taken.subject)

    return build


def _eager(dataset: Any) -> Any:
    """A dataset that was built in a graph, as one that can be iterated here; its ops keep the lines they were made on."""
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops
    from tensorflow.python.ops import gen_dataset_ops

    variant = dataset._variant_tensor
    if hasattr(variant, "numpy"):
        return dataset
    with variant.graph.as_default(), tf.compat.v1.Session(graph=variant.graph) as session:
        content = gen_dataset_ops.dataset_to_graph(variant, allow_stateful=True, strip_device_assignment=True)
        session.run(tf.compat.v1.tables_initializer())
        serialized = session.run(content)
    return dataset_ops._VariantDataset(tf.raw_ops.DatasetFromGraph(graph_def=serialized), dataset.element_spec)
