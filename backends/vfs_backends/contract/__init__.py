"""The suite that every backend passes, for pytest; each test is a sentence of `vfs.kernel.ports`.

    from vfs_backends.contract import BackendContract

    class TestMine(BackendContract):
        def make(self, directory):
            return MyBackend(directory)

`make` gets a fresh directory and returns an empty backend; `destroy` closes it, and may do more. A test is
skipped only for what `Features` says is lacking, and then there is one that sees it refused. Needs pytest
and hypothesis; nothing in the package imports this module.
"""
# ruff: noqa: D102, E402, S101 -- tests: the name says it; pytest has to know the modules before they are imported

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vfs.kernel.ports import Backend

_PARTS = ("base", "files", "links", "looking", "metadata", "model", "names")
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from vfs_backends.contract.base import THREADS, fails
from vfs_backends.contract.files import FilesContract
from vfs_backends.contract.links import LinksContract
from vfs_backends.contract.looking import LookingContract
from vfs_backends.contract.metadata import MetadataContract
from vfs_backends.contract.model import run_model
from vfs_backends.contract.names import NamesContract

__all__ = ["BackendContract", "fails"]


class BackendContract(LookingContract, FilesContract, NamesContract, LinksContract, MetadataContract):
    """Subclass it and implement `make`; see the module."""

    def test_open_files_outlive_the_backend(self, backend: Backend) -> None:
        backend.write_bytes("file", b"content")
        file = backend.open("file", os.O_RDONLY)
        backend.close()
        backend.close()
        assert file.pread(100, 0) == b"content"
        file.close()

    def test_many_threads_at_once(self, backend: Backend) -> None:
        backend.make_dir("shared")

        def work(number: int) -> None:
            for turn in range(20):
                path = f"shared/{number} {turn}"
                backend.write_bytes(path, path.encode())
                backend.rename(path, f"{path} moved")
                assert backend.read_bytes(f"{path} moved") == path.encode()
                backend.scan("shared")
                if turn % 2:
                    backend.remove(f"{path} moved")

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))
        assert len(backend.scan("shared")) == THREADS * 10

    def test_behaves_as_a_dictionary_of_paths(self, tmp_path: Path) -> None:
        numbers = iter(range(1 << 30))

        def make() -> Backend:
            directory = tmp_path / f"storage{next(numbers)}"
            directory.mkdir()
            return self.make(directory)

        run_model(make, self.destroy)
