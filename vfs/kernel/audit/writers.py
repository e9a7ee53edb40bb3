"""Which writers of the log are alive.

Every process that appends keeps a file `writers/<id>` locked (`flock`) for as long as it has the log open.
The kernel drops the lock when the process ends, however it ends, so a lock that can be had means a dead
writer; process ids, which are used again and differ between containers, need not be trusted. The file says
in JSON who it is, for people.
"""

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from typing import Final

__all__ = ["Writer", "dead_writers", "living_writers"]

DIRECTORY: Final = "writers"


class Writer:
    """This process's entry; made when the log is opened, again in a forked child."""

    def __init__(self, directory: str) -> None:
        folder = os.path.join(directory, DIRECTORY)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.id: Final = secrets.token_hex(6)
        self._path = os.path.join(folder, self.id)
        # Made under another name and renamed once locked: nobody may meet it unlocked and think it dead.
        making = os.path.join(folder, f".{self.id}")
        self._descriptor = os.open(making, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            os.write(self._descriptor, json.dumps({"pid": os.getpid(), "uid": os.getuid()}).encode())
            os.rename(making, self._path)
        except BaseException:
            os.close(self._descriptor)
            with contextlib.suppress(OSError):
                os.unlink(making)
            raise

    def abandon(self) -> None:
        """Close the descriptor only: what a forked child does with its parent's, whose lock it shares."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def close(self) -> None:
        """Remove the entry: everything this writer began has ended."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            self.abandon()


def living_writers(directory: str) -> frozenset[str]:
    """Return the ids of the writers that have the log open now."""
    folder = os.path.join(directory, DIRECTORY)
    return frozenset(name for name in _names(folder) if not _is_free(os.path.join(folder, name)))


@contextlib.contextmanager
def dead_writers(directory: str) -> Iterator[list[str]]:
    """Yield the ids of writers that died, held so that no other process reports them too.

    When the block ends well their files are removed; if it fails they stay, for the next to report.
    """
    folder = os.path.join(directory, DIRECTORY)
    held: dict[str, int] = {}
    try:
        for name in _names(folder):
            path = os.path.join(folder, name)
            descriptor = _try_lock(path)
            if descriptor is not None:
                held[name] = descriptor
        yield list(held)
        for name in held:
            os.unlink(os.path.join(folder, name))
    finally:
        for descriptor in held.values():
            os.close(descriptor)


def _names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if not name.startswith(".")]
    except FileNotFoundError:
        return []


def _try_lock(path: str) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink == 0:  # another process reported it between listing and locking
            raise BlockingIOError
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _is_free(path: str) -> bool:
    # A shared lock, so that two who ask at once do not take each other for the writer.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)
