"""An open file of the kernel as a Python file object."""

import io
import os
from typing import IO, Any

from vfs.kernel.errors import InvalidPathError
from vfs.kernel.ports import BackendFile

__all__ = ["RawFile", "flags_of", "open_stream"]

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
    file: BackendFile,
    flags: int,
    mode: str,
    *,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    buffering: int = -1,
) -> IO[Any]:
    """Return `file` as what `open()` would return for `mode`; closing it closes the file."""
    raw = RawFile(file, flags)
    if "b" in mode and buffering == 0:
        return raw  # type: ignore[return-value]  # RawIOBase has the methods of IO[bytes]
    size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
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
    """A positional file with an offset of its own."""

    def __init__(self, file: BackendFile, flags: int) -> None:
        super().__init__()
        self._file = file
        self._access = flags & os.O_ACCMODE
        self._append = bool(flags & os.O_APPEND)
        self._offset = file.stat().size if self._append else 0

    def readable(self) -> bool:
        """Tell whether it was opened for reading."""
        return self._access != os.O_WRONLY

    def writable(self) -> bool:
        """Tell whether it was opened for writing."""
        return self._access != os.O_RDONLY

    def seekable(self) -> bool:
        """Return True: the file is positional."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into `buffer` from the offset."""
        if not self.readable():
            raise io.UnsupportedOperation("not open for reading")
        data = self._file.pread(len(buffer), self._offset)
        buffer[: len(data)] = data
        self._offset += len(data)
        return len(data)

    def write(self, data: Any) -> int:
        """Write at the offset, or at the end after O_APPEND."""
        if not self.writable():
            raise io.UnsupportedOperation("not open for writing")
        done = self._file.pwrite(bytes(data), self._offset)
        self._offset = self._file.stat().size if self._append else self._offset + done
        return done

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the offset."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset}.get(whence)
        if base is None:
            base = self._file.stat().size
        if base + offset < 0:
            raise ValueError(f"cannot seek to {base + offset}, before the beginning")
        self._offset = base + offset
        return self._offset

    def tell(self) -> int:
        """Return the offset."""
        return self._offset

    def truncate(self, size: int | None = None) -> int:
        """Cut or extend to `size` bytes, or to the offset."""
        size = self._offset if size is None else size
        self._file.truncate(size)
        return size

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            try:
                super().close()
            finally:
                self._file.close()
