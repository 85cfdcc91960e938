"""A disk that is full while a report is written, in each format: exit 4, the old file stays, nothing else is left of it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cs_input_analyzer.cli import main
from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.report.to_json import to_json
from tests.builders import make_analysis

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
        for name in NAMES:
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
