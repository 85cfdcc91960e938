"""`python -m cs_input_analyzer.rules` prints docs/rules.md: the docstrings of all rules."""

from __future__ import annotations

from cs_input_analyzer.rules import RULES, TOPICS

HEAD = """# Rules

What `analyze` finds, rule by rule. `cs_input_analyzer explain CODE` shows a page of this in the terminal, `cs_input_analyzer rules`
the list. `--select` and `--ignore` take codes or their beginnings; a comment `# csi: ignore=CODE` in a statement of your input
function, or `# csi: ignore` alone, switches rules off for the ops of that statement.

A rule is here for one of three reasons, which the column "kept for" names. It was right about a pipeline or a report that a
stranger wrote ("seen"). Or it prevents lost data or a wrong training. Or it speaks of what the measuring host cannot show: many
nodes, storage, an accelerator, the hours after the window.

This page is generated: `python -m cs_input_analyzer.rules > docs/rules.md`.
"""


def page() -> str:
    """Return the page as Markdown: a list by topic, then the rules."""
    parts = [HEAD]
    for topic in TOPICS.values():
        parts += [f"**{topic.capitalize()}**", "", "| code | name | finds | kept for |", "|---|---|---|---|"]
        listed = [rule for rule in RULES if rule.topic == topic]
        parts += [f"| [{r.code}](#{r.code.lower()}-{r.name}) | `{r.name}` | {r.first_line} | {r.kept_for} |" for r in listed] + [""]
    return "\n".join([*parts, *(f"## {rule.code} {rule.name}\n\n{rule.text}\n" for rule in RULES)])


if __name__ == "__main__":
    print(page(), end="")
