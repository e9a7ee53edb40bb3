"""Serving a mount in this process, from the check of the mount point to the last outcome on the log."""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from vfs.doctor import require
from vfs.kernel.errors import BackendUnavailableError, ConfigError, SandboxError
from vfs.mount.caller import Caller
from vfs.mount.engine import Engine, MountOptions
from vfs.mount.operations import Operations
from vfs.mount.points import check_mount_point, find_mount, is_dead
from vfs.mount.unmounting import clear_dead, start_of, unmount
from vfs.mount.watch import Watch

if TYPE_CHECKING:
    from vfs.kernel.kernel import Kernel
    from vfs.kernel.sessions import Session

__all__ = ["ENGINES", "serve"]

ENGINES = ("fusepy",)
"""Names of the engines there are."""

_READ_AHEAD_KIB = 1024

_log = logging.getLogger("vfs.mount")


def serve(
    kernel: "Kernel",
    session: "Session",
    mount_point: str,
    *,
    engine: str = "fusepy",
    ready: Callable[[], None] = lambda: None,
    parent: int | None = None,
    options: MountOptions | None = None,
) -> None:
    """Serve a session's zones as the directory `mount_point` until SIGTERM, SIGINT, SIGHUP or an unmount.

    `ready` is called once it answers. With `parent`, a descriptor such as a pipe's, it ends too when that reads
    as ended. At the end it is unmounted, also from under programs that use it, what was open is closed and
    recorded; the kernel stays open. Call it from the main thread.

    Raises UnavailableError (the machine lacks what it needs), ConfigError and FileSystemError (the mount point
    cannot be used; see `vfs.mount.points`).
    """
    require("mount")
    clear_dead(kernel)
    if is_dead(mount_point):
        unmount(mount_point, force=True)
    real = check_mount_point(mount_point, kernel.state.path.parent.parent)
    caller = Caller()
    operations = Operations(kernel.files(session, face="fuse", actor=caller))
    served = _make(engine, operations, caller, real, options or MountOptions())
    served.mount()
    try:
        with _registered(kernel, session, real):
            _run(kernel, session, real, operations, served, ready, parent)
    finally:
        served.unmount()
        operations.close()
        caller.close()


def _make(name: str, operations: Operations, caller: Caller, point: str, options: MountOptions) -> Engine:
    if name == "fusepy":
        from vfs.mount.fusepy_engine import FusepyEngine

        return FusepyEngine(operations, caller, point, options)
    raise ConfigError(f"there is no mount engine `{name}`", hint=f"use one of: {', '.join(ENGINES)}")


def _run(
    kernel: "Kernel",
    session: "Session",
    point: str,
    operations: Operations,
    served: Engine,
    ready: Callable[[], None],
    parent: int | None,
) -> None:
    def changed() -> None:
        operations.forget()
        served.forget()

    def end() -> bool:
        try:
            unmount(point)
        except SandboxError:
            return False  # programs use it; it is taken from under them
        return True

    watch = Watch(
        standing=_Standing(kernel, session.id), changed=changed, end=end, stop=served.stop, parent=parent
    )

    def answering() -> None:
        _widen_read_ahead(point)
        ready()

    watch.start()
    try:
        served.serve(answering)
    finally:
        watch.close()


class _Standing:
    """What a session may do, as a value that differs when that has changed; by any process, or by time."""

    def __init__(self, kernel: "Kernel", session_id: str) -> None:
        self._kernel = kernel
        self._id = session_id
        self._epoch = b""
        self._until = 0.0
        self._value: object = None

    def __call__(self) -> object:
        try:
            epoch = self._kernel.generation.read()
            if epoch != self._epoch or time.time() >= self._until:
                session = self._kernel.sessions.find(self._id)
                self._epoch = epoch
                expires = session.expires_at if session is not None else None
                over = session is None or session.status != "active"
                self._until = float("inf") if over or expires is None else expires.timestamp()
                self._value = (session.trust_level, session.status) if session is not None else None
        except (OSError, BackendUnavailableError) as error:
            _log.warning("whether the session's trust has changed cannot be told: %s", error)
            self._value = object()  # then nothing that was kept is relied on
        return self._value


@contextlib.contextmanager
def _registered(kernel: "Kernel", session: "Session", point: str) -> Iterator[None]:
    pid = os.getpid()
    with kernel.state.transaction() as database:
        database.execute(
            "INSERT OR REPLACE INTO mounts (mount_point, session_id, pid, started, created_at)"
            " VALUES (?, ?, ?, ?, ?)",
            (point, session.id, pid, start_of(pid) or "", time.time()),
        )
    try:
        yield
    finally:
        # A row that stays is cleared by the next mount.
        with contextlib.suppress(BackendUnavailableError), kernel.state.transaction() as database:
            database.execute("DELETE FROM mounts WHERE mount_point = ? AND pid = ?", (point, pid))


def _widen_read_ahead(point: str) -> None:
    """Let the operating system read further ahead than libfuse 2 can ask for; only root may, and it is no loss."""
    mounted = find_mount(point)
    if mounted is None:
        return
    with (
        contextlib.suppress(OSError),
        open(f"/sys/class/bdi/{mounted.device}/read_ahead_kb", "w", encoding="ascii") as file,
    ):
        file.write(str(_READ_AHEAD_KIB))
