"""A user's script changes nothing of the user's: private copies of all files, and what happens where there can be none."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from cs_input_analyzer.engines.bootstrap import command
from cs_input_analyzer.engines.script import find_captures
from cs_input_analyzer.worker.capture import from_command
from tests.functional.running import ran, tree_of

SCRIPTS = Path(__file__).parents[1] / "functional" / "scripts"
SECONDS = 60.0
# In a user namespace that may have no others, without any capability: as in most containers.
WITHOUT = """
echo 0 >/proc/sys/user/max_user_namespaces || exit 9
exec setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all -- "$@"
"""


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with results of the user's, to be in."""
    folder = tmp_path / "users"
    for part in ("before", "after"):
        (folder / part / "folder").mkdir(parents=True)
        (folder / part / "summary").mkdir()
        (folder / part / "folder" / "result").write_text("precious")
        for name in (
            *("text", "write_file", "raw_write", "records", "saved", "printed", "removed", "renamed", "mode", "replaced"),
            *("thread", "gfile", "times", "link", "child", "forked", "held"),
        ):
            (folder / part / name).write_text("precious")
        with sqlite3.connect(folder / part / "base") as base:
            base.execute("create table results (number)")
    monkeypatch.chdir(folder)
    return folder


def isolated(code: str, *, folder: Path, as_user: int | None = None, mount: str = "") -> str:
    """What Python code prints in an isolated process of ours, after a shell's `mount` in a user namespace where there is one. `why`
    is the reason why it is not isolated."""
    place, module = folder / "place", folder / "modules"
    place.mkdir()
    module.mkdir()
    (module / "told.py").write_text(
        "import numpy  # which starts threads\n\ndef main(arguments):\n    why = arguments[-1]\n"
        + textwrap.indent(textwrap.dedent(code), "    ")
    )
    line = command("told", isolated_in=place)
    if as_user is not None:
        place.chmod(0o777)
        line = ["setpriv", f"--reuid={as_user}", f"--regid={as_user}", "--clear-groups", "--", *line]
    if mount:
        line = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh", *line]
    run = ran(line, Path.cwd(), PYTHONPATH=str(module), PYTHONDONTWRITEBYTECODE="1", HOME=str(folder / "users"))
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def can_isolate() -> bool:
    line = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/tmp"]
    return shutil.which("unshare") is not None and subprocess.run(line, capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not can_isolate(), reason="this machine allows no mount namespaces")
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only the superuser can run as somebody else")


@pytest.mark.tf
def test_a_script_that_destroys_everything_destroys_nothing(users: Path) -> None:
    there = tree_of(users.parent)
    found, _ = find_captures(from_command(["python", str(SCRIPTS / "writes_everywhere.py")]), SECONDS)
    assert [one.kind for one in found.candidates] == ["loop"]
    assert found.notes == ()  # it came to its end: each of its ways was open to it
    assert tree_of(users.parent) == there


def test_what_is_kept_is_written_for_real_and_nothing_else(users: Path, tmp_path: Path) -> None:
    there = tree_of(users)
    code = """
    import os, sys
    open("before/text", "w").write("gone")
    assert open("before/text").read() == "gone" and not why
    open(os.path.join(os.environ["PYTHONPATH"].partition(":")[0], "..", "place", "result"), "w").write("kept")
    """
    isolated(code, folder=tmp_path)
    assert (tmp_path / "place" / "result").read_text() == "kept"
    assert tree_of(users) == there


@needs_root
def test_a_user_without_privileges_writes_to_copies_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a user namespace: also below folders of others, as a project's folder is, and as whoever they were before."""
    python = Path(sys.executable).resolve()
    if subprocess.run(["setpriv", "--reuid=1234", "--clear-groups", "--", str(python), "-c", ""], check=False).returncode != 0:
        pytest.skip("this Python is not for other users")
    code = """
    import os
    assert not why, why
    assert os.getuid() == os.getgid() == 1234
    open("result", "w").write("gone")
    os.rename("result", "other")
    os.mkdir("new")
    assert open("/dev/null", "w").write("x") and open("/proc/self/status").read()
    """
    with tempfile.TemporaryDirectory() as name:  # each start of a pytest shuts its own folder for others
        folder = Path(name, "project", "mine")
        folder.mkdir(parents=True)
        Path(name).chmod(0o755)
        (folder / "result").write_text("precious")
        for path in (folder, folder / "result"):
            os.chown(path, 1234, 1234)
        monkeypatch.chdir(folder)
        isolated(code, folder=Path(name), as_user=1234)
        assert [path.name for path in folder.iterdir()] == ["result"]
        assert (folder / "result").read_text() == "precious"
        monkeypatch.undo()


@needs_root
def test_what_is_mounted_in_a_folder_of_others_stays_to_be_seen(users: Path, tmp_path: Path) -> None:
    """On the way to the working directory, in a user namespace."""
    folder, scratch = users / "project" / "mine", users / "project" / "scratch"
    folder.mkdir(parents=True)
    scratch.mkdir()
    folder.parent.chmod(0o777)
    os.chown(folder.parent, 1234, 1234)
    os.chdir(folder)
    mount = f'mount -t tmpfs none "{scratch}" && touch "{scratch}/data" && exec "$@"'
    assert isolated("import os\nassert not why, why\nprint(os.listdir('../scratch'))", folder=tmp_path, mount=mount) == "['data']"


@needs_root
def test_a_folder_of_ones_own_below_one_of_others_can_be_written_to(users: Path, tmp_path: Path) -> None:
    """Also where it lies on no way to the working directory, as /scratch/users/me does."""
    scratch = users / "scratch"
    mine = scratch / "team" / "users" / "mine"
    mine.mkdir(parents=True)
    (mine / "result").write_text("precious")
    for folder in (scratch / "team" / "users", scratch / "team"):
        folder.chmod(0o777)
        os.chown(folder, 1234, 1234)
    code = f"assert not why, why\nopen({str(mine / 'result')!r}, 'w').write('gone')\nprint('wrote')"
    assert isolated(code, folder=tmp_path, mount=f'mount --bind "{scratch}" "{scratch}" && exec "$@"') == "wrote"
    assert (mine / "result").read_text() == "precious"


@needs_root
def test_a_working_directory_among_the_sockets_is_a_copy_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/run") as folder:
        monkeypatch.chdir(folder)
        isolated('open("new", "w").write("x")\nassert open("new").read() == "x" and not why', folder=tmp_path)
        assert os.listdir(folder) == []


def test_a_read_only_home_can_be_written_to(users: Path, tmp_path: Path) -> None:
    users.chmod(0o555)
    isolated('open("new", "w").write("x")\nassert open("new").read() == "x" and not why', folder=tmp_path)
    users.chmod(0o755)
    assert not (users / "new").exists()


def test_the_page_cache_of_the_files_below_is_seen(users: Path, tmp_path: Path) -> None:
    """A private copy that nobody has written is the file itself, read through an overlay."""
    with (users / "data").open("wb") as file:
        file.write(bytes(1 << 20))
        file.flush()
        os.fsync(file.fileno())  # dirty pages stay
    code = """
    from cs_input_analyzer.machines.page_cache import cached_ratio, evict, warm
    paths = ["data"]
    warm(paths, float("inf"))
    assert cached_ratio(paths) > 0.98, cached_ratio(paths)
    evict(paths)
    assert cached_ratio(paths) == 0.0, cached_ratio(paths)
    """
    isolated(code, folder=tmp_path)


@pytest.mark.long
@pytest.mark.tf
def test_without_copies_a_script_ends_at_its_first_place_that_is_no_look(tmp_path: Path) -> None:
    """And says what it wrote until then; the next place is had by its number."""
    folder = tmp_path / "users"
    folder.mkdir()
    (folder / "run.py").write_text(
        textwrap.dedent(
            """
            from pathlib import Path
            import tensorflow as tf

            data = tf.data.Dataset.range(100).batch(4)
            Path("model_dir").mkdir(exist_ok=True)
            for first in data.take(1):
                Path("model_dir", "shape").write_text(str(first.shape))
            for batch in data:
                pass
            Path("metrics.txt").write_text("none")
            for batch in data.map(lambda number: number + 1):
                pass
            """
        )
    )

    def listed(*options: str) -> str:
        words = [sys.executable, "-m", "cs_input_analyzer", "--list-captures", "--quiet", *options, "python", "run.py"]
        line = ["unshare", "--user", "--map-root-user", "sh", "-c", WITHOUT, "sh", *words]
        run = ran(line, folder)
        assert run.returncode == 0, run.stderr
        return run.stdout

    first = listed()
    assert "a peek at a few elements" in first
    assert "capture 2: a loop over a Dataset at run.py:9 (taken)" in first
    assert "capture 3" not in first
    assert "private copies cannot be had" in first
    assert "user namespace" in first
    assert "model_dir" in first
    assert (folder / "model_dir" / "shape").read_text() == "(4,)"
    assert not (folder / "metrics.txt").exists()
    assert "capture 3: a loop over a Dataset at run.py:12 (taken)" in listed("--capture", "3")


# A folder with a mount below it is made anew entry by entry; between the look and that, some are removed.
VANISHING = """
import os, sys
from pathlib import Path
from cs_input_analyzer.worker.isolation import why_not
place, busy = Path(sys.argv[1]), sys.argv[2]
look = os.scandir
def scandir(path):
    found = list(look(path))
    if path == busy:
        for name in ("file", "link"):
            os.unlink(f"{busy}/{name}")
        os.rmdir(f"{busy}/folder")
    return found
os.scandir = scandir
why = why_not(place)
assert not why, why
assert Path(busy, "kept").read_text() == "kept"
Path(busy, "folder_of_others", "result").write_text("of nobody else")
"""


@needs_root
def test_what_others_remove_meanwhile_is_no_reason_not_to_isolate(tmp_path: Path) -> None:
    place, busy = tmp_path / "place", tmp_path / "busy"
    for folder in (place, busy, busy / "folder", busy / "folder_of_others", busy / "mounted"):
        folder.mkdir()
    (busy / "file").touch()
    (busy / "kept").write_text("kept")
    (busy / "link").symlink_to("kept")
    script = 'mount -t tmpfs none "$5/mounted" && exec "$@"'
    line = ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", VANISHING, str(place), str(busy)]
    run = ran(line, tmp_path)
    assert run.returncode == 0, run.stderr
    assert list((busy / "folder_of_others").iterdir()) == []
    assert not (busy / "folder").exists()
