"""Folders that are real inside of the private files of a launch: caches, data, and what is removed at the end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.functional.running import ran, tree_of
from tests.worker.test_isolation import can_isolate, isolated

pytestmark = pytest.mark.skipif(not can_isolate(), reason="this machine allows no mount namespaces")


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's, to be in."""
    (tmp_path / "users").mkdir()
    monkeypatch.chdir(tmp_path / "users")
    return tmp_path / "users"


def test_a_folder_is_removed_but_not_what_is_mounted_in_it_or_linked_from_it(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from cs_input_analyzer.worker.isolation import remove_tree
remove_tree(Path(sys.argv[1]))
assert Path(sys.argv[2], "kept").read_text() == "precious"
"""
    doomed, real = tmp_path / "doomed", tmp_path / "real"
    for folder in (doomed / "mounted", doomed / "shut" / "inner", real):
        folder.mkdir(parents=True)
    (real / "kept").write_text("precious")
    (doomed / "link").symlink_to(real)
    (doomed / "shut" / "inner" / "file").touch()
    (doomed / "shut").chmod(0)
    mount = f'mount --bind "{real}" "{doomed}/mounted" && exec "$@"'
    words = ["sh", "-c", mount, "sh", sys.executable, "-c", code, str(doomed), str(real)]
    run = ran(["unshare", "--user", "--map-root-user", "--mount", *words], tmp_path)
    assert run.returncode == 0, run.stderr
    assert (real / "kept").read_text() == "precious"
    assert not (doomed / "shut").exists()


@pytest.mark.parametrize("is_users", [False, True], ids=["root", "user"])
def test_a_cache_is_written_to_the_file_system_that_the_user_chose(users: Path, tmp_path: Path, is_users: bool) -> None:
    """Its speed is measured, and its space is taken: a layer would be on another one."""
    (users / "fast").mkdir()
    nested = 'exec unshare --user --map-user=1234 --map-group=1234 -- "$@"' if is_users else 'exec "$@"'
    mount = f'mount -t tmpfs none "{users}/fast" && export DEVICE=$(stat -c %d "{users}/fast") && {nested}'
    code = f"""
    import os
    from pathlib import Path
    folder = Path({str(tmp_path / "place")!r})
    place = isolation.folder_beside("fast/cache", folder)
    assert place.parent == Path("fast").absolute(), place
    (place / "cache").write_text("x")
    assert os.stat(place / "cache").st_dev == int(os.environ["DEVICE"]) != os.stat("fast").st_dev
    assert isolation.folder_beside("fast/another", folder) == place
    assert [link.readlink() for link in folder.glob(isolation.AWAY + "*")] == [place]
    """
    isolated(code, folder=tmp_path, mount=mount)


@pytest.mark.parametrize("as_user", [None, 1234])
def test_data_are_read_from_their_own_file_system(users: Path, tmp_path: Path, as_user: int | None) -> None:
    """But not where the code has written beside them."""
    for name in ("plain", "written", "again/made"):
        (users / name).mkdir(parents=True)
        (users / name / "file").write_text("precious")
    device = users.stat().st_dev
    code = f"""
    import os
    import shutil
    open("written/index", "w").write("x")
    shutil.rmtree("again")
    os.makedirs("again/made")
    open("again/made/file", "w").write("x")
    data = [os.path.abspath(name + "/file") for name in ("plain", "written", "again/made")]
    isolation.read_as_they_are([*data, "gs://bucket/file"])
    isolation.read_as_they_are(data)
    real = [name for name in ("plain", "written", "again/made") if os.stat(name).st_dev == {device}]
    assert real == ["plain"], real
    assert open("plain/file").read() == open("written/file").read() == "precious"
    try:
        open("plain/index", "w")
    except OSError as error:
        assert "holds data" in __import__("cs_input_analyzer.worker.failures").worker.failures.refused_write(error), error
    else:
        raise AssertionError("it is real")
    open("written/more", "w").write("x")
    """
    there = tree_of(users)
    isolated(code, folder=tmp_path, as_user=as_user)
    assert tree_of(users) == there


@pytest.mark.parametrize("as_user", [None, 1234])
def test_without_a_network_folders_are_real_too(users: Path, tmp_path: Path, as_user: int | None) -> None:
    """The holder has a name in the network that such a worker has left."""
    for name in ("plain", "more"):
        (users / name).mkdir()
        (users / name / "file").write_text("precious")
    code = f"""
    import os
    import socket
    assert [name for _, name in socket.if_nameindex()] == ["lo"]
    for name in ("plain", "more"):
        isolation.read_as_they_are([os.path.abspath(f"{{name}}/file")])
        assert os.stat(name).st_dev == {users.stat().st_dev}, name
    child = os.fork()
    if child == 0:
        isolation.read_as_they_are([os.path.abspath("plain/file")])
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    """
    isolated(code, folder=tmp_path, as_user=as_user, has_network=False)


@pytest.mark.parametrize("as_user", [None, 1234])
def test_data_behind_a_linked_folder_are_read_from_their_own_file_system(users: Path, tmp_path: Path, as_user: int | None) -> None:
    """But not where the code has written beside them, by either name."""
    for name in ("plain", "written"):
        (users / "real" / name).mkdir(parents=True)
        (users / "real" / name / "file").write_text("precious")
    (users / "link").symlink_to(users / "real")
    code = f"""
    import os
    open("link/written/index", "w").write("x")
    isolation.read_as_they_are([os.path.abspath(f"link/{{name}}/file") for name in ("plain", "written")])
    real = [name for name in ("plain", "written") if os.stat(f"link/{{name}}").st_dev == {users.stat().st_dev}]
    assert real == ["plain"], real
    assert open("link/plain/file").read() == open("link/written/file").read() == "precious"
    try:
        open("link/plain/index", "w")
    except OSError as error:
        assert "holds data" in __import__("cs_input_analyzer.worker.failures").worker.failures.refused_write(error), error
    else:
        raise AssertionError("it is real")
    """
    there = tree_of(users)
    isolated(code, folder=tmp_path, as_user=as_user)
    assert tree_of(users) == there
