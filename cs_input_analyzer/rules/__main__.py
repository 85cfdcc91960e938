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

# Code -> why the rule is kept. Public pipelines are named as in benchmarks/public_pipelines, reports by their thread on GitHub.
KEPT_FOR = {
    "CSI101": "seen: yolov3, tensorflow#34936",
    "CSI102": "seen: electra, mnasnet, horovod#237",
    "CSI103": "storage",
    "CSI104": "seen: yolov3; storage",
    "CSI105": "seen: basic-pitch; storage",
    "CSI106": "seen: tensorflow#18784, #40502",
    "CSI107": "seen: basenji, BERT, TF-Ranking",
    "CSI108": "seen: opennmt",
    "CSI110": "seen: spleeter; wrong training",
    "CSI201": "an accelerator",
    "CSI202": "seen: tensorflow#18784",
    "CSI203": "the hours after the window",
    "CSI204": "wrong training",
    "CSI205": "the hours after the window: memory grows",
    "CSI206": "seen: yolov3, keras#19502",
    "CSI207": "seen: yolov3, simclr, keras#19502",
    "CSI208": "seen: electra",
    "CSI209": "wrong training",
    "CSI210": "seen: simulate, TF-Ranking",
    "CSI211": "seen: transformer, simclr, keras#19502",
    "CSI212": "wrong training",
    "CSI213": "the hours after the window: memory grows",
    "CSI301": "many nodes",
    "CSI302": "seen: unet, keras_text, yolov3",
    "CSI303": "seen: tensorflow#59306; many nodes",
    "CSI304": "lost data",
    "CSI305": "seen: DeepLearningExamples#386; many nodes",
    "CSI306": "many nodes",
    "CSI307": "seen: six public pipelines; an accelerator",
    "CSI308": "seen: simulate, opennmt, transformer",
    "CSI309": "the hours after the window: each restart",
    "CSI310": "many nodes",
    "CSI311": "many nodes",
    "CSI312": "many nodes",
    "CSI401": "seen: transformer, tensorflow#59306, zea#255",
    "CSI402": "seen: simulate, opennmt, TF-Ranking",
    "CSI403": "seen: vit",
    "CSI404": "seen: basenji, tensorflow#37675",
    "CSI405": "storage",
    "CSI407": "many nodes: CPUs of their tasks",
    "CSI409": "seen: tensorflow#34936",
    "CSI501": "lost data",
    "CSI502": "lost data",
    "CSI503": "storage",
    "CSI504": "storage",
    "CSI505": "storage",
    "CSI506": "seen: twelve public pipelines",
    "CSI511": "lost data: tensorflow#37573",
}


def page() -> str:
    """The page as Markdown: a list by topic, then the rules."""
    parts = [HEAD]
    for topic in TOPICS.values():
        parts += [f"**{topic.capitalize()}**", "", "| code | name | finds | kept for |", "|---|---|---|---|"]
        listed = [rule for rule in RULES if rule.topic == topic]
        parts += [
            f"| [{r.code}](#{r.code.lower()}-{r.name}) | `{r.name}` | {r.first_line} | {KEPT_FOR[r.code]} |" for r in listed
        ] + [""]
    return "\n".join([*parts, *(f"## {rule.code} {rule.name}\n\n{rule.text}\n" for rule in RULES)])


if __name__ == "__main__":
    print(page(), end="")
