"""A backend's positional file as a Python stream that raises OSError and nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from vfs.kernel import streams
from vfs.kernel.errors import SandboxError
from vfs.kernel.ports import BackendFile, Stat

__all__ = ["open_stream"]


def open_stream(file: BackendFile, name: str, mode: str, buffering: int = -1) -> BinaryIO:
    """Return `file` as a binary stream, buffered unless `buffering` is 0, by `buffering` bytes if over 1."""
    binary = mode if "b" in mode else f"{mode}b"
    return cast("BinaryIO", streams.open_stream(_Plain(file), name, binary, buffering=buffering))


class _Plain:
    """A file whose errors are all of the kind that PyFilesystem2 knows."""

    def __init__(self, file: BackendFile) -> None:
        self._file = file

    def pread(self, size: int, offset: int) -> bytes:
        with _plain_errors():
            return self._file.pread(size, offset)

    def pwrite(self, data: bytes, offset: int) -> int:
        with _plain_errors():
            return self._file.pwrite(data, offset)

    def truncate(self, size: int) -> None:
        with _plain_errors():
            self._file.truncate(size)

    def stat(self) -> Stat:
        with _plain_errors():
            return self._file.stat()

    def close(self) -> None:
        with _plain_errors():
            self._file.close()


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except SandboxError as error:
        raise OSError(error.errno, error.message, error.path) from error
