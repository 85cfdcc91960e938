"""`python -m cs_input_analyzer.rules` prints docs/rules.md: the docstrings of all rules."""

from __future__ import annotations

from cs_input_analyzer.rules import RULES, TOPICS

HEAD = """# Rules

These rules produce the findings of `analyze`. `cs_input_analyzer explain CODE` shows one of them in the terminal, and
`cs_input_analyzer rules` the list. `--select` and `--ignore` take codes or their first characters. A comment
`# csi: ignore=CODE` in a statement of your input function switches that rule off for the ops of the statement. `# csi: ignore`
switches all rules off for them.

There are three reasons for a rule, shown in the column "kept for". It found a real fault in a public pipeline or bug report
("seen"). Or it prevents lost data or a wrong training. Or it covers conditions that the measuring host cannot show: many nodes,
storage, an accelerator, the hours after the measurement.

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
