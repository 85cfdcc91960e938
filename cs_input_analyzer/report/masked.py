"""A run as it may be written: with `***` in place of its secrets. docs/interfaces.md says which keys name one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cs_input_analyzer.masking import Secrets, masked_command, masked_params
from cs_input_analyzer.model.params import params_from_json, params_to_json
from cs_input_analyzer.records import Analysis, Options
from cs_input_analyzer.report.foreign import own_lines

# Options that hold words of a command.
COMMANDS = ("train_command", "srun_args", "sbatch_args", "container")
# Fields that a program reads: no prose.
NO_PROSE = (*COMMANDS, "params_json", "command", "target")


def masked(run: Analysis) -> Analysis:
    """Return the run without its secrets: at their places, and wherever else a text holds one. The same run where it has none."""
    options, secrets = _masked_options(run.options)
    texts = {"command": run.command, "target": run.pipeline.target}
    texts |= {} if run.capture is None else {"captured": run.capture.command}
    texts |= {} if run.parent is None else {"parent": run.parent.command}
    for name, text in texts.items():
        texts[name], of_text = masked_command(text)
        secrets |= of_text
    if not secrets:
        return run
    changed = replace(
        run,
        command=texts["command"],
        options=options,
        pipeline=replace(run.pipeline, target=texts["target"]),
        capture=run.capture and replace(run.capture, command=texts["captured"]),
        parent=run.parent and replace(run.parent, command=texts["parent"]),
    )
    found: Analysis = _hidden(changed, secrets)
    plan = found.recommendation
    if plan is None or plan.launch is None:
        return found
    return replace(found, recommendation=replace(plan, launch=own_lines(found)[0]))


def secrets_of(options: Options, *commands: str) -> Secrets:
    """Return the secrets of a call: of its options, and of commands such as a script that is a target."""
    secrets = _masked_options(options)[1]
    for command in commands:
        secrets |= masked_command(command)[1]
    return secrets


def _masked_options(options: Options) -> tuple[Options, Secrets]:
    changed: dict[str, Any] = {}
    secrets = Secrets()
    if options.params_json is not None:
        params, secrets = masked_params(params_from_json(options.params_json))
        if secrets:
            changed["params_json"] = params_to_json(params)
    for name in COMMANDS:
        text = getattr(options, name)
        if text is not None:
            changed[name], of_text = masked_command(text)
            secrets |= of_text
    return (replace(options, **changed) if secrets else options), secrets


def _hidden(value: Any, secrets: Secrets, *, is_prose: bool = True) -> Any:
    """Return the value with the secrets hidden in all of its texts; the very same object if it holds none."""
    if isinstance(value, str):
        return secrets.hide(value, is_prose=is_prose)
    if isinstance(value, tuple):
        if not value or isinstance(value[0], (int, float)):  # traces of numbers
            return value
        parts = tuple(_hidden(part, secrets) for part in value)
        return value if all(new is old for new, old in zip(parts, value, strict=True)) else parts
    if isinstance(value, Mapping):
        return {secrets.hide(str(name)): _hidden(of, secrets) for name, of in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        changed = {
            name: new for name, old in fields.items() if (new := _hidden(old, secrets, is_prose=name not in NO_PROSE)) is not old
        }
        return replace(value, **changed) if changed else value
    return value
