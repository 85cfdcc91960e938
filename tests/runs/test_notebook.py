"""The Python interface in a notebook's kernel; skipped where nbclient and ipykernel are not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = [pytest.mark.tf, pytest.mark.slow]

SETUP = "import cs_input_analyzer as csia\nimport tensorflow as tf\nFACTOR = 3"
FUNCTION = """def input_fn(params):
    return tf.data.Dataset.range(10**6).map(lambda n: n * FACTOR).batch(params["batch_size"]).repeat()"""
ANALYZE = "print(csia.analyze(input_fn, {'batch_size': 32}, demand=10, max_seconds=10).verdict)"
MONITOR = "print(sum(1 for _ in csia.InputMonitor(input_fn({'batch_size': 4}).take(50), batch_size=4)))"


def test_a_function_of_a_cell_is_analyzed_and_a_loop_is_watched(tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    import nbformat

    cells = [nbformat.v4.new_code_cell(text) for text in (SETUP, FUNCTION, ANALYZE, MONITOR)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=200, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = ["".join(out.get("text", "") for out in cell.outputs) for cell in notebook.cells]
    assert "accelerator_bound" in printed[2]
    assert "50" in printed[3]
