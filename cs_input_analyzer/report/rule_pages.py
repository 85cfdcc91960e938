"""The documentation of rules on a terminal: the list, and one rule's page. Both come from the rules' own docstrings."""

from __future__ import annotations

import io

from cs_input_analyzer.report.tables import table_of, text
from cs_input_analyzer.report.terminal import console_on, table_on, text_of
from cs_input_analyzer.rules import RULES, Rule

# Wider than any line of the list.
UNFOLDED = 10_000


def rules_table(*, width: int | None = None, color: bool = False) -> str:
    """Code, name, topic and first sentence of every rule; one line each, folded only where a `width` is given."""
    out = io.StringIO()
    names = {"code": "code", "name": "name", "topic": "topic", "finds": "first_line"}
    columns = [text(name, "", of) for name, of in names.items()]
    table_on(console_on(out, width or UNFOLDED, color), table_of("Rules", columns, RULES))
    return text_of(out)


def explanation(rule: Rule, *, width: int | None = None, color: bool = False) -> str:
    from rich.markdown import Markdown
    from rich.text import Text

    out = io.StringIO()
    console = console_on(out, width, color)
    console.print(Text(f"{rule.code} {rule.name}: {rule.topic}", style="bold"))
    console.print()
    console.print(Markdown(rule.text, code_theme="ansi_light"))
    return text_of(out)
