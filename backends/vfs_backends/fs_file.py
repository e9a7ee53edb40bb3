"""Open files on a PyFilesystem2 file system."""

import errno
import os
import tempfile
import threading
from collections.abc import Callable
from typing import BinaryIO, cast

from vfs.kernel.ports import Stat
from vfs_backends.errors import os_error
from vfs_backends.fs_errors import os_errors

__all__ = ["FsFile", "Spool"]

_CHUNK = 1 << 20
_SPOOL_IN_MEMORY = 8 << 20


class Spool:
    """A copy of a file for storage that cannot be read or written at any place.

    `load(stream)` fills it; `store(stream, path)` puts it back, whole.
    """

    def __init__(self, load: Callable[[BinaryIO], None], store: Callable[[BinaryIO, str], None]) -> None:
        self.stream = cast("BinaryIO", tempfile.SpooledTemporaryFile(_SPOOL_IN_MEMORY))  # noqa: SIM115 (closed by the file)
        self._store = store
        self._dirty = False
        load(self.stream)

    def touch(self) -> None:
        """Note that the copy differs from the original."""
        self._dirty = True

    def write_back(self, path: str | None) -> None:
        """Put the copy in the place of the original, if it differs and the original still has a name."""
        if self._dirty and path is not None:
            self.stream.seek(0)
            self._store(self.stream, path)
            self._dirty = False


class FsFile:
    """An open file; see `vfs.kernel.ports.BackendFile`.

    `path` is its name now, which the backend changes when the name moves; None once it is gone. What a
    spooled file was given reaches the storage at `sync` and `close`.
    """

    def __init__(
        self,
        stream: BinaryIO,
        path: str,
        flags: int,
        lock: threading.RLock,
        look: Callable[[str], Stat],
        set_times: Callable[[str, int | None, int | None], None],
        spool: Spool | None = None,
    ) -> None:
        self.path: str | None = path
        self.flags = flags
        access = flags & os.O_ACCMODE
        self._reads = access != os.O_WRONLY
        self._writes = access != os.O_RDONLY
        self._append = bool(flags & os.O_APPEND)
        self._stream = stream
        self._lock = lock
        self._look = look
        self._set_times = set_times
        self._spool = spool
        self._last = look(path)

    def pread(self, size: int, offset: int) -> bytes:
        """See `BackendFile.pread`."""
        with self._lock, os_errors(self._name):
            self._require(allowed=self._reads)
            size = min(size, max(0, self._size() - offset))
            self._stream.seek(offset)
            parts = []
            while size and (data := self._stream.read(min(size, _CHUNK))):
                parts.append(data)
                size -= len(data)
            return b"".join(parts)

    def pwrite(self, data: bytes, offset: int) -> int:
        """See `BackendFile.pwrite`."""
        with self._lock, os_errors(self._name):
            self._require(allowed=self._writes)
            if not data:
                return 0
            end = self._size()
            if self._append:
                offset = end
            elif offset > end:
                self._extend(end, offset)
            self._stream.seek(offset)
            self._write(data)
            self._changed()
            return len(data)

    def truncate(self, size: int) -> None:
        """See `BackendFile.truncate`; where the storage has no holes, extending writes zeros."""
        with self._lock, os_errors(self._name):
            self._require()
            if not self._writes:
                raise os_error(errno.EINVAL, self.path)
            self._stream.truncate(size)
            self._extend(self._size(), size)
            self._changed()

    def stat(self) -> Stat:
        """See `BackendFile.stat`; once the name is gone, the times are those of the last look."""
        with self._lock, os_errors(self._name):
            self._require()
            if self.path is None:
                return self._last._replace(nlink=0, size=self._size())
            self._last = self._look(self.path)._replace(size=self._size(), ino=self._last.ino)
            return self._last

    def set_times(self, atime_ns: int | None, mtime_ns: int | None) -> None:
        """See `BackendFile.set_times`; nothing happens once the name is gone."""
        with self._lock:
            self._require()
            if self.path is not None:
                self._set_times(self.path, atime_ns, mtime_ns)

    def set_mode(self, mode: int) -> None:  # noqa: ARG002 (the protocol has it)
        """Refuse with ENOTSUP: no modes are kept."""
        raise os_error(errno.ENOTSUP, self.path)

    def sync(self, *, data_only: bool) -> None:  # noqa: ARG002 (there is no choice here)
        """Put back what is held; what the storage does then is its own affair."""
        with self._lock, os_errors(self._name):
            self._require()
            if self._spool is not None:
                self._spool.write_back(self.path)

    def fileno(self) -> None:
        """Return None: what the storage has below is not known to be this file."""

    def close(self) -> None:
        """See `BackendFile.close`."""
        with self._lock, os_errors(self._name):
            if self._stream.closed:
                return
            try:
                if self._spool is not None:
                    self._spool.write_back(self.path)
            finally:
                self._stream.close()

    @property
    def is_spooled(self) -> bool:
        """Whether it works on a copy."""
        return self._spool is not None

    def replace_stream(self, stream: BinaryIO) -> None:
        """Go on with another stream of the same content; the caller holds the lock."""
        if self._stream.closed:
            stream.close()
        else:
            self._stream.close()
            self._stream = stream

    @property
    def _name(self) -> str:
        return self.path or ""

    def _require(self, *, allowed: bool = True) -> None:
        if self._stream.closed or not allowed:
            raise os_error(errno.EBADF, self.path)

    def _size(self) -> int:
        self._stream.seek(0, os.SEEK_END)
        return self._stream.tell()

    def _extend(self, end: int, size: int) -> None:
        self._stream.seek(end)
        while end < size:
            step = min(_CHUNK, size - end)
            self._write(bytes(step))
            end += step

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            # Streams of other people's storage return None as often as a length.
            written = cast("int | None", self._stream.write(bytes(view)))
            view = view[len(view) if written is None else written :]

    def _changed(self) -> None:
        if self._spool is not None:
            self._spool.touch()
        else:
            self._stream.flush()
