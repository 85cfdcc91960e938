"""Patches of the user's files: the fixes and nothing else, and `patch` and `git apply` take them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path, PurePath

import pytest
from builders import make_finding
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.pipeline.source.code import AUTOTUNE, with_argument, with_call_after, with_calls_swapped
from cs_input_analyzer.pipeline.source.patch import SourcePatch, make_patch, unified_diff
from cs_input_analyzer.pipeline.source.statements import find_statement
from cs_input_analyzer.records import Finding

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


def finding(line: int, after: str | None, text: str = FILE, path: str = "/data/x.py", **more: object) -> Finding:
    found = find_statement(text.replace("\r\n", "\n"), line)
    return make_finding(source=f"{path}:{line}", before=found.code, after=after, **more)


def code(line: int) -> str:
    found = find_statement(FILE, line)
    return found.code


def parallel(line: int, method: str = "map") -> Finding:
    return finding(line, with_argument(code(line), method, "num_parallel_calls", AUTOTUNE))


def patched(*findings: Finding, text: str = FILE) -> str:
    patch = make_patch(findings, {"/data/x.py": text})
    assert patch.by_hand == ()
    (file,) = patch.files
    return file.after


def test_fixes_of_one_statement_are_put_together() -> None:
    prefetch = finding(CHAIN, with_call_after(code(CHAIN), "shuffle", "prefetch(tf.data.AUTOTUNE)"))
    wanted = ".map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(32).shuffle(9).prefetch(tf.data.AUTOTUNE)  # all of it"
    assert wanted in patched(parallel(CHAIN), prefetch)
    assert patched(parallel(CHAIN), prefetch) == patched(prefetch, parallel(CHAIN))


def test_only_what_a_fix_changes_is_changed() -> None:
    after = patched(parallel(LONG), parallel(CHAIN))
    assert after.replace(", num_parallel_calls=tf.data.AUTOTUNE", "") == FILE


def test_the_same_fix_twice_is_made_once() -> None:
    assert patched(parallel(LONG), parallel(LONG)) == patched(parallel(LONG))


def test_fixes_with_parts_between_them_are_put_together() -> None:
    before = code(CHAIN)
    swapped = with_calls_swapped(before, "batch", "shuffle")
    both = with_argument(before, "map", "num_parallel_calls", "2")
    assert swapped is not None
    wide = finding(CHAIN, both.replace("shuffle(9)", "shuffle(99)"))  # from the map to the shuffle
    inner = finding(CHAIN, before.replace("batch(32)", "batch(64)"))
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
    assert patch.files == ()
    assert patch.applied == ()
    ((left, reason),) = patch.by_hand
    assert left is changed
    assert why in reason


def test_windows_newlines_stay() -> None:
    windows = FILE.replace("\n", "\r\n")
    change = with_call_after(code(LONG), "prefetch", "take(3)")
    assert change is not None
    after = patched(parallel(LONG), parallel(CHAIN), finding(LONG, change), text=windows)
    assert after.replace("\r\n", "\n") == patched(parallel(LONG), parallel(CHAIN), finding(LONG, change))
    assert "\n" not in after.replace("\r\n", "")


SEVERAL = (
    parallel(LONG),
    parallel(CHAIN),
    finding(CHAIN, code(CHAIN).replace("32", "8")),
    finding(LONG, code(LONG).replace("1", "2")),
)


@given(st.permutations(SEVERAL), st.integers(1, len(SEVERAL)))
def test_the_order_of_findings_does_not_matter(findings: list[Finding], count: int) -> None:
    assert patched(*findings[:count]) == patched(*reversed(findings[:count]))


NAMES = ["x.py", "deep/er/x.py", "a b/x y.py", "größe/数据.py", 'q"uote\\.py', "a\tb.py", "-x.py"]


def diff_of(folder: Path, name: str, text: str) -> tuple[str, str]:
    path = str(folder / name)
    old = FILE if text == FILE else text
    findings = [finding(line, parallel(line).after, text=old, path=path) for line in (LONG, CHAIN)]
    patch: SourcePatch = make_patch(findings, {path: text})
    assert patch.by_hand == ()
    return unified_diff(patch.files, PurePath(folder)), patch.files[0].after


@pytest.mark.parametrize("program", [["patch", "-p0", "--quiet"], ["git", "apply"]], ids=["patch", "git"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize("name", NAMES)
def test_the_programs_take_it(tmp_path: Path, program: list[str], name: str, newline: str) -> None:
    if shutil.which(program[0]) is None:
        pytest.skip(f"{program[0]} is not installed here")
    text = FILE.replace("\n", newline)
    diff, after = diff_of(tmp_path, name, text)
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    done = subprocess.run(program, input=diff.encode(), cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    assert file.read_bytes().decode() == after


def test_git_takes_it_in_a_folder_of_a_repository(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed here")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True, timeout=60)
    folder = tmp_path / "sub"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "x.py").write_text(FILE)
    diff, after = diff_of(folder, "data/x.py", FILE)
    subprocess.run(["git", "apply"], input=diff.encode(), cwd=folder, check=True, timeout=60)
    assert (folder / "data" / "x.py").read_text() == after


def test_a_file_elsewhere_is_refused(tmp_path: Path) -> None:
    patch = make_patch([parallel(LONG)], {"/data/x.py": FILE})
    with pytest.raises(ValueError, match=r"/data/x\.py"):
        unified_diff(patch.files, PurePath(tmp_path))
