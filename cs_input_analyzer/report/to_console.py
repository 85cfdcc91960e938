"""Analysis -> text for a terminal or a pipe. Launch lines stand alone at the left edge, never wrapped: to be copied.

User text reaches rich only as `Text`, never as markup, and without control characters.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from cs_input_analyzer.records import Analysis, Finding, LaunchPlan, Profile, Station, Storage, Validation
from cs_input_analyzer.report.cluster import cluster_facts
from cs_input_analyzer.report.costs import dearest_sentence, op_cost_table, serial_sentence
from cs_input_analyzer.report.measuring import measured_facts, measuring_facts
from cs_input_analyzer.report.stations import bottleneck_sentence, stations_table
from cs_input_analyzer.report.storage import reads_table, storage_facts
from cs_input_analyzer.report.tables import (
    Column,
    Table,
    alternatives_table,
    measured_table,
    pipeline_table,
    troubles,
    validation_table,
    what_if_table,
)
from cs_input_analyzer.report.wafer import wafer_facts, wafer_table
from cs_input_analyzer.report.wording import (
    Facts,
    evidence_text,
    gain_text,
    one_line,
    pipeline_facts,
    plan_facts,
    supply_and_demand,
    verdict_sentence,
    visible,
)

if TYPE_CHECKING:
    from rich.console import Console

    from wafer_model.prediction import WaferPrediction

# Where nobody says how wide: what every terminal and every mail shows whole.
DEFAULT_WIDTH = 80
# Below this a table with an interval in it is a column of single letters.
SMALLEST_WIDTH = 40
# Names and messages of thousands of characters are cut here; the JSON has them whole.
LONGEST_TEXT = 2000
# A file name and a line number, mostly.
SHORTEST_SOURCE = 16
# Blank columns between two columns of a table.
GAP = 2

VERDICT_STYLES = {"input_bound": "bold red", "balanced": "bold yellow", "accelerator_bound": "bold green", "unknown": "bold"}
SEVERITY_STYLES = {"info": "cyan", "warning": "yellow", "error": "bold red"}


def to_console(analysis: Analysis, *, width: int | None = None, color: bool = False) -> str:
    """The report, every line at most `width` columns (80 where None) but for the lines that are to be copied.

    With `color=False` there is no escape sequence in it.
    """
    out = io.StringIO()
    console = _console(out, width, color)
    _verdict(console, analysis)
    if analysis.recommendation is not None:
        _launch(console, analysis.recommendation, analysis)
    _measured(console, analysis)
    if analysis.stations:
        _stations(console, analysis.stations)
    if analysis.profile is not None and analysis.profile.ops:
        _costs(console, analysis.profile)
    if analysis.storage is not None:
        _storage(console, analysis.storage, analysis)
    _pipeline(console, analysis)
    if analysis.recommendation is not None:
        _table(console, alternatives_table(analysis.recommendation))
        _table(console, what_if_table(analysis.recommendation))
    if analysis.validation is not None:
        _table(console, validation_table(analysis.validation))
    _findings(console, analysis.findings)
    _heading(console, "Cluster")
    _facts(console, cluster_facts(analysis.cluster))
    _heading(console, "How it was measured")
    _facts(console, measuring_facts(analysis))
    _copyable(console, "the command", analysis.command)
    return _text(out)


def validation_to_console(validation: Validation, *, width: int | None = None, color: bool = False) -> str:
    """That section alone, as `to_console` prints it."""
    out = io.StringIO()
    _table(_console(out, width, color), validation_table(validation))
    return _text(out)


def wafer_to_console(found: WaferPrediction, *, width: int | None = None, color: bool = False) -> str:
    """The lines and the table of the wafer model."""
    out = io.StringIO()
    console = _console(out, width, color)
    _facts(console, wafer_facts(found))
    _table(console, wafer_table(found))
    return _text(out)


def _console(out: io.StringIO, width: int | None, color: bool) -> Console:
    from rich.console import Console

    return Console(
        file=out,
        width=max(width or DEFAULT_WIDTH, SMALLEST_WIDTH),
        color_system="standard" if color else None,
        force_terminal=color,
        force_jupyter=False,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        # Else rich would look at COLUMNS, NO_COLOR and TERM, and the same run would print differently.
        _environ={},
    )


def _text(out: io.StringIO) -> str:
    # Cells are padded to their column; nobody wants those spaces in a file or a mail.
    return "\n".join(line.rstrip(" ") for line in out.getvalue().splitlines()) + "\n"


# --- sections ----------------------------------------------------------------------------------------------------------------


def _verdict(console: Console, analysis: Analysis) -> None:
    _line(console, verdict_sentence(analysis), style=VERDICT_STYLES[analysis.verdict])
    if analysis.interrupted:
        _line(console, "INTERRUPTED: this holds what was measured until then.", style="bold yellow")
    _facts(console, supply_and_demand(analysis))


def _launch(console: Console, plan: LaunchPlan, analysis: Analysis) -> None:
    _heading(console, "Launch")
    if plan.launch is None:
        _copyable(console, "", f"nodes: {plan.nodes}\ntasks_per_node: {plan.tasks_per_node}\ncpus_per_task: {plan.cpus_per_task}")
    else:
        _copyable(console, "", plan.launch.defaults)
    console.print()
    _facts(console, plan_facts(plan, analysis))
    if plan.launch is not None:
        _copyable(console, "on a Cerebras cluster", plan.launch.csrun_wse)
        _copyable(console, "on any Slurm cluster", plan.launch.srun)
        console.print()
        _line(console, "As a batch file: cs_input_analyzer report RUN.json --format sbatch", style="dim")


def _measured(console: Console, analysis: Analysis) -> None:
    if not analysis.measurements:
        _heading(console, "Measured")
        _line(console, "nothing")
    _table(console, measured_table(analysis))
    for trouble in troubles(analysis):
        _line(console, trouble, style="yellow", indent="! ")
    facts = measured_facts(analysis)
    if facts:
        console.print()
        _facts(console, facts)


def _stations(console: Console, stations: tuple[Station, ...]) -> None:
    table = stations_table(stations)
    _heading(console, table.title)
    _line(console, bottleneck_sentence(stations))
    console.print()
    _table(console, table, heading=False)


def _costs(console: Console, profile: Profile) -> None:
    table = op_cost_table(profile)
    _heading(console, table.title)
    dearest, serial = dearest_sentence(profile), serial_sentence(profile)
    if dearest:
        _line(console, dearest)
        console.print()
    _table(console, table, heading=False)
    if serial:
        console.print()
        _line(console, serial, style="yellow")


def _storage(console: Console, storage: Storage, analysis: Analysis) -> None:
    table = reads_table(storage)
    _heading(console, table.title)
    _facts(console, storage_facts(analysis))
    if table.rows:
        console.print()
        _table(console, table, heading=False)


def _pipeline(console: Console, analysis: Analysis) -> None:
    _heading(console, "Pipeline")
    _facts(console, pipeline_facts(analysis))
    if analysis.pipeline.ops:
        console.print()
    _table(console, pipeline_table(analysis), heading=False)


def _findings(console: Console, findings: tuple[Finding, ...]) -> None:
    _heading(console, f"Findings ({len(findings)})")
    if not findings:
        _line(console, "none")
    for number, finding in enumerate(findings):
        if number:
            console.print()
        _line(console, f"{finding.severity} {one_line(finding.code)}: {finding.message}", style=SEVERITY_STYLES[finding.severity])
        facts = (
            ("at", " ".join(part for part in (finding.source, finding.op and f"({finding.op})") if part)),
            ("evidence", evidence_text(finding.evidence)),
            ("fix", finding.fix or ""),
            ("gain", gain_text(finding)),
        )
        _facts(console, tuple((label, text) for label, text in facts if text))


# --- pieces ------------------------------------------------------------------------------------------------------------------


def _heading(console: Console, title: str) -> None:
    from rich.text import Text

    console.print()
    console.print(Text(f"── {title} ".ljust(console.width, "─"), style="bold"))


def _line(console: Console, text: str, *, style: str = "", indent: str = "") -> None:
    """A paragraph, folded at the width; lines after a newline of its own are indented as the first."""
    from rich.text import Text

    console.print(Text(indent + _cut(visible(text)).replace("\n", f"\n{' ' * len(indent)}"), style=style, overflow="fold"))


def _facts(console: Console, facts: Facts) -> None:
    """`label  text`, the text folded in its own column."""
    from rich.table import Table as Grid
    from rich.text import Text

    if not facts:
        return
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for label, text in facts:
        grid.add_row(Text(f"  {label}"), Text(_cut(visible(text))))
    console.print(grid)


def _table(console: Console, table: Table, *, heading: bool = True) -> None:
    from rich.table import Table as Grid
    from rich.text import Text

    if not table.rows:
        return
    if heading:
        _heading(console, table.title)
    grid = Grid(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="underline")
    shown = [index for index, column in enumerate(table.columns) if column.needs_width <= console.width]
    for column in (table.columns[index] for index in shown):
        grid.add_column(Text(column.name), justify="right" if column.is_number else "left", vertical="top", overflow="fold")
    for number, row in enumerate(table.rows):
        cells = (Text(_shortened(row[index], _room(table, index, console.width), table.columns[index])) for index in shown)
        grid.add_row(*cells, style="bold" if number == table.strong else None)
    console.print(grid)
    if table.remarks:
        console.print()
    for remark in table.remarks:
        _line(console, remark)


def _room(table: Table, index: int, width: int) -> int:
    """Columns that a cell may take: a third of the line, or for sources what the other cells of the table leave."""
    if not table.columns[index].keeps_end:
        return max(width // 3, 16)
    others = [place for place, column in enumerate(table.columns) if place != index and column.needs_width <= width]
    return max(width - sum(_needed(table, place, width) + GAP for place in others), SHORTEST_SOURCE)


def _needed(table: Table, index: int, width: int) -> int:
    """Columns that the cells of one column would fill; long texts fold at half the line, others are cut at a third."""
    column = table.columns[index]
    longest = max(len(text) for text in (*(row[index] for row in table.rows), *column.name.split("\n")))
    return min(longest, width // 2 if column.is_long else width // 3)


def _copyable(console: Console, label: str, text: str) -> None:
    """Lines as they are to be pasted: unbroken, unindented, nothing before them on the line."""
    from rich.text import Text

    if label:
        console.print()
        _line(console, f"{label}:", style="dim")
    for line in visible(text).rstrip("\n").split("\n"):
        console.print(Text(line, style="bold"), soft_wrap=True)


def _shortened(text: str, longest: int, column: Column) -> str:
    if column.is_long:
        return _cut(text)
    if len(text) <= longest:
        return text
    if not column.keeps_end:
        return text[: longest - 1] + "…"
    # Of a path, whole names from its end: `…/input_fn.py:42`.
    end = text[-longest + 1 :]
    _, slash, names = end.partition("/")
    return f"…/{names}" if slash and names else f"…{end}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}… ({len(text) - LONGEST_TEXT} characters more in the JSON)"
