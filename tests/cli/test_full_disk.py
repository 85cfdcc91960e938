"""A disk that is full while a report is written, in each format: exit 4, the old file stays, nothing else is left of it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cs_input_analyzer.cli import main
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.records import Fixes, Layout, Patch
from cs_input_analyzer.report.to_json import load, to_json
from cs_input_analyzer.workflows import launched
from tests.builders import make_analysis

# A patch of more than is free.
LONG = "".join(f"-old line {number}\n+new line {number}\n" for number in range(1, 1000))
PATCH = Patch(diff=f"--- ./x.py\n+++ ./x.py\n@@ -1,999 +1,999 @@\n{LONG}", folder="/data", codes=("CSI101",), proven=True)
NAMES = ("run.json", "run.html", "run.md", "run.csv", "run.sbatch", "run.env", "run.txt")


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A folder in which a file of one page can be made and nothing be written to it, with an old file of each name."""
    folder = tmp_path / "full"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no disk can be filled here: {mounted.stderr.strip()}")
    try:
        for name in (*NAMES, "a.patch"):
            (folder / name).write_text("old")
        with pytest.raises(OSError, match="No space"):
            (folder / "data").write_bytes(b"x" * 2**17)
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def entries(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.name != "data"}


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_run_cannot_be_rendered_there(name: str, full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "saved.json").write_text(to_json(make_analysis()))
    before = entries(full)
    for words in (["-o", str(full / name)], ["-o", str(full / f"new-{name}")]):
        assert main(["report", str(tmp_path / "saved.json"), *words]) == LaunchError.exit_code
        said = capsys.readouterr().err
        assert f"cannot write {words[1]}: no space left on device" in said
        assert "nothing was replaced" in said
    assert entries(full) == before


@pytest.mark.parametrize("more", [(), ("--quiet",)])
def test_of_a_run_that_was_measured_what_has_room_is_written_and_the_report_is_printed(
    more: tuple[str, ...], full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the files that were asked for, and the patch, one has room."""
    fixes = Fixes(codes=("CSI101",), edits=(), measured_gain=None, layout=Layout.parse("1x1x1"), patch=PATCH)
    found, saved = make_analysis(fixes=fixes), tmp_path / "run.json"
    monkeypatch.setattr(launched, "analyze", lambda *_, **__: found)
    before = entries(full)
    files = ("--json", str(saved), "--html", str(full / "run.html"), "--write-patch", str(full / "a.patch"))
    assert main(["tune", f"{__file__}:f", *files, *more]) == LaunchError.exit_code
    told = capsys.readouterr()
    assert entries(full) == before
    assert load(str(saved)).fixes == fixes
    assert "+new line 7" in told.out
    for name in ("run.html", "a.patch"):
        assert f"cannot write {full / name}: no space left on device" in told.err
