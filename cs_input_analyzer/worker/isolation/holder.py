"""Hold the private files of a launch on one node, and hand them to its workers.

The first worker of a launch starts a process that makes the namespaces and builds the tree. It stays outside of the tree, as the
first process of the process namespace: when it ends, the kernel ends all that user code has started. It ends when the last worker
has. Workers find it by a name in the kernel (an abstract socket), not by a file, which a network's file system may show late.
"""

from __future__ import annotations

import hashlib
import json
import os
import selectors
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import psutil

from cs_input_analyzer.host.mounts import is_below
from cs_input_analyzer.records import UserFiles
from cs_input_analyzer.worker.isolation import kernel
from cs_input_analyzer.worker.isolation.folders import private_folder, remove_tree
from cs_input_analyzer.worker.isolation.tree import Tree

MESSAGE_BYTES = 1 << 16
# The tree takes a tenth of a second; a worker that waits longer than this for the first one goes on as that one would.
PATIENCE_S = 30.0
RETRY_S = 0.02
READY = b"ready"
# From best to least: the level; whether processes are its own (a container that hides parts of /proc allows no other one); and
# whether in a user namespace, as all but a superuser with all capabilities need.
TRIED: tuple[tuple[UserFiles, bool, bool], ...] = (
    *(("private copies", own, user) for own in (True, False) for user in (False, True)),
    *(("read-only", own, user) for own in (True, False) for user in (False, True)),
    ("own files", False, False),
)
_CREDENTIALS = struct.Struct("3i")  # of a peer: process, user, group
# What a container grants its superuser, and what changes our own processes alone. Not: mounts, tracing, devices, the network.
KEPT_CAPABILITIES = sum(
    1 << number
    for number in (
        *(0, 1, 3, 4, 5, 6, 7, 8),  # chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap
        *(10, 13, 14, 18, 23, 24),  # net_bind_service, net_raw, ipc_lock, sys_chroot, sys_nice, sys_resource
        *(29, 31),  # audit_write, setfcap
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """Describe the isolation of a process.

    Attributes:
        level: private copies, a read-only view, or the user's own files.
        why: the reason why there is no better level; empty at the best.
        has_own_processes: whether processes outside of the launch are out of reach.
        launch: the folder of the launch whose holder can be asked; empty if there is none.
    """

    level: UserFiles
    why: str = ""
    has_own_processes: bool = False
    launch: str = ""


OWN_FILES = Isolation(level="own files")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Describe the isolation that a launch asks for.

    Attributes:
        launch: a folder that stays real; all workers of a launch name the same.
        place: a folder on this node for written data; None if the worker waits for another one to start the holder.
        has_network: whether the network is the real one.
    """

    launch: Path
    place: Path | None
    has_network: bool = True


def join(wanted: Wanted) -> tuple[Isolation, socket.socket, socket.socket | None]:
    """Put this process into the private files of its launch. Its children are also in the process namespace.

    Returns:
        The isolation, a connection that must stay open while this process needs it, and one for requests. The latter is None if
        `ask` can connect: a holder's name belongs to the network that this process leaves if it gets none.
    """
    connection = _connected(wanted)
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    if _CREDENTIALS.unpack(credentials)[1] != os.getuid():
        raise OSError("another user holds the name of this launch")
    connection.send(b"{}")
    message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 8)
    found = Isolation(**json.loads(message))
    asking = None
    if found.launch and not wanted.has_network:
        asking = _socket()
        asking.connect(_name(wanted.launch))
    working = os.getcwd()
    own = os.stat("/proc/self/ns/user").st_ino
    for descriptor in descriptors:
        if os.fstat(descriptor).st_ino != own:  # nobody can enter the user namespace that they are in
            kernel.join(descriptor)
        os.close(descriptor)
    if found.level != "own files":
        os.chdir(working)
    return found, connection, asking


def ask(launch: str, **request: Any) -> Any:
    """Return the answer of a launch's holder to a request."""
    with _socket() as connection:
        connection.connect(_name(Path(launch)))
        return ask_over(connection, **request)


def ask_over(connection: socket.socket, **request: Any) -> Any:
    """Return the answer to a request over an open connection to a holder."""
    connection.send(json.dumps(request).encode())
    return json.loads(connection.recv(MESSAGE_BYTES))


def _connected(wanted: Wanted) -> socket.socket:
    deadline_s = time.monotonic() + PATIENCE_S
    place = wanted.place
    while True:
        connection = _socket()
        try:
            connection.connect(_name(wanted.launch))
            return connection
        except ConnectionRefusedError:  # nobody has this name yet
            connection.close()
        if place is None and time.monotonic() > deadline_s:  # the first worker is lost
            place = Path(tempfile.mkdtemp(prefix="cs_input_analyzer-"))
        if place is not None:
            _start(wanted, place)
        time.sleep(RETRY_S)


def _name(launch: Path) -> str:
    return f"\0cs_input_analyzer/{os.getuid()}/{hashlib.sha256(os.fsencode(launch)).hexdigest()[:32]}"


def _socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _start(wanted: Wanted, place: Path) -> None:
    """Start the holder of a launch. Do nothing if another worker has done so meanwhile."""
    listener = _socket()
    try:
        listener.bind(_name(wanted.launch))
        listener.listen(socket.SOMAXCONN)
    except OSError:
        listener.close()
        return
    best, why_not_best = TRIED[0][0], ""
    for level, has_own_processes, is_users in TRIED:
        tried = Isolation(
            level=level,
            why=why_not_best if level != best else "",
            has_own_processes=has_own_processes,
            launch=str(wanted.launch) if level != "own files" else "",
        )
        failed = _try(listener, wanted, place, tried, is_users=is_users)
        if not failed:
            break
        why_not_best = failed if level == best else why_not_best
    listener.close()


def _try(listener: socket.socket, wanted: Wanted, place: Path, tried: Isolation, *, is_users: bool) -> str:
    """Start a holder of this isolation, in a user namespace if `is_users`. Return why that failed, or nothing."""
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        os.close(reader)
        try:
            if tried.level != "own files":
                _unshare(wanted, has_own_processes=tried.has_own_processes, is_users=is_users)
            if os.fork() == 0:  # the first process of the new process namespace; whoever reaps orphans outside gets it
                _Holder(listener, wanted, place, tried).run(writer)
        except OSError as error:
            os.write(writer, (error.strerror or str(error)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    said = b""
    while block := os.read(reader, 1 << 12):
        said += block
    os.close(reader)
    os.waitpid(middle, 0)
    return "" if said == READY else said.decode(errors="replace") or "the process that holds the files was lost"


def _unshare(wanted: Wanted, *, has_own_processes: bool, is_users: bool) -> None:
    """Make the namespaces. In a user namespace this process keeps its user."""
    flags = kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC
    flags |= kernel.CLONE_NEWPID if has_own_processes else 0
    flags |= 0 if wanted.has_network else kernel.CLONE_NEWNET
    user, group = os.getuid(), os.getgid()
    kernel.unshare(flags | (kernel.CLONE_NEWUSER if is_users else 0))
    if is_users:
        kernel.map_own_user(user, group)
    kernel.be_seen()


class _Holder:
    """Hold the namespaces of a launch, as a process."""

    def __init__(self, listener: socket.socket, wanted: Wanted, place: Path, isolation: Isolation) -> None:
        self._listener, self._wanted, self._place, self._isolation = listener, wanted, place, isolation
        self._namespaces: list[int] = []
        self._outside = self._inside = -1
        self._workers: set[socket.socket] = set()
        self._own: Path | None = None
        self._tree: Tree | None = None
        self._shown: set[str] = set()
        self._working = os.getcwd()

    def run(self, writer: int) -> NoReturn:
        """Build the tree and serve until the last worker has ended. Report a failure to `writer`."""
        status = 1
        try:
            os.setsid()
            self._let_go(writer)
            if self._isolation.level != "own files":
                self._build()
            os.write(writer, READY)
            os.close(writer)
            self._serve()
            status = 0
        except Exception as error:  # the next level is tried
            with suppress(OSError):
                os.write(writer, ((isinstance(error, OSError) and error.strerror) or f"{type(error).__name__}: {error}").encode())
        finally:
            if self._own is not None:
                remove_tree(self._own)
            os._exit(status)

    def _let_go(self, writer: int) -> None:
        """Close the descriptors of the worker: its pipes must end with it."""
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        kept = {0, 1, 2, writer, self._listener.fileno()}
        for name in os.listdir("/proc/self/fd"):
            if int(name) not in kept:
                with suppress(OSError):
                    os.close(int(name))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans are reaped by the kernel
        os.chdir("/")

    def _build(self) -> None:
        self._own = Path(tempfile.mkdtemp(prefix="private-", dir=self._place))
        self._outside = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        kernel.unshare(kernel.CLONE_NEWNS)
        try:
            kept, given = (str(self._wanted.launch),), self._isolation
            tree = Tree(self._own, kept, self._working, given.level, has_own_processes=given.has_own_processes)
            tree.build()
            self._tree = tree
            kernel.enter_root(tree.root)
            self._inside = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            kernel.join(self._outside)  # also before the layers are removed: inside, real folders are mounted among them
        names = ["ipc", *(["pid"] if self._isolation.has_own_processes else []), *([] if self._wanted.has_network else ["net"])]
        if not self._wanted.has_network:
            kernel.start_loopback()
        opened = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names]
        user = [] if kernel.is_first_user_namespace() else [os.open("/proc/self/ns/user", os.O_RDONLY | os.O_CLOEXEC)]
        self._namespaces = [*user, self._inside, *opened]

    # --- serving --------------------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Answer workers until all of them have ended."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while ready := selector.select(None if self._workers else PATIENCE_S):
                for key, _ in ready:
                    assert isinstance(key.fileobj, socket.socket)
                    if key.fileobj is self._listener:
                        selector.register(self._listener.accept()[0], selectors.EVENT_READ)
                    elif not self._hear(key.fileobj):
                        selector.unregister(key.fileobj)
                        key.fileobj.close()
                        if key.fileobj in self._workers:
                            self._workers.remove(key.fileobj)
                            if not self._workers:
                                return

    def _hear(self, connection: socket.socket) -> bool:
        """Answer one message. Return whether more may come."""
        try:
            message = connection.recv(MESSAGE_BYTES)
            if not message:
                return False
            request = json.loads(message)
            if not request:
                socket.send_fds(connection, [json.dumps(asdict(self._isolation)).encode()], self._namespaces)
                self._workers.add(connection)
            elif "beside" in request:
                connection.send(json.dumps(self._beside(Path(request["beside"]), Path(request["folder"]))).encode())
            else:
                connection.send(json.dumps(self._read(request["read"])).encode())
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return True

    def _beside(self, path: Path, folder: Path) -> str:
        """Create a private folder on the real file system of `path`, and show it inside of the tree too."""
        place = private_folder(path, folder)
        if place == folder:
            return str(folder)
        try:
            self._show(str(place))
        except OSError:  # Linux before 5.2
            return str(folder)
        return str(place)

    def _read(self, folders: Sequence[str]) -> list[str]:
        """Show folders of data as they are, read-only, and return them. Opening a file through a layer takes longer."""
        for folder in folders:
            is_new = folder not in self._shown and os.path.realpath(folder) == folder
            if is_new and self._tree is not None and self._isolation.level == "private copies" and self._tree.is_as_it_was(folder):
                with suppress(OSError):  # Linux before 5.2
                    self._show(folder, is_read_only=True)
                    self._shown.add(folder)
        return sorted(self._shown)

    def _show(self, path: str, *, is_read_only: bool = False) -> None:
        """Show a real folder inside of the tree."""
        tree = kernel.open_tree(path)
        kernel.join(self._inside)
        try:
            os.makedirs(path, exist_ok=True)
            kernel.move_mount(tree, path)
            if is_read_only:
                for mounted in (path, *(m.mountpoint for m in psutil.disk_partitions(all=True) if is_below(m.mountpoint, path))):
                    kernel.make_read_only(mounted)
        finally:
            kernel.join(self._outside)
            os.close(tree)
