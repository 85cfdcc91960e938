"""The documentation of rules on a terminal: the list, and one rule's page. Both come from the rules' own docstrings."""

from __future__ import annotations

import io

from cs_input_analyzer.report.terminal import console_on, text_of
from cs_input_analyzer.rules import RULES, Rule

# Wider than any line of the list.
UNFOLDED = 10_000


def rules_table(*, width: int | None = None, color: bool = False) -> str:
    """Code, name, topic and first sentence of every rule; one line each, folded only where a `width` is given."""
    from rich.table import Table
    from rich.text import Text

    out = io.StringIO()
    console = console_on(out, width or UNFOLDED, color)
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    for name in ("code", "name", "topic", "finds"):
        grid.add_column(name, no_wrap=name in ("code", "name"), overflow="fold")
    for rule in RULES:
        grid.add_row(Text(rule.code, style="bold"), rule.name, rule.topic, rule.first_line)
    console.print(grid)
    return text_of(out)


def explanation(rule: Rule, *, width: int | None = None, color: bool = False) -> str:
    """The rule's docstring, read as Markdown."""
    from rich.markdown import Markdown
    from rich.text import Text

    out = io.StringIO()
    console = console_on(out, width, color)
    console.print(Text(f"{rule.code} {rule.name}: {rule.topic}", style="bold"))
    console.print()
    console.print(Markdown(rule.text, code_theme="ansi_light"))
    return text_of(out)
