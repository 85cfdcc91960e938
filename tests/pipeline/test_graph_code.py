"""Each op carries the statement that made it, and what a comment in it says. In-process TensorFlow."""

from __future__ import annotations

from typing import Any

import pytest

from cs_input_analyzer.pipeline import graph
from cs_input_analyzer.records import Op

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")
AUTOTUNE = -1


def ops_of(build: Any) -> dict[str, Op]:
    with graph.recorded_sources() as log:
        dataset = build()
    return {op.name: op for op in graph.read_graph(dataset, log, target="here:build").ops}


def test_each_op_of_a_chain_has_the_whole_statement_and_its_comments() -> None:
    def build() -> Any:
        files = tf.data.Dataset.range(10)
        return (
            files.map(lambda x: x + 1)  # csi: ignore=CSI101
            # four at a time
            .batch(4)
        )

    ops = ops_of(build)
    assert ops["range"].code == "        files = tf.data.Dataset.range(10)"
    assert ops["range"].ignored == ()
    for name in ("map", "batch"):
        code = ops[name].code
        assert code is not None
        assert [line.strip() for line in code.split("\n")] == [
            "return (",
            "files.map(lambda x: x + 1)  # csi: ignore=CSI101",
            "# four at a time",
            ".batch(4)",
            ")",
        ]
        assert ops[name].ignored == ("CSI101",)


def test_ops_inside_functions_have_theirs() -> None:
    def build() -> Any:
        def inner(number: Any) -> Any:
            return tf.data.Dataset.range(number).repeat(2)  # csi: ignore

        return tf.data.Dataset.range(4).interleave(inner, cycle_length=2)

    ops = ops_of(build)
    assert ops["repeat"].ignored == ("CSI",)
    assert (ops["repeat"].code or "").strip() == "return tf.data.Dataset.range(number).repeat(2)"
    assert ops["interleave"].ignored == ()


def test_code_that_no_file_holds_is_none() -> None:
    space: dict[str, Any] = {"tf": tf}
    exec(compile("def build():\n    return tf.data.Dataset.range(3).batch(2)\n", "<made up>", "exec"), space)
    ops = ops_of(space["build"])
    assert {op.code for op in ops.values()} == {None}
