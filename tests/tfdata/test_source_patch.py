"""Patches of the user's files: the fixes and nothing else, and `patch` and `git apply` take them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path, PurePath

import pytest
from builders import make_finding
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.records import Finding
from cs_input_analyzer.tfdata.source.code import AUTOTUNE, with_argument, with_call_after
from cs_input_analyzer.tfdata.source.patch import make_patch, unified_diff
from cs_input_analyzer.tfdata.source.statements import find_statement

FILE = """\
import tensorflow as tf


def train_input_fn(params):
    ds = tf.data.TFRecordDataset(params["files"]).map(parse).batch(32).shuffle(9)  # all of it
    ds = (
        ds.map(augment)  # slow
        .filter(keep)
        .prefetch(1)
    )
    return ds


END = 1"""
CHAIN, LONG = 5, 7


def code(line: int) -> str:
    return find_statement(FILE, line).code


def finding(line: int, after: str | None, path: str = "/data/x.py") -> Finding:
    return make_finding(source=f"{path}:{line}", before=code(line), after=after)


def parallel(line: int, path: str = "/data/x.py") -> Finding:
    return finding(line, with_argument(code(line), "map", "num_parallel_calls", AUTOTUNE), path)


def patched(*findings: Finding, text: str = FILE) -> str:
    patch = make_patch(findings, {"/data/x.py": text})
    assert patch.by_hand == ()
    (file,) = patch.files
    return file.after


def test_fixes_of_one_statement_are_put_together_and_nothing_else_is_changed() -> None:
    prefetch = finding(CHAIN, with_call_after(code(CHAIN), "shuffle", "prefetch(tf.data.AUTOTUNE)"))
    wanted = ".map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(32).shuffle(9).prefetch(tf.data.AUTOTUNE)  # all of it"
    assert wanted in patched(parallel(CHAIN), prefetch)
    after = patched(parallel(LONG), parallel(CHAIN))
    assert after.replace(", num_parallel_calls=tf.data.AUTOTUNE", "") == FILE
    assert patched(parallel(LONG), parallel(LONG)) == patched(parallel(LONG))


def test_fixes_with_parts_between_them_are_put_together() -> None:
    both = with_argument(code(CHAIN), "map", "num_parallel_calls", "2")
    wide = finding(CHAIN, both.replace("shuffle(9)", "shuffle(99)"))  # from the map to the shuffle
    inner = finding(CHAIN, code(CHAIN).replace("batch(32)", "batch(64)"))
    assert ".map(parse, num_parallel_calls=2).batch(64).shuffle(99)" in patched(wide, inner)


def test_fixes_that_meet_are_left_to_be_done_by_hand() -> None:
    one, two = finding(CHAIN, code(CHAIN).replace("(32)", "(64)")), finding(CHAIN, code(CHAIN).replace("(32)", "(16)"))
    patch = make_patch([one, two], {"/data/x.py": FILE})
    assert patch.applied == (one,)
    ((left, why),) = patch.by_hand
    assert left is two
    assert "same part" in why


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (make_finding(source="/data/x.py:5"), "no single call"),
        (make_finding(source=None, before="a", after="b"), "cannot be read"),
        (make_finding(source="/data/other.py:5", before="a", after="b"), "cannot be read"),
        (make_finding(source="/data/x.py:5", before="ds = 1", after="ds = 2"), "not what it was"),
        (make_finding(source="/data/x.py:4000", before="ds = 1", after="ds = 2"), "not what it was"),
        (finding(CHAIN, "    ds = (("), "no Python"),
    ],
)
def test_what_cannot_be_patched_is_said(changed: Finding, why: str) -> None:
    patch = make_patch([changed], {"/data/x.py": FILE})
    assert patch.files == patch.applied == ()
    ((left, reason),) = patch.by_hand
    assert left is changed
    assert why in reason


SEVERAL = (
    parallel(LONG),
    parallel(CHAIN),
    finding(CHAIN, code(CHAIN).replace("32", "8")),
    finding(LONG, code(LONG).replace("1", "2")),
)


@given(st.permutations(SEVERAL), st.integers(1, len(SEVERAL)))
def test_the_order_of_findings_does_not_matter_and_newlines_stay(findings: list[Finding], count: int) -> None:
    after = patched(*findings[:count])
    assert after == patched(*reversed(findings[:count]))
    assert patched(*findings[:count], text=FILE.replace("\n", "\r\n")) == after.replace("\n", "\r\n")


@given(st.permutations(SEVERAL), st.integers(1, len(SEVERAL)), st.sets(st.integers(0, FILE.count("\n") - 1)))
def test_each_line_keeps_its_own_newline(findings: list[Finding], count: int, in_windows: set[int]) -> None:
    def mixed(text: str) -> str:
        lines = text.split("\n")
        return "".join(line + ("\r\n" if number in in_windows else "\n") for number, line in enumerate(lines[:-1])) + lines[-1]

    assert patched(*findings[:count], text=mixed(FILE)) == mixed(patched(*findings[:count]))


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_new_lines_end_like_their_neighbours(newline: str) -> None:
    longer = finding(LONG, code(LONG).replace("        .filter", "        .cache()\n        .filter"))
    after = FILE.replace("        .filter", "        .cache()\n        .filter")
    assert patched(longer, text=FILE.replace("\n", newline)) == after.replace("\n", newline)
    last = make_finding(source="/data/x.py:3", before="end = 1", after="end = [\n    1]")
    assert patched(last, text=f"one = 1{newline}{newline}end = 1") == f"one = 1{newline}{newline}end = [{newline}    1]"


@pytest.mark.parametrize("program", [["patch", "-p0", "--quiet"], ["git", "apply"]], ids=["patch", "git"])
@pytest.mark.parametrize(("name", "newline"), [("x.py", "\n"), ("deep/a b/größe.py", "\r\n"), ("-x.py", "\n")])
def test_the_programs_take_it(tmp_path: Path, program: list[str], name: str, newline: str) -> None:
    if shutil.which(program[0]) is None:
        pytest.skip(f"{program[0]} is not installed here")
    if program[0] == "git":  # in a folder of a repository
        subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True, timeout=60)
    folder = tmp_path / "sub"
    text, path = FILE.replace("\n", newline), str(folder / name)
    patch = make_patch([parallel(line, path) for line in (LONG, CHAIN)], {path: text})
    file = folder / name
    file.parent.mkdir(parents=True)
    file.write_bytes(text.encode())
    diff = unified_diff(patch.files, PurePath(folder))
    done = subprocess.run(program, input=diff.encode(), cwd=folder, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    assert file.read_bytes().decode() == patch.files[0].after


def test_a_file_elsewhere_is_refused(tmp_path: Path) -> None:
    patch = make_patch([parallel(LONG)], {"/data/x.py": FILE})
    with pytest.raises(ValueError, match=r"/data/x\.py"):
        unified_diff(patch.files, PurePath(tmp_path))
