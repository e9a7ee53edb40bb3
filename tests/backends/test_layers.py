"""What only `UnionBackend` and `SubsetBackend` do."""

import errno
import os
import stat
from collections.abc import Callable

import pytest

from vfs.kernel.ports import Features, RenameFlag
from vfs_backends.contract import fails
from vfs_backends.memory import MemoryBackend
from vfs_backends.subset import SubsetBackend
from vfs_backends.union import UnionBackend


@pytest.fixture
def upper() -> MemoryBackend:
    return MemoryBackend()


@pytest.fixture
def lower() -> MemoryBackend:
    backend = MemoryBackend()
    backend.make_dir("dir", 0o750)
    backend.write_bytes("dir/file", b"lower")
    backend.set_mode("dir/file", 0o600)
    backend.set_times("dir/file", 10**18, 10**18)
    backend.symlink("dir", "link")
    return backend


@pytest.fixture
def union(upper: MemoryBackend, lower: MemoryBackend) -> UnionBackend:
    return UnionBackend([upper, lower])


def names(backend: MemoryBackend | UnionBackend | SubsetBackend, path: str = "") -> list[str]:
    return sorted(entry.name for entry in backend.scan(path))


def test_the_first_layer_hides_the_second(union: UnionBackend, upper: MemoryBackend) -> None:
    upper.make_dir("dir")
    upper.write_bytes("dir/file", b"upper")
    upper.write_bytes("dir/new", b"")
    assert union.read_bytes("dir/file") == b"upper"
    assert names(union, "dir") == ["file", "new"]
    assert names(union) == ["dir", "link"]
    for entry in union.scan("dir"):
        assert entry.ino == union.stat(f"dir/{entry.name}").ino


def test_a_file_ends_the_merge(union: UnionBackend, upper: MemoryBackend) -> None:
    upper.write_bytes("dir", b"a file")
    assert union.read_bytes("dir") == b"a file"
    fails(errno.ENOTDIR, union.stat, "dir/file")
    fails(errno.ENOTDIR, union.scan, "dir")


def test_what_a_lower_file_stands_in_the_way_of_is_missing(
    lower: MemoryBackend, upper: MemoryBackend
) -> None:
    middle = MemoryBackend()
    middle.write_bytes("dir", b"a file")
    upper.make_dir("dir")
    union = UnionBackend([upper, middle, lower])
    fails(errno.ENOENT, union.stat, "dir/file")
    assert names(union, "dir") == []


@pytest.mark.parametrize(
    "change",
    [
        lambda union: union.write_bytes("dir/file", b"new"),
        lambda union: union.open("dir/file", os.O_WRONLY | os.O_TRUNC).close(),
        lambda union: union.set_times("dir/file", 0, 0),
        lambda union: union.set_mode("dir/file", 0o644),
        lambda union: union.set_xattr("dir/file", "user.a", b""),
        lambda union: union.link("dir/file", "other"),
        lambda union: union.write_bytes("dir/new", b""),
        lambda union: union.make_dir("dir/new"),
        lambda union: union.symlink("x", "dir/new"),
    ],
)
def test_changes_go_to_the_first_layer(
    union: UnionBackend, upper: MemoryBackend, lower: MemoryBackend, change: Callable[[UnionBackend], object]
) -> None:
    before = [lower.stat(path) for path in ("", "dir", "dir/file", "link")]
    change(union)
    assert [lower.stat(path) for path in ("", "dir", "dir/file", "link")] == before
    assert lower.read_bytes("dir/file") == b"lower"
    assert names(upper) != []


def test_a_copy_keeps_content_mode_and_times(union: UnionBackend, upper: MemoryBackend) -> None:
    file = union.open("dir/file", os.O_RDWR)
    assert file.pread(10, 0) == b"lower"
    found = upper.stat("dir/file")
    assert stat.S_IMODE(found.mode) == 0o600
    assert (found.atime_ns, found.mtime_ns) == (10**18, 10**18)
    assert stat.S_IMODE(upper.stat("dir").mode) == 0o750
    file.close()
    union.write_bytes("dir/file", b"changed")
    assert stat.S_IMODE(union.stat("dir/file").mode) == 0o600


def test_what_only_a_lower_layer_has_cannot_be_removed(union: UnionBackend) -> None:
    fails(errno.EROFS, union.remove, "dir/file")
    fails(errno.EROFS, union.remove, "link")
    fails(errno.ENOTEMPTY, union.remove_dir, "dir")
    fails(errno.EROFS, union.rename, "dir/file", "moved")
    fails(errno.EEXIST, union.write_bytes, "dir/file", b"", exclusive=True)
    fails(errno.EEXIST, union.open, "dir/file", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    union.write_bytes("new", b"")
    fails(errno.EEXIST, union.rename, "new", "dir/file", RenameFlag.NOREPLACE)
    fails(errno.EROFS, union.rename, "new", "dir/file", RenameFlag.EXCHANGE)


def test_what_was_hidden_shows_again(union: UnionBackend) -> None:
    union.write_bytes("dir/file", b"upper")
    union.remove("dir/file")
    assert union.read_bytes("dir/file") == b"lower"


def test_a_directory_with_a_lower_part_does_not_move(union: UnionBackend) -> None:
    union.write_bytes("dir/new", b"")
    fails(errno.EXDEV, union.rename, "dir", "moved")


def test_a_union_of_nothing_is_empty_and_read_only() -> None:
    union = UnionBackend([])
    assert union.features == Features(writable=False)
    assert union.scan("") == []
    assert stat.S_ISDIR(union.stat("").mode)
    fails(errno.ENOENT, union.stat, "file")
    fails(errno.ENOENT, union.read_bytes, "file")
    fails(errno.EISDIR, union.open, "", os.O_RDONLY)
    fails(errno.EROFS, union.write_bytes, "file", b"")
    fails(errno.EROFS, union.make_dir, "dir")
    fails(errno.EROFS, union.open, "file", os.O_WRONLY | os.O_CREAT)
    assert union.statvfs().blocks == 0
    union.flush()
    union.close()


def test_a_subset_shows_its_names_only() -> None:
    inner = MemoryBackend()
    for name in ("data", "cache", "secret"):
        inner.make_dir(name)
        inner.write_bytes(f"{name}/file", name.encode())
    subset = SubsetBackend(inner, ["data", "cache", "later"])
    assert names(subset) == ["cache", "data"]
    assert subset.read_bytes("data/file") == b"data"
    for path in ("secret", "secret/file", "none"):
        fails(errno.ENOENT, subset.stat, path)
        fails(errno.ENOENT, subset.scan, path)
        fails(errno.ENOENT, subset.read_bytes, path)
        fails(errno.ENOENT, subset.remove, path)
        fails(errno.ENOENT, subset.rename, path, "data/loot")
        fails(errno.ENOENT, subset.link, path, "data/loot")
    fails(errno.ENOENT, subset.write_bytes, "secret/file", b"")
    fails(errno.ENOENT, subset.rename, "data/file", "secret/loot")


def test_a_subset_keeps_its_names() -> None:
    inner = MemoryBackend()
    for name in ("data", "cache", "secret"):
        inner.make_dir(name)
    subset = SubsetBackend(inner, ["data", "cache", "later"])
    for call in (subset.remove, subset.remove_dir):
        fails(errno.EPERM, call, "data")
    fails(errno.EPERM, subset.rename, "data", "cache/data")
    fails(errno.EPERM, subset.rename, "data", "moved")
    fails(errno.EPERM, subset.rename, "data", "cache", RenameFlag.EXCHANGE)
    fails(errno.EPERM, subset.set_mode, "data", 0)
    fails(errno.EPERM, subset.set_owner, "", 0, 0)
    fails(errno.EEXIST, subset.make_dir, "data")
    for name in ("later", "secret", "new"):
        fails(errno.EPERM, subset.make_dir, name)
        fails(errno.EPERM, subset.symlink, "x", name)
        fails(errno.EPERM, subset.write_bytes, name, b"")
        fails(errno.EPERM, subset.open, name, os.O_WRONLY | os.O_CREAT)
    assert names(subset) == ["cache", "data"]


def test_memory_is_as_large_as_it_is_said_to_be() -> None:
    backend = MemoryBackend(capacity=100_000)
    backend.write_bytes("one", bytes(60_000))
    fails(errno.ENOSPC, backend.write_bytes, "two", bytes(60_000))
    assert names(backend) == ["one"]
    file = backend.open("two", os.O_RDWR | os.O_CREAT)
    file.truncate(1 << 50)
    fails(errno.ENOSPC, file.pwrite, bytes(70_000), 0)
    backend.remove("one")
    file.pwrite(bytes(70_000), 0)
    backend.remove("two")
    assert backend.statvfs().bfree < backend.statvfs().blocks
    file.close()
    assert backend.statvfs().bfree == backend.statvfs().blocks
