"""Data, and modules that an input function imports, below folders whose names are no UTF-8."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.functional.running import BRIEF, QUICK, run_cli

pytestmark = [pytest.mark.tf, pytest.mark.slow, pytest.mark.long]

READS = """
import os, sys
import tensorflow as tf
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.fsdecode(b"mods\\xff")))

def input_fn(params):
    import odd_helper
    folder = os.fsencode(HERE) + b"/data\\xff"
    return odd_helper.read([folder + b"/" + name for name in os.listdir(folder)])
"""
HELPER = """
import tensorflow as tf

def read(names):
    return tf.data.TFRecordDataset(names).repeat().batch(2, drop_remainder=True)
"""


def test_they_are_measured(tmp_path: Path) -> None:
    import tensorflow as tf

    users = tmp_path / "users"
    for name in (b"mods\xff", b"data\xff"):
        (users / os.fsdecode(name)).mkdir(parents=True)
    (users / "data.py").write_text(READS)
    (users / os.fsdecode(b"mods\xff") / "odd_helper.py").write_text(HELPER)
    for number in range(3):
        with tf.io.TFRecordWriter(os.fsencode(users) + b"/data\xff/part-\xfe%d" % number) as writer:
            for _ in range(200):
                writer.write(b"x" * 100)
    page = tmp_path / "run.html"
    outcome = run_cli(("analyze", "data.py:input_fn", *QUICK, "--html", str(page), "--full"), tmp_path, program=BRIEF)
    assert outcome.code == 0, outcome.err
    assert outcome.run["pipeline"]["files"]["count"] == 3
    batch = next(op for op in outcome.run["pipeline"]["ops"] if op["name"] == "batch")
    assert not batch["source"]  # TensorFlow reads no stack with such a path
    assert outcome.is_tree_untouched
    assert "Traceback" not in outcome.err
    assert page.stat().st_size > 0
