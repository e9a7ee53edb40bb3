"""A backend's positional file as a Python stream."""

import io
import os
from typing import TYPE_CHECKING, BinaryIO, cast

from vfs.kernel.errors import SandboxError
from vfs.kernel.ports import BackendFile

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_BUFFER = 1 << 17


class RawFile(io.RawIOBase):
    """The unbuffered stream over `file`, which it closes; `mode` is that of `open`.

    It raises OSError only. It has no `fileno`: the position is kept here, not in the operating system, and
    whoever used the descriptor would go past the checks of the file. Not thread-safe, as Python's own.
    """

    def __init__(self, file: BackendFile, name: str, mode: str) -> None:
        super().__init__()
        self._file = file
        self._position = 0
        self._reads = "r" in mode or "+" in mode
        self._writes = mode.strip("rbt") != ""
        self._appends = "a" in mode
        self.name = name
        self.mode = mode
        if self._appends:
            self.seek(0, os.SEEK_END)

    def readable(self) -> bool:
        """Return whether the mode allows reading."""
        return self._reads

    def writable(self) -> bool:
        """Return whether the mode allows writing."""
        return self._writes

    def seekable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read up to the length of `buffer`; 0 at the end."""
        self._require(self._reads, "read")
        view = memoryview(buffer).cast("B")
        try:
            data = self._file.pread(len(view), self._position)
        except SandboxError as error:
            raise _os_error(error) from error
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def write(self, data: "ReadableBuffer") -> int:
        """Write all of `data`."""
        self._require(self._writes, "write")
        content = bytes(data)
        try:
            written = self._file.pwrite(content, self._position)
            self._position = self._file.stat().size if self._appends else self._position + written
        except SandboxError as error:
            raise _os_error(error) from error
        return written

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position; ValueError for a negative one or an unknown `whence`."""
        self._require_open()
        if whence == os.SEEK_CUR:
            offset += self._position
        elif whence == os.SEEK_END:
            offset += self._file.stat().size
        elif whence != os.SEEK_SET:
            raise ValueError(f"unknown whence `{whence}`")
        if offset < 0:
            raise ValueError(f"negative position `{offset}`")
        self._position = offset
        return offset

    def tell(self) -> int:
        """Return the position."""
        self._require_open()
        return self._position

    def truncate(self, size: int | None = None) -> int:
        """Cut or extend to `size`, or to the position; the position stays."""
        self._require(self._writes, "truncate")
        wanted = self._position if size is None else size
        try:
            self._file.truncate(wanted)
        except SandboxError as error:
            raise _os_error(error) from error
        return wanted

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self.closed:
            return
        try:
            super().close()
        finally:
            try:
                self._file.close()
            except SandboxError as error:
                raise _os_error(error) from error

    def _require(self, allowed: bool, verb: str) -> None:  # noqa: FBT001 (private, reads as a sentence)
        self._require_open()
        if not allowed:
            raise io.UnsupportedOperation(f"cannot {verb} in mode `{self.mode}`")

    def _require_open(self) -> None:
        if self.closed:
            raise ValueError("the file is closed")


def open_stream(file: BackendFile, name: str, mode: str, buffering: int = -1) -> BinaryIO:
    """Return `file` as a binary stream, buffered unless `buffering` is 0, by `buffering` bytes if over 1."""
    raw = RawFile(file, name, mode)
    if buffering == 0:
        return cast("BinaryIO", raw)
    size = buffering if buffering > 1 else _BUFFER
    if raw.readable() and raw.writable():
        return cast("BinaryIO", io.BufferedRandom(raw, size))
    if raw.writable():
        return cast("BinaryIO", io.BufferedWriter(raw, size))
    return cast("BinaryIO", io.BufferedReader(raw, size))


def _os_error(error: SandboxError) -> OSError:
    return OSError(error.errno, error.message, error.path)
