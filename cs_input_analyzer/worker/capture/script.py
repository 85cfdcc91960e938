"""Read a user's script as a target, `python run.py ARGS`, and run it unmodified until it takes data."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import queue
import re
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn

from cs_input_analyzer.errors import TargetError, check_text
from cs_input_analyzer.model.train_command import is_python
from cs_input_analyzer.worker import isolation
from cs_input_analyzer.worker.capture.entry_points import patched_entry_points, patched_one_shot_iterators
from cs_input_analyzer.worker.capture.interceptor import Interceptor, Taken, audit
from cs_input_analyzer.worker.process import end_forked_child

PREFIX = "script:"
# A script detects weight streaming by this module, which `python-ws` provides.
_STREAMING = "tfwse"
# Options of Python that change nothing about the data a script reads.
_PLAIN = re.compile(r"-[bBdEiIOPqsSuvx]+")
_VALUED = ("-W", "-X")


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Describe a command that runs a script, by its `file` or `module`.

    `number` is that of the chosen call; None while all calls are searched.
    """

    number: int | None = None
    python: str
    file: str | None
    module: str | None
    arguments: tuple[str, ...]

    @property
    def command(self) -> str:
        """Return the command as a shell takes it."""
        what = [self.file] if self.file is not None else ["-m", str(self.module)]
        return shlex.join([self.python, *what, *self.arguments])

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """Return the packages that the named Python provides."""
        return (_STREAMING,) if self.python.endswith("-ws") else ()

    @property
    def target(self) -> str:
        """Return the text that `parse_script` reads."""
        return f"{PREFIX}{self.number or 0}:{self.command}"


def is_script(target: str) -> bool:
    """Return whether a target is a script and not an input function."""
    return target.startswith(PREFIX)


def other_python(word: str) -> str | None:
    """Return the Python that a shell would run for `word`; None if it is this one, or none is found."""
    found = shutil.which(word)
    if found is None or os.path.dirname(os.path.abspath(found)) == os.path.dirname(os.path.abspath(sys.executable)):
        return None
    return found


def parse_script(target: str) -> Script:
    """Read `script:1:python run.py ARGS`. Raise TargetError."""
    number, colon, command = target.removeprefix(PREFIX).partition(":")
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not is_script(target) or not colon or not number.isdigit() or not words:
        raise TargetError(f"target {target!r} is not understood: write script:1:python run.py ARGS")
    return from_command(words, number=int(number) or None)


def from_command(words: Sequence[str], number: int | None = None) -> Script:
    """Read the words of a command, and check that its script exists. Raise TargetError."""
    python, *rest = words
    for word in words:
        check_text("the script's command", word, TargetError)
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
    check_text("the script's file", os.path.realpath(rest[0]), TargetError)
    return Script(number=number, python=name, file=rest[0], module=None, arguments=tuple(rest[1:]))


# The signal that stops the main thread at its place. By default this signal is ignored.
STILL = signal.SIGURG
_jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
_main: list[int] = []  # the thread that runs them
_folder: list[str] = []  # where scripts begin


class NotReachedError(Exception):
    """Report that the script ended before the chosen place."""


def beside_scripts(life: Callable[[], NoReturn]) -> NoReturn:
    """Run `life`, which ends the process, in a new thread, and captured scripts in this one, the main thread.

    A script waits at its place for ever: unwinding it would run its exit code.
    """
    _main.append(threading.get_ident())
    _folder.append(os.getcwd())
    signal.signal(STILL, lambda *_: _do_jobs())
    threading.Thread(target=life, name="worker").start()
    _do_jobs()


def _do_jobs() -> NoReturn:
    while True:
        _jobs.get()()


def captured(target: str) -> Any:
    """Return the Dataset that a script would have taken its data from, or a function that gives it.

    Works only in a process that runs `beside_scripts`. Raise NotReachedError, and any error of the script.
    """
    script, interceptor, error = _ran(target, lambda event, **fields: None, 1)
    if interceptor.taken is None:
        if error is not None:
            raise error
        raise NotReachedError(
            f"`{script.command}` ended before capture {script.number}" + (f": {interceptor.why}" if interceptor.why else "")
        )
    make_eager()
    return _dataset_or_function(interceptor.taken)


def search(target: str, tell: Callable[..., None]) -> str:
    """Run a script to `tell` every place where it takes data, up to the number of the target if it has one.

    Return why it stopped before its end; empty at its end. Works like `captured`. Raise any error of the script.
    """
    _, interceptor, error = _ran(target, tell)
    if isinstance(error, SystemExit):
        return f"it called sys.exit({error.code!r})" if error.code not in (None, 0) else ""
    if error is not None:
        raise error
    return interceptor.why if interceptor.taken is None else ""


def _ran(target: str, tell: Callable[..., None], number: int | None = None) -> tuple[Script, Interceptor, BaseException | None]:
    """Run a script in the main thread until it ends, or stands still at its place. Return its error too.

    `number`: of its place if the target names none.
    """
    if not _main:
        raise RuntimeError("a script is captured only beside the thread that runs it")
    os.chdir(_folder[0])  # a script that ran before may have left it
    script, pid = parse_script(target), os.getpid()
    over: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    undone = ExitStack()

    def stand_still(why: str) -> NoReturn:
        over.put(None)
        if threading.get_ident() != _main[0]:
            signal.pthread_kill(_main[0], STILL)
            threading.Event().wait()
        _do_jobs()

    def run() -> None:
        error: BaseException | None = None
        try:
            _run(script, interceptor, undone)
        except BaseException as raised:
            error = raised
        end_forked_child(pid)
        over.put(error)

    interceptor = Interceptor(stand_still, script.number or number, tell, is_isolated=isolation.here().level != "own files")
    _jobs.put(run)
    error = over.get()
    undone.close()
    return script, interceptor, error


def _run(script: Script, interceptor: Interceptor, undone: ExitStack) -> None:
    """Run the script in this process, as its `__main__`, until its end. Raise its errors, also SystemExit.

    Until `undone` is closed, calls that take data report to the interceptor.
    """
    audit()
    undone.enter_context(interceptor.running())
    undone.enter_context(patched_entry_points(interceptor))
    main, code = _prepared(script)
    exec(code, vars(main))


def _prepared(script: Script) -> tuple[ModuleType, CodeType]:
    """Return the module `__main__` and its code. Set arguments and search path as Python does."""
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
        # Use a loader, so that a changed copy of the script can be tried like one of a module.
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
    """Return the spec and the code that `python -m` finds: for a package, its `__main__`."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    loader: Any = spec.loader if spec is not None else None
    code = loader.get_code(spec.name) if spec is not None and hasattr(loader, "get_code") else None
    if code is None:
        raise ModuleNotFoundError(f"there is no module {name} to run (looked in {os.getcwd()} and on PYTHONPATH)", name=name)
    return spec, code


def make_eager() -> None:
    """Undo `disable_eager_execution`, with which scripts of TensorFlow 1 begin: the capture is measured eagerly."""
    from tensorflow.python.eager import context

    context.default_execution_mode = context.EAGER_MODE
    context.context()._thread_local_data.is_eager = True


def _dataset_or_function(taken: Taken) -> Any:
    import tensorflow as tf

    if isinstance(taken.subject, tf.data.Dataset):
        return _eager(taken.subject)
    bound = functools.partial(taken.subject, **taken.arguments)
    held = taken.subject.keywords if isinstance(taken.subject, functools.partial) else {}  # by the user: ours give way

    class IteratorMade(BaseException):
        """Stop the function after it made an iterator. This is no Exception, so that user code does not catch it."""

    def leave(why: str) -> NoReturn:
        raise IteratorMade

    @functools.wraps(bound)
    def build(*args: Any, **kwargs: Any) -> Any:
        interceptor = Interceptor(leave, 1)
        _seed()
        try:
            with interceptor.running(), patched_one_shot_iterators(interceptor):
                return bound(*args, **{**kwargs, **held})
        except IteratorMade:
            assert interceptor.taken is not None
            return _eager(interceptor.taken.subject)

    return build


def _seed() -> None:
    """Set a seed as an Estimator does before it calls its input function: deterministic random ops need one."""
    import tensorflow as tf
    from tensorflow.python.eager import context
    from tensorflow.python.framework import config

    if config.is_op_determinism_enabled() and context.global_seed() is None:
        tf.random.set_seed(1)


def _eager(dataset: Any) -> Any:
    """Return a dataset of a graph as one that can be iterated here. Its ops keep their source lines."""
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
