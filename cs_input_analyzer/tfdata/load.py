"""Load a target: import the user's input function, call it, and return its `tf.data.Dataset`.

User code runs here, always inside a worker process. A target is `package.module:function` or `path/file.py:function`, or names a
Dataset. Arguments are bound by name, so their order is free.
"""

from __future__ import annotations

import difflib
import enum
import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from cs_input_analyzer.errors import Mistakes, TargetError, UsageError, check_text
from cs_input_analyzer.records import ContextUse, Mode
from wafer_model.foreign import text_of, yaml_of

PARAMS_NAMES = ("params", "hparams", "parameters", "config", "cfg", "conf")
MODE_NAMES = ("mode",)
TRAINING_NAMES = ("is_training", "training")
CONTEXT_NAMES = ("input_context", "context", "ctx", "input_pipeline_context")


class Params(dict[str, Any]):
    """Hold params as input functions take them: a dictionary whose keys are also attributes (`params.batch_size`)."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the params have no {name!r}; they have: {', '.join(map(str, self)) or 'nothing'}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


yaml.SafeDumper.add_representer(Params, yaml.representer.SafeRepresenter.represent_dict)  # for scripts that write their params


def as_params(value: Any) -> Any:
    """Return mappings as `Params`, also inside of mappings and lists. Return any other value unchanged."""
    if isinstance(value, Mapping):
        return Params({key: as_params(item) for key, item in value.items()})
    return [as_params(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetName:
    """Name a target: `file` for a path, `module` for a dotted name; `attribute` may be dotted too."""

    file: Path | None
    module: str | None
    attribute: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Hold the arguments of the input function.

    `input_context`: whether a parameter with None as its default gets one too. One without a default always does.
    """

    params: Mapping[str, Any] | None
    mode: Mode
    num_workers: int
    worker_index: int
    input_context: bool = False


def parse_target(text: str) -> TargetName:
    """Read a target. Check, without importing anything, that a file it names is there. Raise TargetError."""
    where, colon, attribute = text.rpartition(":")
    if not colon or not where or not attribute or not all(part.isidentifier() for part in attribute.split(".")):
        is_script = text.endswith(".py") and Path(text).expanduser().is_file()
        instead = f"; for a script: cs_input_analyzer python {text}" if is_script else ""
        raise TargetError(
            f"target {text!r} is not understood: write package.module:function or path/file.py:function, "
            f"for example my_data.py:train_input_fn{instead}"
        )
    if where.endswith(".py") or "/" in where or os.sep in where:
        path = Path(where).expanduser()
        if not path.is_file():
            raise TargetError(f"target {text!r}: there is no file {path} (looked from {Path.cwd()})")
        check_text("the target's file", str(path.resolve()), TargetError)
        return TargetName(file=path.resolve(), module=None, attribute=attribute)
    if not all(part.isidentifier() for part in where.split(".")):
        raise TargetError(f"target {text!r}: {where!r} is neither a .py file nor a dotted module name")
    return TargetName(file=None, module=where, attribute=attribute)


def write_pickled(content: bytes, folder: Path) -> Path:
    """Write a pickled function into a new file. Return its path, which contains the content's digest."""
    path = folder / f"function-{hashlib.sha256(content).hexdigest()}.pickle"
    path.write_bytes(content)
    return path


def read_pickled(path: Path) -> bytes:
    """Return the content that `write_pickled` wrote. Raise TargetError for any other content.

    The path comes with the order, but others can replace the file in a shared folder. Whoever writes the unpickled content gets the
    user's rights.
    """
    content = path.read_bytes()
    if path.stem.rpartition("-")[2] != hashlib.sha256(content).hexdigest():
        raise TargetError(f"{path} is not the input function that was sent to the workers: it was changed, and is not run")
    return content


def find_object(target: TargetName) -> object:
    """Import the target's module as Python would, and return the named object. Errors of the module pass through."""
    module = _import_file(target.file) if target.file is not None else _import_module(str(target.module))
    found: object = module
    for part in target.attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            every = vars(module)
            own = {name: value for name, value in every.items() if getattr(value, "__module__", None) == module.__name__} or every
            names = sorted(name for name, value in own.items() if callable(value) and not name.startswith("_"))
            near = [name for name in names if "input" in name or "dataset" in name] or names
            where, has = target.file or target.module, ", ".join(near[:12]) or "no function at all"
            raise TargetError(f"{where} has no {target.attribute!r}; it has: {has}") from None
    return found


def build_dataset(found: object, call: Call, on_context: Callable[[ContextUse], None] = lambda use: None) -> Any:
    """Call the input function. Call `on_context` for each input context that it takes.

    Raise TargetError if no Dataset comes out, or if an input context was asked for and nothing takes one.
    """
    uses: list[ContextUse] = []
    dataset = _built(found, call, uses)
    if call.input_context and "given" not in uses:
        raise TargetError(
            f"--input-context: nothing here takes one; a function does by an argument named {', '.join(CONTEXT_NAMES[:-1])} or "
            f"{CONTEXT_NAMES[-1]} that is None by default, or has none"
        )
    for use in uses:
        on_context(use)
    return dataset


def _built(found: object, call: Call, uses: list[ContextUse]) -> Any:
    import tensorflow as tf

    result: object = found
    for _ in range(3):  # a function, a callable that it returned, and one more for factories
        if isinstance(result, tf.data.Dataset):
            return result
        if isinstance(result, tuple | list):
            result = next((part for part in result if isinstance(part, tf.data.Dataset)), None) or _refuse(result)
        elif isinstance(result, Mapping) and call.mode in result:
            result = result[call.mode]
        elif callable(result) and not isinstance(result, tf.Tensor) and (result is found or not isinstance(result, type)):
            arguments = bind_arguments(result, call)
            taken = [name for name in CONTEXT_NAMES if name in arguments.signature.parameters]
            uses += ["given" if name in arguments.arguments else "left" for name in taken]
            result = result(*arguments.args, **arguments.kwargs)
        else:
            _refuse(result)
    return result if isinstance(result, tf.data.Dataset) else _refuse(result)


def bind_arguments(function: Callable[..., object], call: Call) -> inspect.BoundArguments:
    """Return the arguments for an input function, found by parameter name. Raise TargetError for a signature we cannot serve."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise TargetError(f"the signature of {function!r} cannot be read: {error}; wrap it in a plain function") from None
    chosen: dict[str, object] = {}
    unknown: list[str] = []
    bound = function.keywords if isinstance(function, functools.partial) else {}
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or parameter.name in bound:
            continue
        value = _argument_for(parameter, call)
        if value is not _LEAVE:
            chosen[parameter.name] = value
        elif parameter.default is parameter.empty:
            unknown.append(parameter.name)
    takes_all = any(name in chosen or name in bound for name in PARAMS_NAMES)
    if len(unknown) == 1 and not any(name in chosen for name in PARAMS_NAMES):
        chosen[unknown.pop()] = as_params(call.params or {})  # one unknown argument is the params under another name
        takes_all = True
    if unknown:
        raise TargetError(
            f"the input function wants {', '.join(unknown)}, which nothing provides: it may take params, mode, input_context, "
            "or keys of --params by name"
        )
    if call.params and not takes_all:
        _spread(call.params, signature, chosen, bound)
    # It lists positional ones in signature order only when its dict is in that order.
    ordered = OrderedDict((name, chosen[name]) for name in signature.parameters if name in chosen)
    return inspect.BoundArguments(signature, ordered)


_LEAVE: Any = object()
# A key as near to an argument as this is that argument, misspelled: `batchsize` for `batch_size`.
_NEAR_RATIO = 0.9


def _spread(
    params: Mapping[Any, Any], signature: inspect.Signature, chosen: dict[str, object], bound: Mapping[str, object]
) -> None:
    """Give `**kwargs` the keys that no argument takes. Without it, raise TargetError for a misspelled key.

    Other keys may be left: the params of a project also describe the model and the training.
    """
    left = {key: value for key, value in params.items() if key not in signature.parameters and key not in bound}
    rest = next((one.name for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD), None)
    if rest is not None:
        chosen[rest] = {key: as_params(value) for key, value in left.items() if isinstance(key, str)}
        return
    free = [name for name in signature.parameters if name not in chosen and name not in bound and name not in CONTEXT_NAMES]
    for key in left:
        near = difflib.get_close_matches(str(key), free, n=1, cutoff=_NEAR_RATIO)
        if near:
            raise TargetError(f"the input function takes no {key!r} of the params; is its argument {near[0]!r} meant?")


def _argument_for(parameter: inspect.Parameter, call: Call) -> object:
    name = parameter.name
    has_default = parameter.default is not parameter.empty
    if name in MODE_NAMES:
        # As the function's own default is: a member of its Enum, else one of the Estimator's strings.
        members = type(parameter.default) if isinstance(parameter.default, enum.Enum) else ()
        return next((one for one in members if call.mode in (one.name.lower(), one.value)), call.mode)
    if name in TRAINING_NAMES:
        return call.mode == "train"
    if name in CONTEXT_NAMES:
        is_wanted = not has_default or (call.input_context and parameter.default is None)
        if not is_wanted:
            return _LEAVE
        import tensorflow as tf

        count = call.num_workers
        return tf.distribute.InputContext(
            num_input_pipelines=count, input_pipeline_id=call.worker_index, num_replicas_in_sync=count
        )
    if name in PARAMS_NAMES:
        if call.params is None:
            return _LEAVE if has_default else {}
        return as_params(call.params)
    if call.params is not None and name in call.params:
        return as_params(call.params[name])
    return _LEAVE


def _refuse(result: object) -> Any:
    import numpy as np
    import tensorflow as tf

    parts = result if isinstance(result, tuple | list) else [result]
    what = f"returned {type(result).__name__}"
    advice = "it must return a tf.data.Dataset (or a tuple whose first Dataset is meant)"
    if result is None:
        what, advice = "returned nothing", "does it lack a `return`?"
    elif isinstance(result, type):
        what, advice = f"returned the class {result.__name__}", "it must return a tf.data.Dataset, not a class"
    elif any(isinstance(part, tf.Tensor) for part in parts):
        advice = "return the Dataset itself, not the tensors of an iterator's get_next()"
    elif "Distributed" in type(result).__name__:
        advice = "return the Dataset before it is distributed over a strategy"
    elif "Iterator" in type(result).__name__:
        advice = "return the Dataset, not an iterator over it"
    elif inspect.isgenerator(result):
        advice = "it must return a tf.data.Dataset: tf.data.Dataset.from_generator makes one of a function that yields"
    elif isinstance(result, list) or any(isinstance(part, np.ndarray) for part in parts):
        advice = "it must return a tf.data.Dataset: tf.data.Dataset.from_tensor_slices makes one of lists and arrays"
    raise TargetError(f"the input function {what}; {advice}")


def _import_module(name: str) -> ModuleType:
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` would
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise TargetError(f"there is no module {error.name!r} to import (looked in {os.getcwd()} and on PYTHONPATH)") from None
        raise  # the module is there, something it imports is not: the user's own error


def _import_file(path: Path) -> ModuleType:
    folder, name = path.parent, path.stem
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    root = folder
    # Python imports no package of a name with a dot, such as `bert_v1.0`.
    while (root / "__init__.py").is_file() and "." not in root.name and "." not in path.stem:
        name, root = f"{root.name}.{name}", root.parent
    if root != folder:  # inside a package: its relative imports must work
        sys.path.insert(0, str(root))
        return importlib.import_module(name)
    if name in sys.modules or name in sys.stdlib_module_names or not name.isidentifier():
        name = f"csia_target_{abs(hash(path))}"  # never shadow a module that others import by this name
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load_params(file: str | None, overrides: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the params of `--params FILE.yaml` with each `--set a.b=3` laid over them; None without either.

    The value of `--set` is YAML. Raise UsageError for all that is wrong.
    """
    if file is None and not overrides:
        return None
    wrong, params = Mistakes(), dict[str, Any]()
    with wrong:
        params = {} if file is None else _params_of(file)
    for override in overrides:
        with wrong:
            _override(params, override)
    wrong.raise_any()
    return params


def _params_of(file: str) -> dict[str, Any]:
    try:
        read = yaml_of(text_of(Path(file)))
    except FileNotFoundError:
        raise UsageError(f"--params: there is no file {file}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--params: {file} cannot be read: {error}") from None
    except ValueError as error:
        raise UsageError(f"--params: {file} is not YAML: {error}") from None
    if read is not None and not isinstance(read, dict):
        raise UsageError(f"--params: {file} must hold a mapping at its top, not a {type(read).__name__}")
    return read or {}


def _override(params: dict[str, Any], override: str) -> None:
    """Lay one `--set a.b=3` over the params."""
    check_text("--set", override)
    key, equals, text = override.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        raise UsageError(f"--set {override!r} is not understood: write key=value or section.key=value")
    value = value_of(key, text)
    section = params
    for part in path[:-1]:
        section = section.setdefault(_key(section, part), {})
        if not isinstance(section, dict):
            raise UsageError(f"--set {'.'.join(path)}=…: {part!r} is a value in the params, not a section")
    section[_key(section, path[-1])] = value


def value_of(key: str, text: str) -> Any:
    """Return the value of `--set key=text`, which is YAML. Raise UsageError, with the key: the value may be a secret."""
    try:
        return yaml_of(text)
    except ValueError:
        raise UsageError(f"--set {key}=…: the value is not YAML; quote it") from None


def _key(section: Mapping[Any, Any], text: str) -> Any:
    """Return the key for this text: `0` is a whole number if the file has that key."""
    return next((key for key in section if str(key) == text), text)
