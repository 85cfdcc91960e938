"""The list of the files that a script has changed, where it ran on its own files: it names those, and no others."""

from __future__ import annotations

import json
import sys

import pytest

from tests.functional.running import ran

# An audit hook stays in its process, so all cases have one of their own. `below` is a descriptor of the folder `model_dir`.
WATCHED = """
import json, os, shutil, sys
from pathlib import Path
from cs_input_analyzer.worker.capture.interceptor import Interceptor, audit
audit()
found, home = [], os.getcwd()
for number, code in enumerate(json.loads(sys.argv[1])):
    users = Path(home, str(number))
    (users / "model_dir" / "inner").mkdir(parents=True)
    for name in ("old", "model_dir/old", "model_dir/inner/old"):
        (users / name).write_text("precious")
    os.chdir(users)
    below, watching, error = os.open("model_dir", os.O_RDONLY), Interceptor(sys.exit), ""
    with watching.running():
        try:
            exec(code, {"below": below, "os": os, "shutil": shutil, "Path": Path})
        except Exception as raised:
            error = repr(raised)
    assert os.open.__module__ == "posix"
    found.append([error, [os.path.relpath(path) for path in watching.written]])
print(json.dumps(found))
"""
OPENER = "lambda path, flags: os.open(path, flags, dir_fd=below)"


CHANGES = [
    ('shutil.rmtree("model_dir")', ["model_dir", "model_dir/old", "model_dir/inner/old", "model_dir/inner"]),
    ('shutil.rmtree("inner", dir_fd=below)', ["model_dir/inner", "model_dir/inner/old"]),
    ('os.unlink("old", dir_fd=below)', ["model_dir/old"]),
    ('os.mkdir("new", dir_fd=below)', ["model_dir/new"]),
    ('os.unlink("inner/old", dir_fd=below); os.rmdir("inner", dir_fd=below)', ["model_dir/inner/old", "model_dir/inner"]),
    ('os.rename("old", "new", src_dir_fd=below)', ["model_dir/old", "new"]),
    ('os.replace("old", "new", dst_dir_fd=below)', ["old", "model_dir/new"]),
    ('os.link("old", "new", dst_dir_fd=below)', ["model_dir/new"]),
    ('os.link("old", "new", src_dir_fd=below)', ["new"]),
    ('os.symlink("old", "new", dir_fd=below)', ["model_dir/new"]),
    ('os.utime("old", dir_fd=below)', ["model_dir/old"]),
    ('os.chmod("old", 0o600, dir_fd=below)', ["model_dir/old"]),
    ('os.chown("old", -1, -1, dir_fd=below)', ["model_dir/old"]),
    ('os.close(os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=below))', ["model_dir/new"]),
    (f'open("new", "w", opener={OPENER}).close()', ["model_dir/new"]),
    (f'open("old", "w").close(); open("old", "a", opener={OPENER}).close()', ["old", "model_dir/old"]),
    ("os.fchmod(below, 0o700)", ["model_dir"]),
    ('Path("model_dir", "new").write_text(""); os.truncate("old", 1)', ["model_dir/new", "old"]),
    (
        "for top, _, names, at in os.fwalk('model_dir', topdown=False): [os.unlink(name, dir_fd=at) for name in names]",
        ["model_dir/inner/old", "model_dir/old"],
    ),
]
QUIET = [
    'open("old").close(); os.close(os.open("old", os.O_RDONLY, dir_fd=below)); os.stat("old", dir_fd=below)',
    f'open("old", opener={OPENER}).close()',
    'list(os.fwalk(dir_fd=below)); os.scandir(below); os.access("old", os.W_OK, dir_fd=below)',
    'open(os.devnull, "w").close(); os.close(os.open("null", os.O_WRONLY, dir_fd=os.open("/dev", os.O_RDONLY)))',
    "import tempfile; tempfile.NamedTemporaryFile().close()",
]
CLOSED = """
os.close(below)
for call in (lambda: os.unlink("old", dir_fd=below), lambda: os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=below)):
    try:
        call()
    except OSError as error:
        assert error.strerror == "Bad file descriptor", error
    else:
        raise AssertionError("it did not fail")
"""


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, list[str]]]:
    """By code: what it raises, and what is listed of it."""
    codes = [*(code for code, _ in CHANGES), *QUIET, CLOSED]
    home, free = tmp_path_factory.mktemp("users"), tmp_path_factory.mktemp("free")
    done = ran([sys.executable, "-c", WATCHED, json.dumps(codes)], home, TMPDIR=str(free))
    assert done.returncode == 0, done.stderr
    return {code: (str(error), list(paths)) for code, (error, paths) in zip(codes, json.loads(done.stdout), strict=True)}


@pytest.mark.parametrize(("code", "expected"), CHANGES)
def test_names_are_those_of_the_folder_that_a_descriptor_holds(
    code: str, expected: list[str], changed: dict[str, tuple[str, list[str]]]
) -> None:
    error, paths = changed[code]
    assert error == ""
    assert sorted(paths) == sorted(expected)


@pytest.mark.parametrize("code", [*QUIET, CLOSED])
def test_what_changes_nothing_of_the_users_is_not_listed(code: str, changed: dict[str, tuple[str, list[str]]]) -> None:
    assert changed[code] == ("", [])
