"""What making, removing and renaming do."""
# ruff: noqa: D102, S101 -- tests: the name says it

import errno
import os
import stat

from vfs.kernel.ports import Backend, RenameFlag
from vfs_backends.contract.base import Contract, fails


class NamesContract(Contract):
    """Tests of the methods that change directories."""

    def test_make_and_remove_directories(self, backend: Backend) -> None:
        backend.make_dir("dir")
        backend.make_dir("dir/below")
        fails(errno.EEXIST, backend.make_dir, "dir")
        fails(errno.EEXIST, backend.make_dir, "")
        fails(errno.ENOTEMPTY, backend.remove_dir, "dir")
        backend.remove_dir("dir/below")
        backend.remove_dir("dir")
        assert backend.scan("") == []
        fails(errno.EBUSY, backend.remove_dir, "")

    def test_make_an_empty_file(self, backend: Backend) -> None:
        backend.make_node("file", stat.S_IFREG | 0o644)
        assert backend.read_bytes("file") == b""
        fails(errno.EEXIST, backend.make_node, "file", stat.S_IFREG | 0o644)

    def test_special_nodes_are_made_and_never_waited_for(self, backend: Backend) -> None:
        self.need(backend, "special_nodes")
        for kind, name in ((stat.S_IFIFO, "fifo"), (stat.S_IFSOCK, "socket")):
            backend.make_node(name, kind | 0o666)
            assert backend.stat(name).mode == kind | 0o666
            fails(errno.ENXIO, backend.read_bytes, name)
            fails(errno.ENXIO, backend.write_bytes, name, b"")
            for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_CREAT):
                fails(errno.ENXIO, backend.open, name, flags)
        assert {entry.type for entry in backend.scan("")} == {stat.S_IFIFO, stat.S_IFSOCK}
        fails(errno.EPERM, backend.make_node, "device", stat.S_IFCHR | 0o666)

    def test_rename_moves(self, backend: Backend) -> None:
        backend.make_dir("dir")
        backend.write_bytes("file", b"x")
        backend.rename("file", "dir/file")
        backend.rename("dir", "other")
        assert backend.read_bytes("other/file") == b"x"
        assert [entry.name for entry in backend.scan("")] == ["other"]
        backend.rename("other/file", "other/file")
        backend.rename("other", "other")
        assert backend.read_bytes("other/file") == b"x"
        fails(errno.EEXIST, backend.rename, "other", "other", RenameFlag.NOREPLACE)

    def test_rename_replaces_only_its_like(self, backend: Backend) -> None:
        for name in ("empty", "full", "dir"):
            backend.make_dir(name)
        backend.write_bytes("full/file", b"")
        backend.write_bytes("file", b"new")
        fails(errno.EISDIR, backend.rename, "file", "empty")
        fails(errno.ENOTDIR, backend.rename, "dir", "file")
        fails(errno.ENOTEMPTY, backend.rename, "dir", "full")
        fails(errno.ENOTEMPTY, backend.rename, "full/file", "full")
        backend.rename("dir", "empty")
        backend.rename("file", "full/file")
        assert backend.read_bytes("full/file") == b"new"
        assert sorted(entry.name for entry in backend.scan("")) == ["empty", "full"]

    def test_rename_into_itself_is_einval(self, backend: Backend) -> None:
        backend.make_dir("dir")
        backend.make_dir("dir/below")
        fails(errno.EINVAL, backend.rename, "dir", "dir/below/dir")
        fails(errno.EINVAL, backend.rename, "dir", "dir/dir")
        fails(errno.EBUSY, backend.rename, "", "dir/root")

    def test_rename_without_replacing(self, backend: Backend) -> None:
        backend.write_bytes("one", b"1")
        backend.write_bytes("two", b"2")
        fails(errno.EEXIST, backend.rename, "one", "two", RenameFlag.NOREPLACE)
        backend.rename("one", "three", RenameFlag.NOREPLACE)
        assert backend.read_bytes("three") == b"1"
        assert backend.read_bytes("two") == b"2"

    def test_exchange_swaps_or_is_enotsup(self, backend: Backend) -> None:
        backend.write_bytes("file", b"f")
        backend.make_dir("dir")
        backend.write_bytes("dir/below", b"b")
        if not backend.features.atomic_rename:
            fails(errno.ENOTSUP, backend.rename, "file", "dir", RenameFlag.EXCHANGE)
            assert backend.read_bytes("file") == b"f"
            return
        backend.rename("file", "dir", RenameFlag.EXCHANGE)
        assert backend.read_bytes("dir") == b"f"
        assert backend.read_bytes("file/below") == b"b"
        fails(errno.ENOENT, backend.rename, "file", "none", RenameFlag.EXCHANGE)
        fails(errno.EINVAL, backend.rename, "file", "file/below", RenameFlag.EXCHANGE)
        fails(errno.EINVAL, backend.rename, "file/below", "file", RenameFlag.EXCHANGE)
