"""The law: whatever an input function does, the user's tree, processes and IPC objects are as they were."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.functional.forty_things import OUTSIDE
from tests.functional.forty_things import THINGS as THINGS_DONE
from tests.functional.running import ran, tree_of
from tests.waiting import comes
from tests.worker.test_isolation import as_a_user, can_isolate

THINGS = Path(__file__).with_name("forty_things.py")
USER = 1234
FILES = (
    *("written", "appended", "truncated", "mapped", "array", "unlinked", "descriptor", "renamed", "replaced", "mode", "times"),
    *("linked", "gfile", "moved", "source", "copied", "edited", "attributed"),
)
FOLDERS = ("folder", "gfolder", "child")
SHORT = ("--max-seconds", "5", "--cpus", "1", "--probe-layouts", "1x1x1", "--no-measure-fixes", "--quiet")
# What we keep in a home, and what the import of Keras makes there.
OURS = (".cache", ".keras", ".config")
# In a user namespace that may have no others, without any capability: as in most containers.
WITHOUT = """
echo 0 >/proc/sys/user/max_user_namespaces || exit 9
exec setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all -- "$@"
"""

pytestmark = [pytest.mark.tf, pytest.mark.slow]


needs_namespaces = pytest.mark.skipif(not can_isolate(), reason="this machine allows no mount namespaces: commands end with 2")
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only the superuser can run as somebody else")


@dataclass
class Users:
    """A user's folder, home, processes and IPC objects, and the reports that the input function sent."""

    folder: Path
    home: Path
    sentinel: str
    process: subprocess.Popen[bytes]
    segment: int
    environ: dict[str, str]
    user: int | None = None
    told: list[list[str]] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        return [] if self.user is None else as_a_user(self.user)

    def run(self, *words: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return ran([*before, *self.words, sys.executable, "-m", "cs_input_analyzer", *words], self.folder, **self.environ)

    def state(self) -> dict[str, object]:
        libc = ctypes.CDLL(None)
        outside = {folder: Path(folder, self.sentinel) for folder in OUTSIDE if folder != str(Path.home())}
        return {
            "tree": tree_of(self.folder),
            "home": {name: found for name, found in tree_of(self.home).items() if not name.startswith(OURS)},
            "outside": {name: path.read_text() if path.exists() else None for name, path in outside.items()},
            "new outside": [name for name, path in outside.items() if Path(f"{path}-new").exists()],
            "process": self.process.poll(),
            "segment": libc.shmctl(self.segment, 2, ctypes.create_string_buffer(1024)),  # IPC_STAT
            "queue": Path("/dev/mqueue", self.sentinel).exists() or not Path("/dev/mqueue").is_mount(),
            "domain": Path("/proc/sys/kernel/domainname").read_text(),
        }


@contextmanager
def users_of(place: Path, user: int | None) -> Iterator[Users]:
    sentinel = f"csia-{uuid.uuid4().hex}"
    folder, home = place / "project", place / "home"
    for path in (folder, home, *(folder / name for name in (*FOLDERS, "empty"))):
        path.mkdir()
    for path in (*(folder / name for name in FILES), *(folder / name / "file" for name in FOLDERS), home / sentinel):
        path.write_text("precious")
    shutil.copy(THINGS, folder / "data.py")
    outside = [Path(name, sentinel) for name in OUTSIDE if name != str(Path.home()) and os.access(name, os.W_OK)]
    for path in outside:
        path.write_text("precious")
    libc = ctypes.CDLL(None)
    segment = libc.shmget(0, 4096, 0o1666)
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = subprocess.Popen(["sh", "-c", "sleep 1000; true", f"{sentinel}-process"], cwd=folder)
        environ = {
            "SENTINEL": sentinel,
            "SENTINEL_PID": str(process.pid),
            "SENTINEL_SEGMENT": str(segment),
            "SENTINEL_PORT": str(server.getsockname()[1]),
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / ".cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        users = Users(folder, home, sentinel, process, segment, environ, user)
        threading.Thread(target=_listen, args=(server, users.told), daemon=True).start()
        try:
            yield users
        finally:
            subprocess.run(["pkill", "-P", str(process.pid)], check=False)
            process.kill()
            process.wait()
            libc.shmctl(segment, 0, None)
            for path in outside:
                path.unlink(missing_ok=True)


def _listen(server: socket.socket, told: list[list[str]]) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection, connection.makefile() as lines:
            told.extend(json.loads(line) for line in lines)


TARGET, SCRIPT = ("analyze", "data.py:input_fn", *SHORT), (*SHORT, "python", "data.py")


@pytest.fixture(params=[pytest.param(None, id="root"), pytest.param(USER, id="user", marks=needs_root)])
def users(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    import tempfile

    with tempfile.TemporaryDirectory() as name:  # each start of a pytest shuts its own folder for others
        Path(name).chmod(0o755)
        with users_of(Path(name), request.param) as made:
            yield made


def check(users: Users, before: dict[str, object], *, things: int = 40) -> None:
    """Check the law, and that the function ran and could do nearly all inside."""
    assert comes(lambda: bool(users.told)), "the input function never ran"  # a thread reads what it told
    # Workers of a launch share their copies: who comes second finds much of it gone.
    most = max(users.told, key=len)
    assert len(most) >= things, sorted(set(THINGS_DONE) - set(most))
    assert users.state() == before


@needs_namespaces
@pytest.mark.parametrize(
    ("users", "form"),
    [
        pytest.param(None, SCRIPT, id="root, script", marks=pytest.mark.long),
        pytest.param(USER, TARGET, id="user, target", marks=needs_root),
        pytest.param(None, TARGET, id="root, target", marks=pytest.mark.long),
        pytest.param(USER, SCRIPT, id="user, script", marks=[needs_root, pytest.mark.long]),
    ],
    indirect=["users"],
)
def test_analyze_leaves_the_users_own_as_it_was(users: Users, form: tuple[str, ...]) -> None:
    before = users.state()
    found = users.run(*form)
    assert found.returncode == 0, found.stderr
    check(users, before)


SHOWN = """
import sys
import cs_input_analyzer as csia
sys.path.insert(0, ".")
import data
found = csia.analyze(data.input_fn, max_seconds=5, cpus=1, probe_layouts="1x1x1", measure_fixes=False)
assert found.pipeline.user_files == "private copies", found.pipeline.user_files
"""


@needs_namespaces
@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_command_leaves_the_users_own_as_it_was(users: Users) -> None:
    run, other = str(users.home / ".cache.json"), str(users.home / ".cache-other.json")
    ours = [sys.executable, "-m", "cs_input_analyzer"]
    commands = (
        [*ours, "analyze", "data.py:input_fn", *SHORT, "--json", run],
        [*ours, "tune", "data.py:input_fn", *SHORT[:-2], "--select", "CSI101"],
        [*ours, "validate", run, "--yes", "--layouts", "1x1x1", "--rounds", "1", "--max-seconds", "10"],
        [*ours, "compare", run, other, "--measure", "--yes", "--rounds", "1", "--max-seconds", "60"],
        [sys.executable, "-c", SHOWN],
    )
    Path(run).touch()
    before = users.state()
    for command in commands:
        users.told.clear()
        if "compare" in command:  # the same code with the same params is no comparison
            document = json.loads(Path(run).read_text())
            document["options"]["params_json"] = '{"unused": 1}'
            Path(other).write_text(json.dumps(document))
        found = ran([*users.words, *command], users.folder, **users.environ)
        assert found.returncode == 0, (command, found.stderr)
        check(users, before)
    assert json.loads(Path(run).read_text())["pipeline"]["user_files"] == "private copies"


# --- where there can be no private copies -----------------------------------------------------------------------------------------


@needs_root
@pytest.mark.parametrize("form", [TARGET, SCRIPT], ids=["target", "script"])
def test_where_nothing_can_be_had_nothing_is_run(tmp_path: Path, form: tuple[str, ...]) -> None:
    with users_of(tmp_path, None) as users:
        before = users.state()
        found = users.run(*form, before=without_namespaces())
        assert found.returncode == 2, found.stderr
        assert "nothing was run" in found.stderr
        assert "--on-own-files" in found.stderr
        assert not users.told
        assert users.state() == before


@needs_root
@pytest.mark.long
def test_the_user_may_say_so_and_our_samples_need_no_word(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text(
        "import tensorflow as tf\nfrom pathlib import Path\n\n"
        "def input_fn():\n    Path('index').write_text('real')\n    return tf.data.Dataset.range(10**9).batch(4)\n"
    )
    line = [sys.executable, "-m", "cs_input_analyzer"]
    words = ("analyze", "data.py:input_fn", *SHORT, "--on-own-files", "--json", "run.json")
    found = ran([*without_namespaces(), *line, *words], tmp_path)
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "index").read_text() == "real"
    assert json.loads((tmp_path / "run.json").read_text())["pipeline"]["user_files"] == "own files"
    sample = ("demo", "--sample", "fc_mnist", "--quiet", "--max-seconds", "8")
    demo = ran([*without_namespaces(), *line, *sample], tmp_path, HOME=str(tmp_path))
    assert demo.returncode == 0, demo.stderr


@needs_root
@needs_namespaces
def test_without_overlays_files_are_read_only_and_a_refused_write_is_ours(tmp_path: Path) -> None:
    """As on RHEL 8, whose kernel has user namespaces and no overlays in them."""
    (tmp_path / "data.py").write_text(
        "import os\nimport tempfile\nfrom pathlib import Path\nimport tensorflow as tf\n\n"
        "def reads():\n    Path(tempfile.gettempdir(), 'scratch').write_text('x')\n    Path('/tmp/new').write_text('x')\n"
        "    own = Path(os.environ['TMPDIR'])\n    (own / 'new').write_text((own / 'data').read_text())\n"
        "    return tf.data.Dataset.list_files('*.py').repeat().map(tf.io.read_file).batch(4)\n\n"
        "def writes():\n    Path('index').write_text('x')\n    return reads()\n\n"
        "def writes_by_tensorflow():\n    tf.io.write_file('index', 'x')\n    return reads()\n"
    )
    site, temporary = tmp_path / "site", tmp_path / "temporary"
    site.mkdir()
    temporary.mkdir()
    (temporary / "data").write_text("x")
    (site / "sitecustomize.py").write_text(NO_OVERLAY)
    environ = {"PYTHONPATH": str(site), "TMPDIR": str(temporary)}
    line = [sys.executable, "-m", "cs_input_analyzer", "analyze"]
    found = ran([*line, "data.py:reads", *SHORT, "--json", "run.json"], tmp_path, **environ)
    assert found.returncode == 0, found.stderr
    assert json.loads((tmp_path / "run.json").read_text())["pipeline"]["user_files"] == "read-only"
    assert not Path("/tmp/new").exists()
    assert [path.name for path in temporary.iterdir()] == ["data"]
    for function in ("writes", "writes_by_tensorflow"):
        found = ran([*line, f"data.py:{function}", *SHORT], tmp_path, **environ)
        assert found.returncode == 2, found.stderr
        assert "cs_input_analyzer refused to write" in found.stderr
        assert "index" in found.stderr
        assert not (tmp_path / "index").exists()


# A kernel that has no overlays, for every process that Python starts.
NO_OVERLAY = """
from cs_input_analyzer.worker.isolation import kernel
real = kernel.mount
def mount(source, target, kind=None, flags=0, data=None):
    if kind == "overlay":
        raise OSError(19, "No such device")
    real(source, target, kind, flags, data)
kernel.mount = mount
"""


def without_namespaces() -> tuple[str, ...]:
    return ("unshare", "--user", "--map-root-user", "sh", "-c", WITHOUT, "sh")
