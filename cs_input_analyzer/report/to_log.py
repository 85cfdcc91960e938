"""Analysis -> lines shaped as the compiler's log has them, for scripts that look there for advice on the input function.

A line is `LEVEL:root:[input_fn] - method(): text`, between a line that opens the section and one that closes it. Shape and markers
are those of the compiler's log; what is said, and in which order, is what the other reports say.
"""

from __future__ import annotations

import re

from cs_input_analyzer.records import Analysis, Finding, Op
from cs_input_analyzer.report.findings import ignored_sentence
from cs_input_analyzer.report.wording import gain_text, one_line

OPENS = "INFO:root:---------- Suggestions to improve input_fn performance ----------"
CLOSES = "INFO:root:----------------- End of input_fn suggestions -----------------"
LEVELS = {"info": "INFO", "warning": "WARNING", "error": "ERROR"}
# Where a finding is about no op.
WHOLE = "pipeline"
# What the compiler tells of an op whether or not there is something to say about it.
TOLD = ("batch_size", "buffer_size")
# Messages of thousands of characters are cut here; the JSON has them whole.
LONGEST_TEXT = 2000


def to_log(analysis: Analysis) -> str:
    """One line for each finding, then one for each batch or buffer size that the pipeline sets."""
    lines = [OPENS]
    lines += [_line(LEVELS[finding.severity], _method(finding.op), _advice(finding)) for finding in analysis.findings]
    for op in reversed(analysis.pipeline.ops):
        lines += [_line("INFO", _method(op.name), f"{name} set to {op.parameters[name]}") for name in TOLD if _is_set(op, name)]
    if analysis.ignored_count:
        lines.append(_line("INFO", WHOLE, ignored_sentence(analysis)))
    return "\n".join([*lines, CLOSES]) + "\n"


def _line(level: str, method: str, text: str) -> str:
    # One finding, one line, whatever the text: who greps sees all of it or nothing.
    plain = re.sub(r"\s*\n\s*", " ", text.strip())
    cut = plain if len(plain) <= LONGEST_TEXT else f"{plain[:LONGEST_TEXT]}…"
    return one_line(f"{level}:root:[input_fn] - {method}: {cut}")


def _method(op: str | None) -> str:
    """`map_2` -> `map()`, `TFRecordDataset_2` -> `TFRecordDataset`."""
    if not op:
        return WHOLE
    name = re.sub(r"_\d+$", "", one_line(op))
    return name if name.endswith("Dataset") else f"{name}()"


def _advice(finding: Finding) -> str:
    parts = [finding.message.rstrip(". \n")]
    if finding.fix:
        parts.append(f"fix: {finding.fix.rstrip('. ')}")
    if gain_text(finding):
        parts.append(f"measured: {gain_text(finding)}")
    where = ", ".join(part for part in (finding.code, finding.source) if part)
    return f"{'; '.join(parts)} ({where})"


def _is_set(op: Op, name: str) -> bool:
    return name in op.parameters and op.parameters[name] is not None
