"""`python -m cs_input_analyzer.rules` prints docs/rules.md: the docstrings of all rules."""

from __future__ import annotations

import inspect
from types import ModuleType

from cs_input_analyzer.rules import RULES, TOPICS, first_line, topic_of

HEAD = """# Rules

What `analyze` finds, rule by rule. `cs_input_analyzer explain CODE` shows a page of this in the terminal, `cs_input_analyzer rules`
the list. `--select` and `--ignore` take codes or their beginnings; a comment `# csi: ignore=CODE` in a statement of your input
function, or `# csi: ignore` alone, switches rules off for the ops of that statement.

This page is generated: `python -m cs_input_analyzer.rules > docs/rules.md`.
"""


def page() -> str:
    """The page as Markdown: a list by topic, then the rules."""
    listed = [_listing(topic) for topic in TOPICS.values() if any(topic_of(rule) == topic for rule in RULES)]
    return "\n".join([HEAD, *listed, *map(_section, RULES)])


def _listing(topic: str) -> str:
    rows = [
        f"| [{rule.CODE}](#{_anchor(rule)}) | `{rule.NAME}` | {first_line(rule)} |" for rule in RULES if topic_of(rule) == topic
    ]
    return "\n".join([f"**{topic.capitalize()}**", "", "| code | name | finds |", "|---|---|---|", *rows, ""])


def _section(rule: ModuleType) -> str:
    return f"## {rule.CODE} {rule.NAME}\n\n{inspect.cleandoc(rule.__doc__ or '')}\n"


def _anchor(rule: ModuleType) -> str:
    return f"{rule.CODE} {rule.NAME}".lower().replace(" ", "-")


if __name__ == "__main__":
    print(page(), end="")
