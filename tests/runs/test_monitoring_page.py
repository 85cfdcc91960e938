"""The page about training scripts: every example on it runs as it stands, as a script of its own."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.functional.running import ran

PAGE = Path(__file__).resolve().parents[2] / "docs" / "monitoring.md"
BLOCK = re.compile(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES: dict[str, str] = dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
VERDICTS = ("input-bound", "balanced", "accelerator-bound", "unknown")


def run(title: str, folder: Path) -> str:
    """What the example prints, run in `folder` as a script without `if __name__`."""
    script = folder / "example.py"
    script.write_text(EXAMPLES[title], encoding="utf-8")
    done = ran([sys.executable, str(script)], folder, 200)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_every_code_block_is_tried() -> None:
    assert PAGE.read_text(encoding="utf-8").count("```python") == len(EXAMPLES) == 5


@pytest.mark.long
@pytest.mark.tf
def test_keras(tmp_path: Path) -> None:
    printed = run("Keras", tmp_path)
    verdict = printed.splitlines()[-1]
    assert verdict.startswith(VERDICTS)
    assert not verdict.startswith("unknown") or "it was slower alone" in verdict  # other programs took the CPUs just then
    end = json.loads((tmp_path / "keras_logs" / "steps.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert (end["event"], end["samples"]) == ("end", 3 * 4096)
    assert end["global_rate"] > 0


@pytest.mark.tf
def test_a_loop_of_your_own(tmp_path: Path) -> None:
    printed = run("A loop of your own", tmp_path)
    lines = [line for line in printed.splitlines() if line.startswith("| Train Device=CPU, Step=")]
    assert len(lines) == 20_000 // 64 // 50
    assert printed.splitlines()[-1].startswith(VERDICTS)
    assert list((tmp_path / "loop_logs").glob("events.out.tfevents.*"))
    assert '"event": "checkpoint"' in (tmp_path / "loop_logs" / "steps.jsonl").read_text(encoding="utf-8")


def test_a_dataloader_of_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    printed = run("A DataLoader of PyTorch", tmp_path)
    lines = [line for line in printed.splitlines() if line.startswith("| Train Device=CPU, Step=")]
    assert len(lines) == 20_000 // 64 // 50
    assert printed.splitlines()[-1].startswith(VERDICTS)
    assert '"event": "end"' in (tmp_path / "torch_logs" / "steps.jsonl").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.tf
def test_in_a_notebook(tmp_path: Path) -> None:
    printed = run("In a notebook", tmp_path)
    assert "100 steps," in printed
    assert {path.name for path in tmp_path.iterdir()} == {"example.py"}


@pytest.mark.long
@pytest.mark.tf
@pytest.mark.slow
def test_analyzing_from_inside_a_script(tmp_path: Path) -> None:
    assert run("Analyzing from inside a script", tmp_path).split()[-1].replace("_", "-") in VERDICTS
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["measurements"]
