"""`rules` and `explain`: the documentation of findings, from the rules' own docstrings."""

from __future__ import annotations

import io
import sys

import click

from cs_input_analyzer.cli.command import Command
from cs_input_analyzer.cli.terminal import is_terminal, print_text, width

# Wider than any line of the list.
UNFOLDED = 10_000


@click.command("rules", cls=Command)
def list_rules() -> int:
    """List the rules that findings come from."""
    from cs_input_analyzer.report.document import table_of, text
    from cs_input_analyzer.report.to_console import console_on, table_on, text_of
    from cs_input_analyzer.rules import RULES

    out, is_shown = io.StringIO(), is_terminal(sys.stdout)
    names = {"code": "code", "name": "name", "topic": "topic", "finds": "first_line"}
    columns = [text(name, "", of) for name, of in names.items()]
    # Elsewhere than on a terminal a rule is one line, however long: to be searched.
    table_on(console_on(out, width() if is_shown else UNFOLDED, is_shown), table_of("Rules", columns, RULES))
    print_text(text_of(out))
    return 0


@click.command(cls=Command)
@click.argument("code")
def explain(code: str) -> int:
    """Explain the rule CODE: what it means, what to do, when it is silent."""
    from rich.markdown import Markdown
    from rich.text import Text

    from cs_input_analyzer.report.to_console import console_on, text_of
    from cs_input_analyzer.rules import rule_named

    rule, out = rule_named(code), io.StringIO()
    console = console_on(out, width(), is_terminal(sys.stdout))
    console.print(Text(f"{rule.code} {rule.name}: {rule.topic}", style="bold"))
    console.print()
    console.print(Markdown(rule.text, code_theme="ansi_light"))
    print_text(text_of(out))
    return 0
