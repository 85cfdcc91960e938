"""Records -> text, in every format. Reports format records and compute nothing: they all say the same.

Importing this loads no renderer: each brings its own library (rich, jinja2, pandas) when it is first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.files import write_text_atomically
from cs_input_analyzer.gone import gone_message
from cs_input_analyzer.records import Analysis, Comparison, RunInspection, Validation
from cs_input_analyzer.report import to_console, to_csv, to_html, to_json, to_markdown
from cs_input_analyzer.report.comparison import comparison_document
from cs_input_analyzer.report.document import Chart, Document, shortened
from cs_input_analyzer.report.findings import tuning_document
from cs_input_analyzer.report.first_screen import NEWEST
from cs_input_analyzer.report.inspection import inspection_document
from cs_input_analyzer.report.masked import masked, secrets_of
from cs_input_analyzer.report.run_document import run_document, validation_document
from cs_input_analyzer.report.to_json import load
from cs_input_analyzer.report.wafer import wafer_document, wafer_json
from wafer_model.prediction import WaferPrediction

__all__ = ["ENDINGS", "FORMATS", "NEWEST", "Format", "card", "format_of", "load", "masked", "render", "render_tuning"]
__all__ += ["render_validation", "secrets_of", "write_report", "write_text_atomically"]

Found: TypeAlias = Analysis | Comparison | RunInspection | Validation | WaferPrediction
Format = Literal["console", "html", "md", "json", "csv", "sbatch", "env"]

FORMATS: tuple[Format, ...] = get_args(Format)
# These hold all that was measured, asked and found, and not only what a report shows.
HOLD_RECORDS: tuple[Format, ...] = ("json", "html")

# What a file's ending says about the format wanted in it.
ENDINGS: dict[str, Format] = {f".{form}": form for form in FORMATS if form != "console"}
ENDINGS |= {".htm": "html", ".sh": "sbatch", ".slurm": "sbatch", ".txt": "console"}


def render(
    found: Found,
    format: Format,
    *,
    width: int | None = None,
    color: bool = False,
    full: bool = False,
    run_file: str | None = None,
) -> str:
    """Return the report as text: of a run in every format, of anything else as `console`, `html`, `md` or `json`.

    Args:
        width, color: of the `console`.
        full: all of it, in `console` and `md`.
        run_file: what a run was read from, or written to, for commands to type next; `NEWEST` where they need none.

    Raises:
        UsageError: there is no such format, or the run holds no plan to write an sbatch file or an env file for.
    """
    if isinstance(found, Analysis):
        found = masked(found)
    if format == "console":
        return to_console.to_console(_document_of(found, run_file), full=full, width=width, color=color)
    if format == "md":
        return to_markdown.to_markdown(_document_of(found, run_file), full=full)
    if format == "html":
        return to_html.to_html(_document_of(found, run_file, draws=True))
    if format == "json" and not isinstance(found, Validation):
        return wafer_json(found) if isinstance(found, WaferPrediction) else to_json.to_json(found)
    if format == "csv" and isinstance(found, Analysis):
        return to_csv.to_csv(found)
    if format in ("sbatch", "env") and isinstance(found, Analysis):
        return _to_launch(found, format)
    there_are = (
        FORMATS if isinstance(found, Analysis) else ("console", "html", "md", "json")[: 3 if isinstance(found, Validation) else 4]
    )
    raise UsageError(gone_message("format", format) or f"no report format {format!r} here; there are {', '.join(there_are)}")


def card(found: Found) -> str:
    """Return the answer as HTML for a notebook: the first screen of the page, without its pictures."""
    return to_html.to_card(_document_of(masked(found) if isinstance(found, Analysis) else found, None))


def _to_launch(analysis: Analysis, format: Format) -> str:
    """Return the batch file of the plan, or its variables for a shell. Raise UsageError without a plan or its launch lines."""
    plan = analysis.recommendation
    if plan is None or (format == "sbatch" and plan.launch is None):
        what = "sbatch file" if format == "sbatch" else "value of DEF_NODES"
        why = (plan.launch_note if plan is not None else analysis.no_plan) or "analyze again with more --max-seconds"
        raise UsageError(f"this run holds no recommended launch, so there is no {what} for it: {why}")
    if format == "sbatch" and plan.launch is not None:
        return plan.launch.sbatch
    return "".join(f"export {word}\n" for word in plan.variables.splitlines())


def write_report(path: Path | str, text: str, format: Format) -> None:
    """Write a report; of those that hold a whole record, new files are for their owner alone. Raises as the writing does."""
    write_text_atomically(path, text, is_private=format in HOLD_RECORDS)


def _document_of(found: Found, run_file: str | None, *, draws: bool = False) -> Document:
    charts: Mapping[str, Chart] = {}
    if draws and isinstance(found, Analysis | RunInspection):
        from cs_input_analyzer.report.pictures import pictures_of  # loads NumPy

        charts = pictures_of(found)
    if isinstance(found, Analysis):
        return shortened(run_document(found, charts=charts, run_file=run_file))
    if isinstance(found, Validation):
        return shortened(validation_document(found))
    if isinstance(found, Comparison):
        return shortened(comparison_document(found))
    if isinstance(found, RunInspection):
        return shortened(inspection_document(found, charts=charts))
    return shortened(wafer_document(found))


def render_validation(analysis: Analysis, *, width: int | None = None, color: bool = False) -> str:
    """Return what was predicted and what was measured, for a terminal."""
    tried = masked(analysis).validation
    assert tried is not None
    return render(tried, "console", width=width, color=color, full=True)


def render_tuning(analysis: Analysis, *, width: int | None = None, color: bool = False) -> str:
    """Return the fixes that were kept and the patch, for a terminal."""
    return to_console.to_console(shortened(tuning_document(masked(analysis))), full=True, width=width, color=color)


def format_of(path: Path | str) -> Format:
    """Return the format that the ending of `path` asks for. Raise UsageError if it asks for none."""
    ending = Path(path).suffix.lower() or Path(path).name.lower()  # `.env` has a name and no suffix
    if ending not in ENDINGS:
        raise UsageError(
            gone_message("format", ending.removeprefix("."))
            or f"which format is {path}? Name it with --format {'|'.join(FORMATS)}, or use an ending: {' '.join(ENDINGS)}"
        )
    return ENDINGS[ending]
