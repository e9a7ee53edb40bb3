"""What `stat`, `scan` and paths do."""
# ruff: noqa: D102, S101 -- tests: the name says it

import errno
import os
import stat

import pytest

from vfs.kernel.ports import Backend, BackendFile, Features
from vfs_backends.contract.base import NOT_UTF8, Contract, fails


class LookingContract(Contract):
    """Tests of the methods that only look."""

    def test_has_the_shape(self, backend: Backend) -> None:
        backend.write_bytes("file", b"")
        file = backend.open("file", os.O_RDONLY)
        assert isinstance(backend, Backend)
        assert isinstance(file, BackendFile)
        assert isinstance(backend.features, Features)
        assert backend.features == backend.features
        file.close()

    def test_a_new_backend_is_an_empty_directory(self, backend: Backend) -> None:
        assert backend.scan("") == []
        assert stat.S_ISDIR(backend.stat("").mode)

    def test_stat_of_a_file(self, backend: Backend) -> None:
        backend.write_bytes("file", b"12345")
        found = backend.stat("file")
        assert stat.S_ISREG(found.mode)
        assert stat.S_IMODE(found.mode) == 0o644
        assert (found.size, found.nlink) == (5, 1)
        assert 0 < found.created_ns <= max(found.mtime_ns, found.ctime_ns)
        assert backend.stat("file").ino == found.ino

    def test_nothing_there_is_enoent(self, backend: Backend) -> None:
        fails(errno.ENOENT, backend.stat, "none")
        fails(errno.ENOENT, backend.stat, "none/below")
        fails(errno.ENOENT, backend.scan, "none")
        fails(errno.ENOENT, backend.open, "none", os.O_RDONLY)
        fails(errno.ENOENT, backend.open, "none/below", os.O_WRONLY | os.O_CREAT)
        fails(errno.ENOENT, backend.read_bytes, "none")
        fails(errno.ENOENT, backend.write_bytes, "none/below", b"")
        fails(errno.ENOENT, backend.make_dir, "none/below")
        fails(errno.ENOENT, backend.remove, "none")
        fails(errno.ENOENT, backend.remove_dir, "none")
        fails(errno.ENOENT, backend.rename, "none", "other")
        fails(errno.ENOENT, backend.read_link, "none")
        fails(errno.ENOENT, backend.set_times, "none", 0, 0)
        fails(errno.ENOENT, backend.fingerprint, "none")

    def test_a_file_in_the_middle_is_enotdir(self, backend: Backend) -> None:
        backend.write_bytes("file", b"")
        fails(errno.ENOTDIR, backend.stat, "file/below")
        fails(errno.ENOTDIR, backend.scan, "file")
        fails(errno.ENOTDIR, backend.open, "file/below", os.O_RDONLY)
        fails(errno.ENOTDIR, backend.open, "file/below", os.O_WRONLY | os.O_CREAT)
        fails(errno.ENOTDIR, backend.read_bytes, "file/below")
        fails(errno.ENOTDIR, backend.write_bytes, "file/below", b"")
        fails(errno.ENOTDIR, backend.make_dir, "file/below")
        fails(errno.ENOTDIR, backend.remove, "file/below")
        fails(errno.ENOTDIR, backend.remove_dir, "file")

    def test_scan_gives_name_inode_and_type(self, backend: Backend) -> None:
        backend.make_dir("dir")
        backend.write_bytes("dir/file", b"x")
        backend.make_dir("dir/below")
        entries = {entry.name: entry for entry in backend.scan("dir")}
        assert set(entries) == {"file", "below"}
        assert entries["file"].type == stat.S_IFREG
        assert entries["below"].type == stat.S_IFDIR
        for name, entry in entries.items():
            assert entry.ino == backend.stat(f"dir/{name}").ino

    def test_names_are_bytes(self, backend: Backend) -> None:
        for name in (NOT_UTF8, "n" * 255, "ö" * 127, " lead", "a\nb", "☭", ".hidden", "..."):
            backend.write_bytes(name, name.encode("utf-8", "surrogateescape"))
            assert [entry.name for entry in backend.scan("")] == [name]
            assert backend.read_bytes(name) == os.fsencode(name)
            backend.rename(name, "short")
            backend.rename("short", name)
            backend.remove(name)
        backend.make_dir(NOT_UTF8)
        backend.write_bytes(f"{NOT_UTF8}/{NOT_UTF8}", b"x")
        assert backend.read_bytes(f"{NOT_UTF8}/{NOT_UTF8}") == b"x"

    def test_a_path_never_climbs(self, backend: Backend) -> None:
        backend.make_dir("dir")
        for path in ("..", "../x", "dir/../../x", "dir/..", "/etc/passwd"):
            with pytest.raises(OSError):  # noqa: PT011 (which one is the backend's choice: the kernel never asks)
                backend.read_bytes(path)
            with pytest.raises(OSError):  # noqa: PT011 (see above)
                backend.scan(path)
