"""Each backend passes the contract."""

import errno
from pathlib import Path

from vfs.kernel.ports import Backend
from vfs_backends.beneath import OpenAt2, Walk
from vfs_backends.contract import BackendContract
from vfs_backends.fs_compat import OSFS, TempFS
from vfs_backends.memory import MemoryBackend
from vfs_backends.osfs import OsBackend
from vfs_backends.prefix import PrefixBackend
from vfs_backends.pyfilesystem import FsBackend
from vfs_backends.subset import SubsetBackend
from vfs_backends.union import UnionBackend


class TestOsByOpenAt2(BackendContract):
    def make(self, directory: Path) -> Backend:
        return OsBackend(directory, resolver=OpenAt2())


class TestOsByWalk(BackendContract):
    def make(self, directory: Path) -> Backend:
        return OsBackend(directory, resolver=Walk())


class TestMemory(BackendContract):
    sparse_size = (1 << 63) - 1

    def make(self, directory: Path) -> Backend:
        return MemoryBackend()


class TestUnionOfMemory(BackendContract):
    def make(self, directory: Path) -> Backend:
        return UnionBackend([MemoryBackend(), MemoryBackend()])


class TestUnionOfOs(BackendContract):
    def make(self, directory: Path) -> Backend:
        layers = []
        for name in ("upper", "lower"):
            (directory / name).mkdir()
            layers.append(OsBackend(directory / name))
        return UnionBackend(layers)


class TestPrefix(BackendContract):
    def make(self, directory: Path) -> Backend:
        inner = OsBackend(directory)
        inner.make_dir("data", 0o755)
        return _Owner(inner, "data")


class _Owner(PrefixBackend):
    """A prefix that closes what is below it."""

    def close(self) -> None:
        self._inner.close()


class _BelowFixedName(_Owner):
    """Its root is a fixed name of a subset, which says EPERM and not EISDIR to removing it."""

    def remove(self, path: str) -> None:
        if not path:
            raise IsADirectoryError(errno.EISDIR, "the root")
        super().remove(path)


class TestSubset(BackendContract):
    def make(self, directory: Path) -> Backend:
        inner = OsBackend(directory)
        inner.make_dir("data", 0o755)
        return _BelowFixedName(SubsetBackend(inner, ["data"]), "data")


class TestFsMemory(BackendContract):
    time_resolution_ns = 1_000
    sparse_size = 1 << 20

    def make(self, directory: Path) -> Backend:
        from fs.memoryfs import MemoryFS

        return FsBackend(MemoryFS())


class TestFsTemp(BackendContract):
    time_resolution_ns = 10_000

    def make(self, directory: Path) -> Backend:
        return FsBackend(TempFS(temp_dir=str(directory)))


class TestFsOs(BackendContract):
    time_resolution_ns = 10_000

    def make(self, directory: Path) -> Backend:
        return FsBackend(OSFS(str(directory)))
