"""Records -> text, in every format. Reports format records and compute nothing: they all say the same.

Importing this loads no renderer: each brings its own library (rich, jinja2, pandas, pydantic) when it is first used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Analysis, Comparison, RunInspection, Validation

if TYPE_CHECKING:
    import pandas as pd

    from cs_input_analyzer.report.document import Document
    from wafer_model.prediction import WaferPrediction

    Found: TypeAlias = Analysis | Comparison | RunInspection | Validation | WaferPrediction

Part = TypeVar("Part")
Format = Literal["console", "html", "json", "csv", "sbatch", "env", "log", "md", "summary"]

FORMATS: tuple[Format, ...] = ("console", "html", "json", "csv", "sbatch", "env", "log", "md", "summary")

# What a file's ending says about the format wanted in it.
ENDINGS: dict[str, Format] = {f".{form}": form for form in FORMATS if form not in ("console", "summary")}
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
    """The report as text: of a run in every format, of anything else as `console`, `html`, `md` or `json`.

    Args:
        width, color: of the `console`.
        full: all of it, in `console` and `md`.
        run_file: what a run was read from, for commands to type next.

    Raises:
        UsageError: there is no such format, or the run holds no plan to write an sbatch file or an env file for.
    """
    if format in ("console", "html", "md"):
        return _rendered(_document_of(found, format == "html", run_file), format, width, color, full)
    if format == "json" and isinstance(found, Analysis | Comparison | RunInspection):
        from cs_input_analyzer.report.to_json import to_json

        return to_json(found)
    if format == "json" and not isinstance(found, Analysis | Comparison | RunInspection | Validation):
        from cs_input_analyzer.report.wafer import wafer_json

        return wafer_json(found)
    if isinstance(found, Analysis) and format in FORMATS:
        return _of_a_run(found, format, run_file)
    there_are = FORMATS if isinstance(found, Analysis) else ("console", "html", "md", "json")
    raise UsageError(f"no report format {format!r} here; there are {', '.join(there_are)}")


def _of_a_run(analysis: Analysis, format: Format, run_file: str | None) -> str:
    if format == "summary":
        from cs_input_analyzer.report.run_document import file_of
        from cs_input_analyzer.report.to_summary import to_summary

        return to_summary(analysis, file_of(analysis, run_file))
    if format == "csv":
        return render_table(analysis, "workers")
    if format == "sbatch":
        launch = analysis.recommendation.launch if analysis.recommendation is not None else None
        return _or_refuse(launch, "sbatch file", analysis).sbatch
    if format == "env":
        plan = _or_refuse(analysis.recommendation, "value of DEF_NODES", analysis)
        return "".join(f"export {word}\n" for word in plan.variables.splitlines())
    from cs_input_analyzer.report.to_log import to_log

    return to_log(analysis)


def _document_of(found: Found, has_pictures: bool, run_file: str | None) -> Document:
    from cs_input_analyzer.report import run_document

    if isinstance(found, Analysis):
        return run_document.run_document(found, has_pictures=has_pictures, run_file=run_file)
    if isinstance(found, Validation):
        return run_document.validation_document(found)
    if isinstance(found, Comparison):
        from cs_input_analyzer.report.comparison import comparison_document

        return comparison_document(found)
    if isinstance(found, RunInspection):
        from cs_input_analyzer.report.inspection import inspection_document

        return inspection_document(found)
    from cs_input_analyzer.report.wafer import wafer_document

    return wafer_document(found)


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
    from cs_input_analyzer.report.to_html import to_card

    return to_card(_document_of(found, False, None))


def render_tuning(analysis: Analysis, *, width: int | None = None, color: bool = False) -> str:
    """The fixes that were kept and the patch, for a terminal."""
    from cs_input_analyzer.report.findings import tuning_document

    return _rendered(tuning_document(analysis), "console", width, color, full=True)


def render_table(analysis: Analysis, table: str) -> str:
    """One table of a run as CSV, by its name in `to_csv.TABLES`. Raises UsageError where there is no such table."""
    from cs_input_analyzer.report.to_csv import to_csv

    return to_csv(analysis, table)


def data_frames(analysis: Analysis) -> dict[str, pd.DataFrame]:
    """All tables of a run by their names, as pandas has them."""
    from cs_input_analyzer.report.to_csv import frames

    return frames(analysis)


def format_of(path: Path | str) -> Format:
    """The format that the ending of `path` asks for. Raises UsageError where it says nothing."""
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
