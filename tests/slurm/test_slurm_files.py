"""The law of the user's files on nodes of Slurm, and Slurm from inside of a private tree."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.functional.running import ran
from tests.functional.test_user_files import NO_OVERLAY, check, needs_namespaces, users_of
from tests.slurm.private_slurm import PrivateSlurm
from tests.worker.test_isolation import isolated

pytestmark = [pytest.mark.tf, pytest.mark.long, pytest.mark.slurm, pytest.mark.slow, needs_namespaces]

# Its default shared folder is the current one, so a folder of ours lies below the working directory.
ON_SLURM = ("--launcher", "slurm", "--queue-timeout", "60", "--slurm-nodes", "2", "--max-seconds", "15", "--probe-layouts", "1x1x1")


@pytest.mark.parametrize("form", [("analyze", "data.py:input_fn"), ("python", "data.py")], ids=["target", "script"])
def test_slurm_leaves_the_users_own_as_it_was(slurm: PrivateSlurm, tmp_path: Path, form: tuple[str, ...]) -> None:
    with users_of(tmp_path, None) as users:
        before = users.state()
        options = (*ON_SLURM, "--no-measure-fixes", "--quiet")
        found = users.run(*form, *options) if form[0] == "analyze" else users.run(*options, *form)
        assert found.returncode == 0, found.stderr
        check(users, before)
    assert slurm.jobs() == ()


def test_without_overlays_nodes_give_a_full_answer(slurm: PrivateSlurm, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(NO_OVERLAY)
    (tmp_path / "data.py").write_text("import tensorflow as tf\n\ndef reads():\n    return tf.data.Dataset.range(10**9).batch(4)\n")
    words = ("analyze", "data.py:reads", *ON_SLURM, "--no-measure-fixes", "--quiet", "--json", "run.json")
    found = ran([sys.executable, "-m", "cs_input_analyzer", *words], tmp_path, PYTHONPATH=str(site))
    assert found.returncode == 0, found.stderr
    run = json.loads((tmp_path / "run.json").read_text())
    assert run["pipeline"]["user_files"] == "read-only"
    assert run["recommendation"]["nodes"] >= 1


def test_slurm_can_be_asked_from_inside(slurm: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "users").mkdir()
    monkeypatch.chdir(tmp_path)
    code = """
    import subprocess
    assert here.level == "private copies", here
    words = ["srun", "-N1", "-n1", "hostname"]
    print(subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout)
    """
    assert isolated(code, folder=tmp_path) == os.uname().nodename
