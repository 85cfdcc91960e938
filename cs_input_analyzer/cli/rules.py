"""`rules` and `explain`: the documentation of findings."""

from __future__ import annotations

import sys

import click

from cs_input_analyzer.cli.command import Command
from cs_input_analyzer.cli.terminal import is_terminal, print_text, width


@click.command("rules", cls=Command)
def list_rules() -> int:
    """List the rules that findings come from."""
    from cs_input_analyzer.report import rule_pages

    # Elsewhere than on a terminal a rule is one line, however long: to be searched.
    print_text(rule_pages.rules_table(width=width() if is_terminal(sys.stdout) else None, color=is_terminal(sys.stdout)))
    return 0


@click.command(cls=Command)
@click.argument("code")
def explain(code: str) -> int:
    """Explain the rule CODE: what it means, what to do, when it is silent."""
    from cs_input_analyzer import rules
    from cs_input_analyzer.report import rule_pages

    print_text(rule_pages.explanation(rules.rule_named(code), width=width(), color=is_terminal(sys.stdout)))
    return 0
