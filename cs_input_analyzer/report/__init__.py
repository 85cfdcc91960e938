"""Analysis -> text, in every format. Reports format records and compute nothing: they all say the same.

Importing this loads no renderer: each brings its own library (rich, jinja2, pandas, pydantic) when it is first used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Analysis, Comparison, RunInspection, Validation

if TYPE_CHECKING:
    import pandas as pd

    from cs_input_analyzer.report.document import Document
    from wafer_model.prediction import WaferPrediction

Part = TypeVar("Part")
Format = Literal["console", "html", "json", "csv", "sbatch", "env", "log", "md", "summary"]

FORMATS: tuple[Format, ...] = ("console", "html", "json", "csv", "sbatch", "env", "log", "md", "summary")

# What a file's ending says about the format wanted in it.
ENDINGS: dict[str, Format] = {
    ".html": "html",
    ".htm": "html",
    ".json": "json",
    ".csv": "csv",
    ".sbatch": "sbatch",
    ".sh": "sbatch",
    ".slurm": "sbatch",
    ".env": "env",
    ".txt": "console",
    ".log": "log",
    ".md": "md",
}


def render(analysis: Analysis, format: Format, *, width: int | None = None, color: bool = False, full: bool = False) -> str:
    """The report as text. `width` and `color` matter to `console` only; `full`, there and in `md`, gives all of it.

    Raises:
        UsageError: there is no such format, or the run holds no plan to write an sbatch file or an env file for.
    """
    if format in ("console", "html", "md"):
        from cs_input_analyzer.report.run_document import run_document

        return _rendered(run_document(analysis), format, width, color, full)
    if format == "summary":
        from cs_input_analyzer.report.to_summary import to_summary

        return to_summary(analysis)
    if format == "json":
        from cs_input_analyzer.report.to_json import to_json

        return to_json(analysis)
    if format == "csv":
        from cs_input_analyzer.report.to_csv import to_csv

        return to_csv(analysis)
    if format == "sbatch":
        launch = analysis.recommendation.launch if analysis.recommendation is not None else None
        return _or_refuse(launch, "sbatch file", analysis).sbatch
    if format == "env":
        plan = _or_refuse(analysis.recommendation, "value of DEF_NODES", analysis)
        return "".join(f"export {word}\n" for word in plan.variables.splitlines())
    if format == "log":
        from cs_input_analyzer.report.to_log import to_log

        return to_log(analysis)
    raise UsageError(f"no report format {format!r}; there are {', '.join(FORMATS)}")


def render_table(analysis: Analysis, table: str) -> str:
    """One table of a run as CSV, by its name in `frames.TABLES`. Raises UsageError where there is no such table."""
    from cs_input_analyzer.report.to_csv import to_csv

    return to_csv(analysis, table)


def data_frames(analysis: Analysis) -> dict[str, pd.DataFrame]:
    """All tables of a run by their names, as pandas has them."""
    from cs_input_analyzer.report.frames import frames

    return frames(analysis)


def _rendered(document: Document, format: str, width: int | None, color: bool, full: bool) -> str:
    if format == "html":
        from cs_input_analyzer.report.to_html import to_html

        return to_html(document)
    if format == "md":
        from cs_input_analyzer.report.to_markdown import to_markdown

        return to_markdown(document, full=full)
    from cs_input_analyzer.report.to_console import to_console

    return to_console(document, full=full, width=width, color=color)


def render_card(found: Analysis | Comparison) -> str:
    """The short report as a piece of HTML, for notebooks."""
    from cs_input_analyzer.report.card import to_card
    from cs_input_analyzer.report.comparison import comparison_document
    from cs_input_analyzer.report.run_document import run_document

    return to_card(comparison_document(found) if isinstance(found, Comparison) else run_document(found))


def render_validation(validation: Validation, *, width: int | None = None, color: bool = False) -> str:
    """Predicted against measured, as the console report shows it, without the rest of that report."""
    from cs_input_analyzer.report.run_document import validation_document

    return _rendered(validation_document(validation), "console", width, color, full=True)


def render_inspection(
    found: RunInspection, format: Format, *, width: int | None = None, color: bool = False, full: bool = False
) -> str:
    """A run that was read, as text: `console`, `html`, `md` or `json`. Raises UsageError for another format."""
    from cs_input_analyzer.report.inspection import inspection_document
    from cs_input_analyzer.report.to_json import to_json

    if format == "json":
        return to_json(found)
    if format not in ("console", "html", "md"):
        raise UsageError(f"an inspected run has no format {format!r}; there are console, html, md, json")
    return _rendered(inspection_document(found), format, width, color, full)


def render_comparison(
    found: Comparison, format: Format, *, width: int | None = None, color: bool = False, full: bool = False
) -> str:
    """Two runs beside each other, as text: `console`, `html`, `md` or `json`. Raises UsageError for another format."""
    from cs_input_analyzer.report.comparison import comparison_document
    from cs_input_analyzer.report.to_json import to_json

    if format == "json":
        return to_json(found)
    if format not in ("console", "html", "md"):
        raise UsageError(f"a comparison has no format {format!r}; there are console, html, md, json")
    return _rendered(comparison_document(found), format, width, color, full)


def render_tuning(analysis: Analysis, *, width: int | None = None, color: bool = False) -> str:
    """The fixes that were kept and the patch, for a terminal."""
    from cs_input_analyzer.report.tuning import tuning_document

    return _rendered(tuning_document(analysis), "console", width, color, full=True)


def render_wafer(found: WaferPrediction, *, width: int | None = None, color: bool = False) -> str:
    """What the wafer model says, for a terminal."""
    from cs_input_analyzer.report.wafer import wafer_document

    return _rendered(wafer_document(found), "console", width, color, full=True)


def wafer_json(found: WaferPrediction) -> str:
    """The same as a JSON document."""
    from cs_input_analyzer.report.wafer import wafer_json

    return wafer_json(found)


def format_of(path: Path | str) -> Format:
    """The format that the ending of `path` asks for.

    Raises:
        UsageError: the ending says nothing.
    """
    ending = Path(path).suffix.lower() or Path(path).name.lower()  # `.env` has a name and no suffix
    if ending not in ENDINGS:
        raise UsageError(
            f"which format is {path}? Name it with --format {'|'.join(FORMATS)}, or use an ending: {' '.join(ENDINGS)}"
        )
    return ENDINGS[ending]


def load(path: Path | str) -> Analysis:
    """A saved run: a JSON file, or an HTML report, which holds one. Raises UsageError as `to_json.load`."""
    from cs_input_analyzer.report.to_json import load

    return load(path)


def write_text_atomically(path: Path | str, text: str) -> None:
    """Puts a report on disk whole or not at all. Raises UsageError and LaunchError as `files.write_text_atomically`."""
    from cs_input_analyzer.report.files import write_text_atomically

    write_text_atomically(path, text)


def _or_refuse(found: Part | None, what: str, analysis: Analysis) -> Part:
    """A part of the plan that is to be written. Raises UsageError where there is none."""
    if found is None:
        why = analysis.no_plan or "analyze again with more --max-seconds"
        raise UsageError(f"this run holds no recommended launch, so there is no {what} for it: {why}")
    return found
