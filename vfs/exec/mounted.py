"""A session with its zones mounted in a private directory, for as long as commands run in it."""

import contextlib
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from vfs.exec.guard import Guard
from vfs.exec.ports import HOME
from vfs.kernel.errors import FileSystemError, SandboxError
from vfs.kernel.kernel import Kernel
from vfs.kernel.sandbox import Sandbox
from vfs.kernel.sessions import Session
from vfs.kernel.zones import Zone
from vfs.mount.server import MountServer
from vfs.mount.unmounting import unmount

__all__ = ["MountedSession"]


class MountedSession:
    """A session's zones as a directory that only this user can enter; used as a context manager.

    `sandbox` is the same session through the face `exec`, `point` where the zones are. Leaving it unmounts,
    whatever has happened to the server meanwhile, and leaves no directory behind; a directory that a killed
    process left is cleared by the next one. The kernel stays open.
    """

    def __init__(
        self,
        project: Path,
        kernel: Kernel,
        session: Session,
        *,
        zones: Mapping[Zone, str] | None = None,
        home: Path | None = None,
    ) -> None:
        self.sandbox = Sandbox(kernel, session, face="exec")
        self._project = project
        self._session = session
        self._zones = zones
        self._home = home
        self._server: MountServer | None = None
        self._guard: Guard | None = None
        self._end = -1
        self.point = Path()

    def mount(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Mount, and do `meanwhile` while the server starts. Raises what `MountServer.start` does."""
        self._guard = Guard()
        self.point = _private_directory(self._project)
        failures: list[BaseException] = []

        def start() -> None:
            try:
                self._server = MountServer.start(
                    self._project, self._session.id, self.point, zones=self._zones, home=self._home
                )
            except BaseException as error:  # noqa: BLE001 (raised again by the thread that waits)
                failures.append(error)

        thread = threading.Thread(target=start, name="vfs-exec-mount")
        thread.start()
        try:
            self.sandbox.make_dir(HOME, parents=True)
            meanwhile()
        finally:
            thread.join()
            if self._server is not None and hasattr(os, "pidfd_open"):
                self._end = os.pidfd_open(self._server.pid)
        if failures:
            raise failures[0]

    @property
    def mark(self) -> str:
        """What commands in it carry, so that none outlives this process."""
        return self._guard.mark if self._guard is not None else ""

    @property
    def end(self) -> int | None:
        """A descriptor that becomes readable when the server has ended, where the system has such."""
        return self._end if self._end >= 0 else None

    def close(self) -> None:
        """Unmount and remove the directory; a second call does nothing."""
        if self._end >= 0:
            os.close(self._end)
            self._end = -1
        server, self._server = self._server, None
        if server is not None:
            server.close()
        if self.point.is_absolute():
            _clear(self.point)
            self.point = Path()
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.dismiss()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _private_directory(project: Path) -> Path:
    """Make a directory of this user's and this process's own, after clearing those of processes that are dead."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.access(runtime, os.W_OK | os.X_OK):
        parent = Path(runtime, "vfs")
    else:
        parent = project / ".sandbox" / "mounts"
    parent.mkdir(mode=0o700, exist_ok=True)
    for entry in os.scandir(parent):
        pid = entry.name.partition("-")[0]
        if pid.isdigit() and not _is_alive(int(pid)):
            _clear(Path(entry.path))
    directory = parent / f"{os.getpid()}-{secrets.token_hex(4)}"
    directory.mkdir(mode=0o700)
    return directory


def _clear(directory: Path) -> None:
    """Remove a mount point, with what may still be mounted there."""
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return
    except OSError:
        with contextlib.suppress(FileSystemError):  # nothing is mounted: then it is somebody's files
            unmount(os.fspath(directory), force=True)
        with contextlib.suppress(OSError):
            os.rmdir(directory)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def read_permitted(sandbox: Sandbox, path: str) -> bool:
    """Tell whether the session may read `path`, without recording that it was asked."""
    try:
        return sandbox.check_permission("read", path).allowed
    except SandboxError:
        return False
