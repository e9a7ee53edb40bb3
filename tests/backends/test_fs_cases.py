"""Each backend, seen through `BackendFS`, passes PyFilesystem2's own cases."""

import shutil
import tempfile
import unittest

from vfs_backends.beneath import Walk
from vfs_backends.fs_compat import FS, conformance_cases
from vfs_backends.memory import MemoryBackend
from vfs_backends.osfs import OsBackend
from vfs_backends.subset import SubsetBackend
from vfs_backends.union import UnionBackend
from vfs_backends.view import BackendFS

Cases = conformance_cases()


class TestOs(Cases, unittest.TestCase):  # type: ignore[misc,valid-type]  # a class made at run time
    def make_fs(self) -> FS:
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        return BackendFS(OsBackend(self.directory), owner=True)


class TestOsWalk(Cases, unittest.TestCase):  # type: ignore[misc,valid-type]  # a class made at run time
    def make_fs(self) -> FS:
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        return BackendFS(OsBackend(self.directory, resolver=Walk()), owner=True)


class TestMemory(Cases, unittest.TestCase):  # type: ignore[misc,valid-type]  # a class made at run time
    def make_fs(self) -> FS:
        return BackendFS(MemoryBackend(), owner=True)


class TestUnion(Cases, unittest.TestCase):  # type: ignore[misc,valid-type]  # a class made at run time
    def make_fs(self) -> FS:
        return BackendFS(UnionBackend([MemoryBackend(), MemoryBackend()]), owner=True)


class TestSubset(Cases, unittest.TestCase):  # type: ignore[misc,valid-type]  # a class made at run time
    def make_fs(self) -> FS:
        inner = MemoryBackend()
        inner.make_dir("data")
        return BackendFS(SubsetBackend(inner, ["data"]), "data", owner=True)
