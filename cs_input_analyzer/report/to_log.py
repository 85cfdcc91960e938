"""Analysis -> lines shaped as the compiler's log has them, for scripts that look there for advice on the input function.

A line is `LEVEL:root:[input_fn] - method(): text`, between a line that opens the section and one that closes it. Shape and markers
are those of the compiler's log; what is said, and in which order, is what the other reports say.
"""

from __future__ import annotations

import re

from cs_input_analyzer.pipeline.folding import first_name, fold_ops, folding_of
from cs_input_analyzer.records import Analysis, Finding
from cs_input_analyzer.report.findings import ignored_sentence
from cs_input_analyzer.report.terminal import cut
from cs_input_analyzer.report.wording import gain_text, one_line

OPENS = "INFO:root:---------- Suggestions to improve input_fn performance ----------"
CLOSES = "INFO:root:----------------- End of input_fn suggestions -----------------"
LEVELS = {"info": "INFO", "warning": "WARNING", "error": "ERROR"}
# What the compiler tells of an op whether or not there is something to say about it.
TOLD = ("batch_size", "buffer_size")


def to_log(analysis: Analysis) -> str:
    """One line for each finding, then one for each batch or buffer size that the pipeline sets."""
    lines = [OPENS]
    lines += [_line(LEVELS[finding.severity], finding.op, _advice(finding)) for finding in analysis.findings]
    for op in reversed(fold_ops(analysis.pipeline.ops, folding_of(analysis.pipeline.ops))):
        told = {name: op.parameters[name] for name in TOLD if op.parameters.get(name) is not None}
        lines += [_line("INFO", first_name(op.name), f"{name} set to {value}") for name, value in told.items()]
    if analysis.ignored_count:
        lines.append(_line("INFO", None, ignored_sentence(analysis)))
    return "\n".join([*lines, CLOSES]) + "\n"


def _line(level: str, op: str | None, text: str) -> str:
    """One line, whatever the text: who greps sees all of it or nothing. `map_2` is called `map()`, and no op `pipeline`."""
    plain = " ".join(filter(None, map(str.strip, text.split("\n"))))
    name = re.sub(r"_\d+$", "", one_line(op)) if op else "pipeline"
    method = name if not op or name.endswith("Dataset") else f"{name}()"
    return one_line(f"{level}:root:[input_fn] - {method}: {cut(plain)}")


def _advice(finding: Finding) -> str:
    parts = [finding.message.rstrip(". \n")]
    if finding.fix:
        parts.append(f"fix: {finding.fix.rstrip('. ')}")
    if gain_text(finding):
        parts.append(f"measured: {gain_text(finding)}")
    where = ", ".join(part for part in (finding.code, finding.source) if part)
    return f"{'; '.join(parts)} ({where})"
