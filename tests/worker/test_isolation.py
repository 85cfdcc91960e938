"""A user's script changes nothing of the user's: private copies of all files, and what happens where there can be none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from cs_input_analyzer.engines.bootstrap import command
from cs_input_analyzer.worker.isolation import Wanted
from tests.functional.running import ran, tree_of
from tests.waiting import comes

# In a user namespace that may have no others, without any capability: as in most containers.
WITHOUT = """
echo 0 >/proc/sys/user/max_user_namespaces || exit 9
exec setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all -- "$@"
"""


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's, to be in."""
    folder = tmp_path / "users"
    (folder / "before").mkdir(parents=True)
    (folder / "before" / "text").write_text("precious")
    monkeypatch.chdir(folder)
    return folder


def isolated(code: str, *, folder: Path, as_user: int | None = None, mount: str = "", has_network: bool = True) -> str:
    """What Python code prints in an isolated process of ours, after a shell's `mount` in a user namespace where there is one. `why`
    is the reason why it is not isolated."""
    place, module = folder / "place", folder / "modules"
    place.mkdir()
    module.mkdir()
    (module / "told.py").write_text(
        "import numpy  # which starts threads\nfrom cs_input_analyzer.worker import isolation\n\n"
        "def main(arguments):\n    here = isolation.here()\n    why = here.why\n" + textwrap.indent(textwrap.dedent(code), "    ")
    )
    line = command("told", isolated=Wanted(launch=place, place=place, has_network=has_network))
    line[line.index(str(os.getpid()))] = "0"  # whoever starts it below is its parent
    if as_user is not None:
        line = [*as_a_user(as_user), *line]
    if mount:
        line = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh", *line]
    run = ran(line, Path.cwd(), PYTHONPATH=str(module), PYTHONDONTWRITEBYTECODE="1", HOME=str(folder / "users"))
    assert run.returncode == 0, run.stderr
    assert comes(lambda: not any(place.glob("private-*")))  # the layers go a moment after the last worker
    return run.stdout.strip()


def as_a_user(number: int) -> list[str]:
    """Words before those that run without any capability as this user, who owns what is ours: so this Python is for them, too."""
    return ["unshare", "--user", f"--map-user={number}", f"--map-group={number}", "--"]


def can_isolate() -> bool:
    line = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/tmp"]
    return shutil.which("unshare") is not None and subprocess.run(line, capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not can_isolate(), reason="this machine allows no mount namespaces")
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only the superuser can run as somebody else")


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
        for path in (Path(name), folder.parent):  # of others
            os.chown(path, 4321, 4321)
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


def test_a_mount_that_another_one_hides_is_left_out(users: Path, tmp_path: Path) -> None:
    """A container may cover /sys, with what is mounted below it."""
    cover = "mount -t tmpfs none /sys"
    mount = f'{cover} && mkdir /sys/inner && mount -t tmpfs none /sys/inner && {cover} && exec "$@"'
    assert isolated("import os\nassert not why, why\nprint(os.listdir('/sys'))", folder=tmp_path, mount=mount) == "[]"


@needs_root
def test_a_working_directory_among_the_sockets_is_a_copy_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/run") as folder:
        monkeypatch.chdir(folder)
        isolated('open("new", "w").write("x")\nassert open("new").read() == "x" and not why', folder=tmp_path)
        assert os.listdir(folder) == []


def test_a_folder_can_be_written_inside_where_its_user_may_write_outside(users: Path, tmp_path: Path) -> None:
    """The superuser may write in a folder without the mode for it; another user gets the same refusal as without private copies."""
    users.chmod(0o555)
    is_allowed = os.access(users, os.W_OK)
    code = f"""
    try:
        open("new", "w").write("x")
        is_written = True
    except PermissionError:
        is_written = False
    assert is_written is {is_allowed} and not why
    """
    isolated(code, folder=tmp_path)
    users.chmod(0o755)
    assert not (users / "new").exists()


@pytest.mark.long
@pytest.mark.tf
def test_without_copies_a_script_ends_at_its_first_place_that_is_no_look(tmp_path: Path) -> None:
    """The next place is had by its number."""
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
        options = ("--on-own-files", "--list-captures", "--quiet", *options)
        words = [sys.executable, "-m", "cs_input_analyzer", *options, "python", "run.py"]
        line = ["unshare", "--user", "--map-root-user", "sh", "-c", WITHOUT, "sh", *words]
        run = ran(line, folder)
        assert run.returncode == 0, run.stderr
        return run.stdout

    first = listed()
    assert "a peek at a few elements" in first
    assert "capture 2: a loop over a Dataset at run.py:9 (taken)" in first
    assert "capture 3" not in first
    assert "--on-own-files" in first
    assert (folder / "model_dir" / "shape").read_text() == "(4,)"
    assert not (folder / "metrics.txt").exists()
    assert "capture 3: a loop over a Dataset at run.py:12 (taken)" in listed("--capture", "3")


# A folder with a mount below it is made anew entry by entry; between the look and that, some are removed.
VANISHING = """
import os, sys
from pathlib import Path
from cs_input_analyzer.worker import isolation
place, busy = Path(sys.argv[1]), sys.argv[2]
look = os.scandir
def scandir(path):
    if path != busy:
        return look(path)
    found = list(look(path))
    for name in ("file", "link"):
        os.unlink(f"{busy}/{name}")
    os.rmdir(f"{busy}/folder")
    return found
os.scandir = scandir
def life():
    assert not isolation.here().why, isolation.here()
    assert Path(busy, "kept").read_text() == "kept"
    Path(busy, "folder_of_others", "result").write_text("of nobody else")
isolation.run_inside(isolation.Wanted(launch=place, place=place), os.getppid(), life)
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
    user = ["unshare", "--user", "--map-root-user", "--mount"]
    line = [*user, "sh", "-c", script, "sh", sys.executable, "-c", VANISHING, str(place), str(busy)]
    run = ran(line, tmp_path)
    assert run.returncode == 0, run.stderr
    assert list((busy / "folder_of_others").iterdir()) == []
    assert not (busy / "folder").exists()


FAILING = """
import os, sys
from pathlib import Path
from cs_input_analyzer.worker import isolation
from cs_input_analyzer.worker.isolation import kernel
def refuse(root):
    assert os.path.exists(root + sys.argv[1] + "/kept")  # what is real is mounted below the layers by then
    raise OSError("refused on purpose")
kernel.enter_root = refuse
launch = Path(sys.argv[1])
isolation.run_inside(isolation.Wanted(launch=launch, place=launch), os.getppid(), lambda: print(isolation.here().why))
"""


def test_a_tree_that_fails_takes_nothing_real_along(tmp_path: Path) -> None:
    """Its layers are removed, and real folders were mounted among them."""
    (tmp_path / "kept").write_text("precious")
    run = ran([sys.executable, "-c", FAILING, str(tmp_path)], tmp_path)
    assert run.stdout.strip() == "OSError: refused on purpose", run.stderr
    assert (tmp_path / "kept").read_text() == "precious"
    assert comes(lambda: [path.name for path in tmp_path.iterdir()] == ["kept"])


REPLACES = """
import os, shutil
assert here.level == "private copies", here
open("metrics.txt", "w").write("x")
open("held", "w").write("x")
os.replace("held", "other")
os.remove("other")
shutil.rmtree("model_dir")
os.mkdir("model_dir")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "model_dir").mkdir(parents=True)
    for name in ("metrics.txt", "held", "model_dir/checkpoint"):
        (folder / name).write_text("precious")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("as_user", [None, 1234])
def test_our_own_folder_may_lie_below_the_working_directory(project: Path, as_user: int | None) -> None:
    """As with TMPDIR=$PWD/tmp, and as the shared folder of Slurm does."""
    (project / "tmp").mkdir()
    there = tree_of(project)
    isolated(REPLACES, folder=project / "tmp", as_user=as_user)
    shutil.rmtree(project / "tmp")
    (project / "tmp").mkdir()
    assert {name: found[2] for name, found in tree_of(project).items()} == {name: found[2] for name, found in there.items()}


@pytest.mark.parametrize("is_users", [False, True], ids=["root", "user"])
def test_somebody_elses_mount_may_lie_below_the_working_directory(project: Path, tmp_path: Path, is_users: bool) -> None:
    """As a container's volume does; a user namespace may not show a folder without it."""
    (project / "data").mkdir()
    there = tree_of(project)
    nested = 'exec unshare --user --map-user=1234 --map-group=1234 -- "$@"' if is_users else 'exec "$@"'
    mount = f'mount -t tmpfs none "{project}/data" && echo 1 > "{project}/data/shard" && {nested}'
    code = REPLACES + 'assert open("data/shard").read() == "1\\n"\nopen("data/shard", "w").write("gone")\n'
    isolated(code, folder=tmp_path, mount=mount)
    assert tree_of(project) == there


@needs_root
def test_names_users_and_shared_memory_are_there(users: Path, tmp_path: Path) -> None:
    code = """
    import multiprocessing, os, pwd, socket, tempfile
    assert here.has_own_processes
    assert socket.getaddrinfo("localhost", 80) and pwd.getpwuid(0).pw_name == "root"
    assert multiprocessing.Lock() is not None  # a semaphore in /dev/shm
    assert os.listdir("/proc/self/fd") and int(open("/proc/self/stat").read().split()[0]) == os.getpid()
    """
    isolated(code, folder=tmp_path)


def test_without_a_network_there_is_a_loopback_alone(users: Path, tmp_path: Path) -> None:
    code = """
    import os, socket
    assert [name for _, name in socket.if_nameindex()] == ["lo"], socket.if_nameindex()
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()
    """
    isolated(code, folder=tmp_path, has_network=False)


def test_workers_of_a_launch_share_their_copies(tmp_path: Path) -> None:
    """Some wait for a file that the first one writes."""
    code = """
import os, sys, time
from pathlib import Path
from cs_input_analyzer.worker import isolation
launch, index = Path(sys.argv[1]), int(sys.argv[2])
def life():
    if index == 0:
        Path("part").write_text("made by the first")
        Path("part").rename("index")
    while not Path("index").exists():
        time.sleep(0.01)
    print(Path("index").read_text(), isolation.here().level, flush=True)
    input()
isolation.run_inside(isolation.Wanted(launch=launch, place=launch if index == 0 else None), os.getppid(), life)
"""
    launch, folder = tmp_path / "launch", tmp_path / "folder"
    launch.mkdir()
    folder.mkdir()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": folder, "env": env}
    workers = [subprocess.Popen([sys.executable, "-c", code, str(launch), str(index)], **pipes) for index in (1, 0, 2)]
    told = [worker.stdout.readline().strip() for worker in workers]
    for worker in workers:
        worker.communicate("\n", timeout=60)
    assert told == ["made by the first private copies"] * 3
    assert list(folder.iterdir()) == []
    assert comes(lambda: list(launch.iterdir()) == [])
