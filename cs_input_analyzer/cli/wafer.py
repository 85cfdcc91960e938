"""`wafer`: the consumption model alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.command import Command, mistakes
from cs_input_analyzer.cli.terminal import is_terminal, print_text, width
from cs_input_analyzer.errors import UsageError

OF_MODEL = (
    click.option("--systems", type=shared.POSITIVE, default=1, show_default=True, metavar="N", help="Wafers that train together."),
    shared.one_of("--dtype", "fp16", "cbfloat16", "fp32", help="What the wafer computes in."),
    shared.value(
        *("--calibrate", "calibrate_samples_per_s"),
        read=shared.PER_S,
        metavar="RATE",
        help="A rate measured with exactly these options.",
    ),
)


@click.command(cls=Command, notes_more=True)
@click.argument("model")
@click.option("--mode", type=shared.WAFER_MODES, help="How the wafer runs it; by default whichever fits.")
@click.option("--batch-size", type=shared.POSITIVE, metavar="N", required=True, help="Samples per step, of all systems together.")
@shared.with_options(shared.WAFER, OF_MODEL)
@click.option("--json", "json_file", metavar="FILE", help="Write the numbers there too.")
def wafer(model: str, json_file: str | None, system: str | None, **choices: Any) -> int:
    """Predict how fast a wafer consumes samples when it trains MODEL.

    MODEL is a built-in network (bert_large, gpt2_small, gptj_6b, unet, ...) or a YAML file.
    """
    from cs_input_analyzer import report
    from cs_input_analyzer.files import check_writable
    from wafer_model.ask import ask
    from wafer_model.network_yaml import load_network
    from wafer_model.systems import find_system

    choices["system"] = system or "CS-2"
    if json_file is not None:
        with mistakes():
            check_writable(json_file)
    _ask(lambda: load_network(model, sequence_length=choices["sequence_length"]))
    _ask(lambda: find_system(choices["system"]))
    mistakes().raise_any()
    found = _ask(lambda: ask(model, **choices))
    mistakes().raise_any()
    print_text(report.render(found, "console", full=True, width=width(), color=is_terminal(sys.stdout)))
    if json_file is not None:
        report.write_report(json_file, report.render(found, "json"), "json")
    return 0


def _ask(question: Callable[[], Any]) -> Any:
    """Return an answer of the wafer model. Note its error among the mistakes."""
    from wafer_model import WaferModelError

    with mistakes():
        try:
            return question()
        except WaferModelError as error:
            raise UsageError(str(error)) from None
