"""Each backend passes the contract."""

import errno
from pathlib import Path
from typing import Any, cast

from vfs.kernel.ports import Backend
from vfs_backends.beneath import OpenAt2, Walk
from vfs_backends.contract import BackendContract
from vfs_backends.fs_compat import OSFS, TempFS
from vfs_backends.memory import MemoryBackend
from vfs_backends.osfs import OsBackend
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


class _Below:
    """The tree under `data` of a subset, as a backend of its own, so that its root is not a fixed name."""

    def __init__(self, subset: SubsetBackend) -> None:
        self._subset = subset

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._subset, name)
        if name not in _PATH_ARGUMENTS:
            return found

        def call(*args: Any, **options: Any) -> Any:
            if name in _ROOT_ERRORS and not args[0]:
                raise OSError(_ROOT_ERRORS[name], "the root")
            paths = [_below(arg) if place in _PATH_ARGUMENTS[name] else arg for place, arg in enumerate(args)]
            return found(*paths, **options)

        return call


_ROOT_ERRORS = {"remove": errno.EISDIR, "remove_dir": errno.EBUSY, "rename": errno.EBUSY}
_PATH_ARGUMENTS: dict[str, tuple[int, ...]] = {
    name: (0,) for name in dir(SubsetBackend) if not name.startswith("_")
}
_PATH_ARGUMENTS |= {"rename": (0, 1), "link": (0, 1), "symlink": (1,)}
for _name in ("features", "statvfs", "flush", "close"):
    del _PATH_ARGUMENTS[_name]


def _below(path: str) -> str:
    return "data" + path if path.startswith("/") else f"data/{path}".rstrip("/")


class TestSubset(BackendContract):
    def make(self, directory: Path) -> Backend:
        inner = OsBackend(directory)
        inner.make_dir("data", 0o755)
        return cast("Backend", _Below(SubsetBackend(inner, ["data"])))


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
