"""Open files in memory."""

import errno
import os
import threading
from typing import Self

from vfs.kernel.ports import Stat
from vfs_backends.errors import os_error
from vfs_backends.memory_nodes import Node

__all__ = ["MemoryFile"]


class MemoryFile:
    """An open file of a memory backend; see `vfs.kernel.ports.BackendFile`. After `close` calls are EBADF."""

    def __init__(self, node: Node, lock: threading.RLock, flags: int) -> None:
        self._node = node
        self._lock = lock
        access = flags & os.O_ACCMODE
        self._reads = access in (os.O_RDONLY, os.O_RDWR)
        self._writes = access in (os.O_WRONLY, os.O_RDWR)
        self._append = bool(flags & os.O_APPEND)
        self._open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pread(self, size: int, offset: int) -> bytes:
        """See `BackendFile.pread`."""
        with self._lock:
            self._require(allowed=self._reads)
            if offset < 0:
                raise os_error(errno.EINVAL)
            return self._node.content.read(size, offset)

    def pwrite(self, data: bytes, offset: int) -> int:
        """See `BackendFile.pwrite`."""
        with self._lock:
            self._require(allowed=self._writes)
            if offset < 0:
                raise os_error(errno.EINVAL)
            content = self._node.content
            self._node.changed(content=True)
            content.write(data, content.size if self._append else offset)
            return len(data)

    def truncate(self, size: int) -> None:
        """See `BackendFile.truncate`."""
        with self._lock:
            self._require()
            if not self._writes:
                raise os_error(errno.EINVAL)
            self._node.content.truncate(size)
            self._node.changed(content=True)

    def stat(self) -> Stat:
        """See `BackendFile.stat`."""
        with self._lock:
            self._require()
            return self._node.stat()

    def set_times(self, atime_ns: int | None, mtime_ns: int | None) -> None:
        """See `BackendFile.set_times`."""
        with self._lock:
            self._require()
            self._node.set_times(atime_ns, mtime_ns)

    def set_mode(self, mode: int) -> None:
        """See `BackendFile.set_mode`."""
        with self._lock:
            self._require()
            self._node.set_mode(mode)

    def sync(self, *, data_only: bool) -> None:  # noqa: ARG002 (there is nothing to choose in memory)
        """Do nothing: memory is as stable as it gets."""
        self._require()

    def fileno(self) -> None:
        """Return None: the operating system knows nothing of it."""

    def close(self) -> None:
        """See `BackendFile.close`."""
        with self._lock:
            if self._open:
                self._open = False
                self._node.opened -= 1
                self._node.release()

    def _require(self, *, allowed: bool = True) -> None:
        if not (self._open and allowed):
            raise os_error(errno.EBADF)
