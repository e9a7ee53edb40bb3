"""A mount served by a process of its own, as its parent sees it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from vfs.kernel import errors
from vfs.kernel.errors import FileSystemError, SandboxError, UnavailableError
from vfs.kernel.zones import Zone
from vfs.mount.engine import MountOptions
from vfs.mount.unmounting import unmount

__all__ = ["MountServer"]

_PATIENCE = 10.0


class MountServer:
    """A running mount; made by `start`, ended by `close` or by leaving it as a context manager.

    It also ends, unmounted and recorded, when this process ends, however that comes about.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", mount_point: str) -> None:
        self._process = process
        self.mount_point = mount_point

    @property
    def pid(self) -> int:
        """Return the server's process number."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Tell whether the server is still there; it ends when somebody unmounts."""
        return self._process.poll() is None

    @classmethod
    def start(
        cls,
        project: str | os.PathLike[str],
        session_id: str,
        mount_point: str | os.PathLike[str],
        *,
        zones: Mapping[Zone, str] | None = None,
        home: Path | None = None,
        engine: str = "fusepy",
        options: MountOptions | None = None,
    ) -> Self:
        """Mount an existing session of `project` and return once it answers.

        `zones` and `home` are those of `vfs.project.open_project`. Raises what `vfs.mount.serve` raises, and
        SessionError; UnavailableError if the server dies without a word.
        """
        order = {
            "project": os.fspath(Path(project).absolute()),
            "session_id": session_id,
            "mount_point": os.fspath(mount_point),
            "zones": {str(zone): url for zone, url in (zones or {}).items()},
            "home": os.fspath(home) if home is not None else None,
            "engine": engine,
            "options": (options or MountOptions())._asdict(),
        }
        # The order goes through the pipe whose end tells the server that we are gone: URLs may hold secrets,
        # and arguments are for everyone to see.
        process = subprocess.Popen(
            [sys.executable, "-m", "vfs.mount", os.fspath(mount_point)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            answer = _exchange(process, order)
            if "error" in answer:
                raise _error_from(answer["error"])
        except BaseException:
            _end(process, signal.SIGKILL)
            raise
        return cls(process, os.path.realpath(mount_point))

    def close(self) -> None:
        """Unmount and wait until everything is recorded; a second call does nothing.

        A server that does not end within ten seconds is killed and the mount cleared.
        """
        if _end(self._process, signal.SIGTERM):
            return
        try:
            unmount(self.mount_point, force=True)
        except FileSystemError:
            return  # it was gone already

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _exchange(process: "subprocess.Popen[bytes]", order: dict[str, Any]) -> dict[str, Any]:
    assert process.stdin is not None  # noqa: S101 (both were asked for)
    assert process.stdout is not None  # noqa: S101 (as above)
    line = b""
    try:
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except BrokenPipeError:
        pass
    if not line:
        raise UnavailableError(
            f"the server of the mount ended with exit code {process.wait()} before it answered",
            hint="its last words are on standard error; `vfs doctor` says what may be missing",
        )
    answer: dict[str, Any] = json.loads(line)
    return answer


def _end(process: "subprocess.Popen[bytes]", number: signal.Signals) -> bool:
    """End the server and return whether it ended in order."""
    try:
        if process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                return False
        return process.returncode == 0
    finally:
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def to_json(error: SandboxError) -> dict[str, Any]:
    """Return an error in the form in which the server passes it on."""
    return {
        "class": type(error).__name__,
        "errno": error.errno,
        "message": error.message,
        "path": error.path,
        "hint": error.hint,
    }


def _error_from(told: Mapping[str, Any]) -> SandboxError:
    kind = getattr(errors, told["class"], UnavailableError)
    if kind is FileSystemError:
        return FileSystemError(told["errno"], told["message"], told["path"], hint=told["hint"])
    made: SandboxError = kind(told["message"], told["path"], hint=told["hint"])
    return made
