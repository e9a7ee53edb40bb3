"""A dictionary of paths as the model of a backend: the same calls on both must end the same."""
# ruff: noqa: S101 -- a test

import errno
import os
import stat
from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from vfs.kernel.ports import Backend, RenameFlag

__all__ = ["run_model"]

_T = TypeVar("_T")
_NAMES = st.sampled_from(["a", "b", os.fsdecode(b"\xff")])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)
_DATA = st.binary(max_size=20)
_FLAGS = st.sampled_from([RenameFlag.REPLACE, RenameFlag.NOREPLACE])


def run_model(make: Callable[[], Backend], destroy: Callable[[Backend], None]) -> None:
    """Run random calls against a fresh backend and the model, many times; raise where they differ."""

    class Machine(_Machine):
        def __init__(self) -> None:
            super().__init__(make())

        def teardown(self) -> None:
            destroy(self.backend)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )


class Model:
    """A tree as a dictionary: the content of each file by path, None for a directory."""

    def __init__(self) -> None:
        self.tree: dict[str, bytes | None] = {"": None}

    def children(self, path: str) -> list[str]:
        """Return the paths directly in a directory."""
        return [below for below in self.tree if below and below.rpartition("/")[0] == path]

    def resolve(self, path: str) -> None:
        """Raise what POSIX raises if something above `path` is missing or a file."""
        parts = path.split("/")[:-1]
        for count in range(1, len(parts) + 1):
            above = "/".join(parts[:count])
            if above not in self.tree:
                raise OSError(errno.ENOENT, above)
            if self.tree[above] is not None:
                raise OSError(errno.ENOTDIR, above)

    def require(self, path: str) -> None:
        """Raise unless there is something at `path`."""
        self.resolve(path)
        if path not in self.tree:
            raise OSError(errno.ENOENT, path)

    def read(self, path: str) -> bytes:
        """Return a file's content."""
        self.require(path)
        data = self.tree[path]
        if data is None:
            raise OSError(errno.EISDIR, path)
        return data

    def write(self, path: str, data: bytes, *, exclusive: bool) -> None:
        """Make `data` the content of a file."""
        self.resolve(path)
        if exclusive and path in self.tree:
            raise OSError(errno.EEXIST, path)
        if path in self.tree and self.tree[path] is None:
            raise OSError(errno.EISDIR, path)
        self.tree[path] = data

    def make_dir(self, path: str) -> None:
        """Make a directory."""
        self.resolve(path)
        if path in self.tree:
            raise OSError(errno.EEXIST, path)
        self.tree[path] = None

    def remove(self, path: str) -> None:
        """Remove a file."""
        self.read(path)
        del self.tree[path]

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory."""
        self.require(path)
        if self.tree[path] is not None:
            raise OSError(errno.ENOTDIR, path)
        if self.children(path):
            raise OSError(errno.ENOTEMPTY, path)
        del self.tree[path]

    def rename(self, source: str, target: str, flag: RenameFlag) -> None:
        """Move a name."""
        self.require(source)
        self.resolve(target)
        if flag == RenameFlag.NOREPLACE and target in self.tree:
            raise OSError(errno.EEXIST, target)
        if target.startswith(f"{source}/"):
            raise OSError(errno.EINVAL, target)
        if source.startswith(f"{target}/"):
            raise OSError(errno.ENOTEMPTY, target)
        if source == target:
            return
        if target in self.tree:
            if self.tree[source] is None and self.tree[target] is not None:
                raise OSError(errno.ENOTDIR, target)
            if self.tree[source] is not None and self.tree[target] is None:
                raise OSError(errno.EISDIR, target)
            if self.children(target):
                raise OSError(errno.ENOTEMPTY, target)
        moved = [path for path in self.tree if path == source or path.startswith(f"{source}/")]
        for path in moved:
            self.tree[target + path[len(source) :]] = self.tree.pop(path)


class _Machine(RuleBasedStateMachine):
    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.backend = backend
        self.model = Model()

    def both(self, real: Callable[[], _T], model: Callable[[], _T]) -> None:
        """Make the same call on both and compare what they return or raise."""
        expected, got = _outcome(model), _outcome(real)
        assert got == expected

    @rule(path=_PATHS)
    def read(self, path: str) -> None:
        self.both(lambda: self.backend.read_bytes(path), lambda: self.model.read(path))

    @rule(path=_PATHS, data=_DATA, exclusive=st.booleans())
    def write(self, path: str, data: bytes, exclusive: bool) -> None:  # noqa: FBT001 (drawn by name)
        self.both(
            lambda: self.backend.write_bytes(path, data, exclusive=exclusive),
            lambda: self.model.write(path, data, exclusive=exclusive),
        )

    @rule(path=_PATHS, data=_DATA, offset=st.integers(0, 30), append=st.booleans())
    def patch(self, path: str, data: bytes, offset: int, append: bool) -> None:  # noqa: FBT001 (drawn by name)
        def model() -> None:
            old = self.model.read(path)
            start = len(old) if append else offset
            if data:
                old = old.ljust(start, b"\0")
            self.model.tree[path] = old[:start] + data + old[start + len(data) :]

        def real() -> None:
            file = self.backend.open(path, os.O_RDWR | (os.O_APPEND if append else 0))
            try:
                file.pwrite(data, offset)
            finally:
                file.close()

        self.both(real, model)

    @rule(path=_PATHS, size=st.integers(0, 40))
    def truncate(self, path: str, size: int) -> None:
        def model() -> None:
            self.model.tree[path] = self.model.read(path)[:size].ljust(size, b"\0")

        def real() -> None:
            file = self.backend.open(path, os.O_RDWR)
            try:
                file.truncate(size)
            finally:
                file.close()

        self.both(real, model)

    @rule(path=_PATHS)
    def make_dir(self, path: str) -> None:
        self.both(lambda: self.backend.make_dir(path), lambda: self.model.make_dir(path))

    @rule(path=_PATHS)
    def remove(self, path: str) -> None:
        self.both(lambda: self.backend.remove(path), lambda: self.model.remove(path))

    @rule(path=_PATHS)
    def remove_dir(self, path: str) -> None:
        self.both(lambda: self.backend.remove_dir(path), lambda: self.model.remove_dir(path))

    @rule(source=_PATHS, goal=_PATHS, flag=_FLAGS)
    def rename(self, source: str, goal: str, flag: RenameFlag) -> None:
        if _outcome(lambda: self.model.require(source))[0] and _outcome(lambda: self.model.resolve(goal))[0]:
            return  # POSIX does not say which of two errors comes first
        self.both(
            lambda: self.backend.rename(source, goal, flag),
            lambda: self.model.rename(source, goal, flag),
        )

    @invariant()
    def trees_are_equal(self) -> None:
        for path, data in self.model.tree.items():
            found = self.backend.stat(path)
            assert stat.S_ISDIR(found.mode) == (data is None)
            if data is None:
                names = sorted(below.rpartition("/")[2] for below in self.model.children(path))
                assert sorted(entry.name for entry in self.backend.scan(path)) == names
            else:
                assert found.size == len(data)


def _outcome(call: Callable[[], _T]) -> tuple[str | None, _T | None]:
    try:
        return None, call()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0), None
