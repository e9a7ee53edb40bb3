"""What the parts of the contract share."""
# ruff: noqa: S101 -- tests

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vfs.kernel.ports import Backend

NOT_UTF8 = os.fsdecode(b"\xff\xfe name")
THREADS = 8


def fails(number: int, call: Callable[..., object], *args: Any, **options: Any) -> None:
    """Assert that the call raises OSError with this errno."""
    with pytest.raises(OSError) as caught:  # noqa: PT011 (the errno is what is checked)
        call(*args, **options)
    expected, got = errno.errorcode[number], errno.errorcode.get(caught.value.errno or 0)
    assert got == expected, f"{getattr(call, '__name__', call)}{args}: {got} instead of {expected}"


class Contract:
    """What the parts of the contract share."""

    time_resolution_ns = 1
    """How far a time may be off that was set; larger where the storage keeps less."""

    sparse_size = 1 << 40
    """How large a file of holes may be; smaller where the storage has no holes."""

    def make(self, directory: Path) -> Backend:
        """Return a new, empty backend; `directory` is empty and its own."""
        raise NotImplementedError

    def destroy(self, backend: Backend) -> None:
        """Release what `make` took."""
        backend.close()

    @pytest.fixture
    def backend(self, tmp_path: Path) -> Iterator[Backend]:
        """An empty backend."""
        directory = tmp_path / "storage"
        directory.mkdir()
        backend = self.make(directory)
        try:
            yield backend
        finally:
            self.destroy(backend)

    def need(self, backend: Backend, *names: str) -> None:
        """Skip unless the backend has these features."""
        for name in names:
            if not getattr(backend.features, name):
                pytest.skip(f"by design: no {name}")
