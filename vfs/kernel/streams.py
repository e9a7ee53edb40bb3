"""A positional file as a Python file object."""

import io
import os
from typing import IO, TYPE_CHECKING, Any, Protocol

from vfs.kernel.errors import InvalidPathError
from vfs.kernel.ports import Stat

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

__all__ = ["Positional", "RawFile", "flags_of", "open_stream"]

_BUFFER = 1 << 17


class Positional(Protocol):
    """What a stream needs of a file; `vfs.kernel.ports.BackendFile` has it."""

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to `size` bytes from `offset`."""
        ...

    def pwrite(self, data: bytes, offset: int) -> int:
        """Write all of `data` at `offset` and return its length."""
        ...

    def truncate(self, size: int) -> None:
        """Cut or extend to `size` bytes."""
        ...

    def stat(self) -> Stat:
        """Return the metadata now."""
        ...

    def close(self) -> None:
        """Release the file."""
        ...


_FLAGS = {
    "r": os.O_RDONLY,
    "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "x": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    "a": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
}


def flags_of(mode: str) -> int:
    """Return the `os.O_*` flags of a mode such as `r`, `rb`, `w+`. Raises InvalidPathError for no mode."""
    kind = mode.replace("b", "").replace("t", "").replace("+", "")
    if kind not in _FLAGS or len(set(mode)) != len(mode) or ("b" in mode and "t" in mode):
        raise InvalidPathError(
            f"`{mode}` is not a mode for opening a file", hint="for example `r`, `wb`, `a+`"
        )
    flags = _FLAGS[kind]
    if "+" in mode:
        flags = (flags & ~os.O_ACCMODE) | os.O_RDWR
    return flags


def open_stream(
    file: Positional,
    name: str,
    mode: str,
    *,
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> IO[Any]:
    """Return `file` as what `open(name, mode)` would return; closing it closes the file.

    Text is UTF-8 unless `encoding` says otherwise. With `buffering` 0 a binary stream is not buffered.
    """
    raw = RawFile(file, name, mode)
    if "b" in mode and buffering == 0:
        return raw  # type: ignore[return-value]  # RawIOBase has the methods of IO[bytes]
    size = buffering if buffering > 1 else _BUFFER
    buffered: Any
    if raw.readable() and raw.writable():
        buffered = io.BufferedRandom(raw, size)
    elif raw.writable():
        buffered = io.BufferedWriter(raw, size)
    else:
        buffered = io.BufferedReader(raw, size)
    if "b" in mode:
        return buffered  # type: ignore[no-any-return]  # one of three classes that share no useful base
    return io.TextIOWrapper(buffered, encoding or "utf-8", errors, newline, line_buffering=buffering == 1)


class RawFile(io.RawIOBase):
    """A positional file with a position of its own; `mode` is that of `open`.

    It has no `fileno`: whoever used a descriptor would go past the checks of the file. Not thread-safe, as
    Python's own. Raises what the file raises.
    """

    def __init__(self, file: Positional, name: str, mode: str) -> None:
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
        """Return True: the file is positional."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read up to the length of `buffer`; 0 at the end."""
        self._require("read", self._reads)
        view = memoryview(buffer).cast("B")
        data = self._file.pread(len(view), self._position)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def write(self, data: "ReadableBuffer") -> int:
        """Write all of `data` at the position, or at the end after `a`."""
        self._require("write", self._writes)
        written = self._file.pwrite(bytes(data), self._position)
        self._position = self._file.stat().size if self._appends else self._position + written
        return written

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position; ValueError for a negative one or an unknown `whence`."""
        self._require("seek", True)
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
        self._require("tell", True)
        return self._position

    def truncate(self, size: int | None = None) -> int:
        """Cut or extend to `size`, or to the position; the position stays."""
        self._require("truncate", self._writes)
        wanted = self._position if size is None else size
        self._file.truncate(wanted)
        return wanted

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self.closed:
            return
        try:
            super().close()
        finally:
            self._file.close()

    def _require(self, verb: str, allowed: bool) -> None:  # noqa: FBT001 (private, reads as a sentence)
        if self.closed:
            raise ValueError("the file is closed")
        if not allowed:
            raise io.UnsupportedOperation(f"cannot {verb} in mode `{self.mode}`")
