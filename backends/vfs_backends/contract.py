"""The suite that every backend passes, for pytest; each test is a sentence of `vfs.kernel.ports`.

    from vfs_backends.contract import BackendContract

    class TestMine(BackendContract):
        def make(self, directory):
            return MyBackend(directory)

`make` gets a fresh directory and returns an empty backend; `destroy` closes it, and may do more. A test is
skipped only for what `Features` says is lacking, and then there is one that sees it refused. Needs pytest
and hypothesis; nothing in the package imports this module.
"""
# ruff: noqa: D102, S101 -- tests: the name says it

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from vfs.kernel.ports import Backend, BackendFile, Features, RenameFlag
from vfs_backends.contract_model import run_model

__all__ = ["BackendContract"]

_NOT_UTF8 = os.fsdecode(b"\xff\xfe name")
_THREADS = 8


def fails(number: int, call: Callable[..., object], *args: Any, **options: Any) -> None:
    """Assert that the call raises OSError with this errno."""
    with pytest.raises(OSError) as caught:  # noqa: PT011 (the errno is what is checked)
        call(*args, **options)
    expected, got = errno.errorcode[number], errno.errorcode.get(caught.value.errno or 0)
    assert got == expected, f"{getattr(call, '__name__', call)}{args}: {got} instead of {expected}"


class BackendContract:
    """Subclass it and implement `make`; see the module."""

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

    # Shape

    def test_has_the_shape(self, backend: Backend) -> None:
        backend.write_bytes("file", b"")
        file = backend.open("file", os.O_RDONLY)
        assert isinstance(backend, Backend)
        assert isinstance(file, BackendFile)
        assert isinstance(backend.features, Features)
        assert backend.features == backend.features
        file.close()

    # Looking

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
        for name in (_NOT_UTF8, "n" * 255, "ö" * 127, " lead", "a\nb", "☭", ".hidden", "..."):
            backend.write_bytes(name, name.encode("utf-8", "surrogateescape"))
            assert [entry.name for entry in backend.scan("")] == [name]
            assert backend.read_bytes(name) == os.fsencode(name)
            backend.rename(name, "short")
            backend.rename("short", name)
            backend.remove(name)
        backend.make_dir(_NOT_UTF8)
        backend.write_bytes(f"{_NOT_UTF8}/{_NOT_UTF8}", b"x")
        assert backend.read_bytes(f"{_NOT_UTF8}/{_NOT_UTF8}") == b"x"

    def test_a_path_never_climbs(self, backend: Backend) -> None:
        backend.make_dir("dir")
        for path in ("..", "../x", "dir/../../x", "dir/..", "/etc/passwd"):
            with pytest.raises(OSError):  # noqa: PT011 (which one is the backend's choice: the kernel never asks)
                backend.read_bytes(path)
            with pytest.raises(OSError):  # noqa: PT011 (see above)
                backend.scan(path)

    # Files

    def test_write_and_read_bytes(self, backend: Backend) -> None:
        for data in (b"", b"x", bytes(range(256)) * 1000):
            backend.write_bytes("file", data)
            assert backend.read_bytes("file") == data
            assert backend.stat("file").size == len(data)

    def test_write_bytes_exclusive_leaves_what_is_there(self, backend: Backend) -> None:
        backend.write_bytes("file", b"first", exclusive=True)
        fails(errno.EEXIST, backend.write_bytes, "file", b"second", exclusive=True)
        backend.make_dir("dir")
        fails(errno.EEXIST, backend.write_bytes, "dir", b"", exclusive=True)
        assert backend.read_bytes("file") == b"first"
        assert sorted(entry.name for entry in backend.scan("")) == ["dir", "file"]

    def test_write_bytes_keeps_the_mode(self, backend: Backend) -> None:
        self.need(backend, "modes")
        backend.open("file", os.O_WRONLY | os.O_CREAT, 0o750).close()
        backend.write_bytes("file", b"new")
        assert stat.S_IMODE(backend.stat("file").mode) == 0o750

    def test_write_bytes_is_all_or_nothing(self, backend: Backend) -> None:
        contents = [bytes([letter]) * 50_000 for letter in b"ab"]
        backend.write_bytes("file", contents[0])
        stop = threading.Event()

        def write() -> None:
            for turn in range(100):
                backend.write_bytes("file", contents[turn % 2])
            stop.set()

        seen = set()
        with ThreadPoolExecutor() as pool:
            writing = pool.submit(write)
            while not stop.is_set() and not writing.done():
                seen.add(backend.read_bytes("file"))
                assert [entry.name for entry in backend.scan("")] == ["file"]
            writing.result()
        assert seen <= set(contents)

    def test_a_directory_is_no_file(self, backend: Backend) -> None:
        backend.make_dir("dir")
        for path in ("dir", ""):
            fails(errno.EISDIR, backend.read_bytes, path)
            fails(errno.EISDIR, backend.open, path, os.O_RDONLY)
            fails(errno.EISDIR, backend.open, path, os.O_RDWR)
            fails(errno.EISDIR, backend.open, path, os.O_RDWR | os.O_CREAT)
            fails(errno.EISDIR, backend.remove, path)
        fails(errno.EISDIR, backend.write_bytes, "dir", b"")

    def test_open_creates_only_when_asked(self, backend: Backend) -> None:
        backend.open("file", os.O_RDWR | os.O_CREAT).close()
        assert backend.stat("file").size == 0
        backend.write_bytes("file", b"kept")
        backend.open("file", os.O_RDWR | os.O_CREAT).close()
        assert backend.read_bytes("file") == b"kept"
        fails(errno.EEXIST, backend.open, "file", os.O_RDWR | os.O_CREAT | os.O_EXCL)
        backend.make_dir("dir")
        fails(errno.EEXIST, backend.open, "dir", os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def test_open_truncates_only_when_asked(self, backend: Backend) -> None:
        backend.write_bytes("file", b"content")
        backend.open("file", os.O_WRONLY).close()
        assert backend.read_bytes("file") == b"content"
        backend.open("file", os.O_WRONLY | os.O_TRUNC).close()
        assert backend.read_bytes("file") == b""

    def test_modes_are_exact(self, backend: Backend) -> None:
        self.need(backend, "modes")
        for mode in (0o666, 0o600, 0o777, 0o4755):
            backend.open("file", os.O_WRONLY | os.O_CREAT, mode).close()
            backend.make_dir("dir", mode & 0o777)
            backend.make_node("node", mode)
            assert stat.S_IMODE(backend.stat("file").mode) == mode
            assert stat.S_IMODE(backend.stat("dir").mode) == mode & 0o777
            assert stat.S_IMODE(backend.stat("node").mode) == mode
            backend.remove("file")
            backend.remove("node")
            backend.remove_dir("dir")

    def test_exclusive_create_has_one_winner(self, backend: Backend) -> None:
        barrier = threading.Barrier(_THREADS)

        def create(name: str) -> bool:
            barrier.wait()
            try:
                backend.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL).close()
            except FileExistsError:
                return False
            return True

        def write(name: str) -> bool:
            barrier.wait()
            try:
                backend.write_bytes(name, b"x", exclusive=True)
            except FileExistsError:
                return False
            return True

        with ThreadPoolExecutor(_THREADS) as pool:
            for round_ in range(20):
                assert sum(pool.map(create, [f"opened {round_}"] * _THREADS)) == 1
                assert sum(pool.map(write, [f"written {round_}"] * _THREADS)) == 1

    def test_reads_and_writes_are_positional(self, backend: Backend) -> None:
        file = backend.open("file", os.O_RDWR | os.O_CREAT)
        assert file.pwrite(b"world", 6) == 5
        assert file.pwrite(b"hello ", 0) == 6
        assert file.pread(5, 6) == b"world"
        assert file.pread(100, 0) == b"hello world"
        assert file.pread(100, 9) == b"ld"
        assert file.pread(100, 11) == b""
        assert file.pread(100, 1000) == b""
        assert file.pread(0, 0) == b""
        file.truncate(5)
        assert file.pread(100, 0) == b"hello"
        file.close()
        assert backend.read_bytes("file") == b"hello"

    def test_access_is_what_was_asked(self, backend: Backend) -> None:
        backend.write_bytes("file", b"x")
        reader = backend.open("file", os.O_RDONLY)
        fails(errno.EBADF, reader.pwrite, b"y", 0)
        fails(errno.EINVAL, reader.truncate, 0)
        reader.close()
        writer = backend.open("file", os.O_WRONLY)
        fails(errno.EBADF, writer.pread, 1, 0)
        writer.close()
        assert backend.read_bytes("file") == b"x"

    def test_a_closed_file_is_closed(self, backend: Backend) -> None:
        file = backend.open("file", os.O_RDWR | os.O_CREAT)
        file.close()
        file.close()
        fails(errno.EBADF, file.pread, 1, 0)
        fails(errno.EBADF, file.pwrite, b"x", 0)

    def test_handles_share_the_content(self, backend: Backend) -> None:
        one = backend.open("file", os.O_RDWR | os.O_CREAT)
        two = backend.open("file", os.O_RDWR)
        one.pwrite(b"from one", 0)
        assert two.pread(100, 0) == b"from one"
        two.truncate(4)
        assert one.stat().size == 4
        one.close()
        two.close()

    def test_appends_from_several_handles_all_stay(self, backend: Backend) -> None:
        files = [backend.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND) for _ in range(_THREADS)]

        def append(number: int) -> None:
            for line in range(50):
                files[number].pwrite(b"%d %02d\n" % (number, line), 0)

        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(append, range(_THREADS)))
        for file in files:
            file.close()
        lines = backend.read_bytes("log").splitlines()
        assert sorted(lines) == [b"%d %02d" % (n, line) for n in range(_THREADS) for line in range(50)]

    def test_holes_read_as_zeros(self, backend: Backend) -> None:
        file = backend.open("file", os.O_RDWR | os.O_CREAT)
        file.pwrite(b"end", 200_000)
        assert file.pread(4, 199_998) == b"\0\0en"
        assert file.pread(100_000, 50_000) == bytes(100_000)
        file.truncate(self.sparse_size)
        assert file.stat().size == self.sparse_size
        assert file.pread(16, self.sparse_size - 8) == bytes(8)
        assert file.pread(1 << 16, self.sparse_size // 2) == bytes(1 << 16)
        file.truncate(200_001)
        assert file.pread(8, 199_998) == b"\0\0e"
        file.truncate(200_003)
        assert file.pread(8, 199_998) == b"\0\0e\0\0"
        file.close()

    def test_the_result_bounds_the_memory(self, backend: Backend) -> None:
        backend.write_bytes("file", b"short")
        file = backend.open("file", os.O_RDONLY)
        assert file.pread(1 << 50, 2) == b"ort"
        file.close()

    def test_an_open_file_outlives_its_name(self, backend: Backend) -> None:
        backend.write_bytes("file", b"content")
        file = backend.open("file", os.O_RDWR)
        backend.remove("file")
        fails(errno.ENOENT, backend.stat, "file")
        file.pwrite(b"C", 0)
        assert file.pread(100, 0) == b"Content"
        assert file.stat().nlink == 0
        assert file.stat().size == 7
        backend.write_bytes("file", b"another")
        assert file.pread(100, 0) == b"Content"
        file.close()
        assert backend.read_bytes("file") == b"another"

    def test_an_open_file_follows_its_name(self, backend: Backend) -> None:
        backend.make_dir("dir")
        backend.write_bytes("dir/file", b"one")
        file = backend.open("dir/file", os.O_RDWR)
        backend.rename("dir/file", "dir/moved")
        file.pwrite(b"1", 0)
        backend.rename("dir", "other")
        file.pwrite(b"2", 1)
        assert file.stat().nlink == 1
        file.close()
        assert backend.read_bytes("other/moved") == b"12e"

    def test_rename_onto_an_open_file(self, backend: Backend) -> None:
        backend.write_bytes("old", b"old")
        backend.write_bytes("new", b"new")
        file = backend.open("old", os.O_RDONLY)
        backend.rename("new", "old")
        assert file.pread(10, 0) == b"old"
        assert file.stat().nlink == 0
        file.close()
        assert backend.read_bytes("old") == b"new"
        assert [entry.name for entry in backend.scan("")] == ["old"]

    def test_sync_and_flush_return(self, backend: Backend) -> None:
        file = backend.open("file", os.O_RDWR | os.O_CREAT)
        file.pwrite(b"x", 0)
        file.sync(data_only=True)
        file.sync(data_only=False)
        backend.flush()
        file.close()
        assert backend.read_bytes("file") == b"x"

    def test_fileno_is_the_very_file(self, backend: Backend) -> None:
        file = backend.open("file", os.O_RDWR | os.O_CREAT)
        file.pwrite(b"content", 0)
        descriptor = file.fileno()
        assert descriptor is None or os.pread(descriptor, 100, 0) == b"content"
        file.close()

    # Names

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
        assert backend.read_bytes("other/file") == b"x"

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

    # Links

    def test_hard_links_are_one_file(self, backend: Backend) -> None:
        self.need(backend, "hard_links")
        backend.write_bytes("one", b"x")
        backend.make_dir("dir")
        backend.link("one", "dir/two")
        one, two = backend.stat("one"), backend.stat("dir/two")
        assert (one.ino, one.nlink) == (two.ino, 2)
        file = backend.open("one", os.O_WRONLY)
        file.pwrite(b"y", 0)
        file.close()
        assert backend.read_bytes("dir/two") == b"y"
        backend.rename("one", "dir/two")  # POSIX: both are the same file, so nothing happens
        assert backend.stat("one").nlink == 2
        backend.remove("one")
        assert backend.stat("dir/two").nlink == 1
        assert backend.stat("dir/two").ino == one.ino
        fails(errno.EPERM, backend.link, "dir", "three")
        fails(errno.EEXIST, backend.link, "dir/two", "dir")
        fails(errno.ENOENT, backend.link, "one", "three")

    def test_a_rename_keeps_the_inode(self, backend: Backend) -> None:
        self.need(backend, "hard_links")
        backend.write_bytes("one", b"x")
        ino = backend.stat("one").ino
        backend.rename("one", "two")
        assert backend.stat("two").ino == ino

    def test_no_hard_links_is_enotsup(self, backend: Backend) -> None:
        backend.write_bytes("file", b"")
        if not backend.features.hard_links:
            fails(errno.ENOTSUP, backend.link, "file", "other")

    def test_a_link_is_text(self, backend: Backend) -> None:
        self.need(backend, "symlinks")
        for text in ("target", "/etc/passwd", "../../outside", _NOT_UTF8, "loop", "x" * 1000):
            backend.symlink(text, "loop")
            assert backend.read_link("loop") == text
            found = backend.stat("loop")
            assert stat.S_ISLNK(found.mode)
            assert found.size == len(os.fsencode(text))
            assert [entry.type for entry in backend.scan("")] == [stat.S_IFLNK]
            fails(errno.EEXIST, backend.symlink, "other", "loop")
            backend.remove("loop")
        backend.write_bytes("file", b"")
        fails(errno.EINVAL, backend.read_link, "file")
        fails(errno.EINVAL, backend.read_link, "")

    def test_no_link_is_ever_followed(self, backend: Backend) -> None:
        self.need(backend, "symlinks")
        backend.make_dir("dir")
        backend.write_bytes("dir/file", b"x")
        backend.symlink("dir", "to dir")
        backend.symlink("dir/file", "to file")
        backend.symlink("none", "to none")
        for path in ("to dir/file", "to file", "to none"):
            fails(errno.ELOOP, backend.read_bytes, path)
            fails(errno.ELOOP, backend.write_bytes, path, b"")
            for flags in (os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_TRUNC):
                fails(errno.ELOOP, backend.open, path, flags)
        fails(errno.EEXIST, backend.open, "to none", os.O_RDWR | os.O_CREAT | os.O_EXCL)
        fails(errno.EEXIST, backend.make_dir, "to none")
        fails(errno.ELOOP, backend.open, "to dir", os.O_RDONLY)
        fails(errno.ELOOP, backend.scan, "to dir")
        fails(errno.ENOTDIR, backend.remove_dir, "to dir")
        for call in (backend.stat, backend.remove, backend.read_link, backend.make_dir, backend.remove_dir):
            fails(errno.ELOOP, call, "to dir/file")
        fails(errno.ELOOP, backend.rename, "to dir/file", "moved")
        fails(errno.ELOOP, backend.rename, "dir/file", "to dir/moved")
        fails(errno.ELOOP, backend.link, "to dir/file", "moved")
        fails(errno.ELOOP, backend.symlink, "x", "to dir/link")
        fails(errno.ELOOP, backend.set_mode, "to dir/file", 0o600)
        fails(errno.ELOOP, backend.set_times, "to dir/file", 0, 0)
        assert backend.read_bytes("dir/file") == b"x"
        assert [entry.name for entry in backend.scan("dir")] == ["file"]

    def test_names_of_links_change_like_others(self, backend: Backend) -> None:
        self.need(backend, "symlinks")
        backend.make_dir("dir")
        backend.symlink("dir", "link")
        backend.rename("link", "dir/link")
        assert backend.read_link("dir/link") == "dir"
        backend.write_bytes("file", b"x")
        backend.rename("file", "dir/link")
        assert backend.read_bytes("dir/link") == b"x"

    def test_no_symlinks_is_enotsup(self, backend: Backend) -> None:
        if not backend.features.symlinks:
            fails(errno.ENOTSUP, backend.symlink, "target", "link")

    # Metadata

    def test_times_are_set_or_left(self, backend: Backend) -> None:
        self.need(backend, "writable")
        first, second = 1_500_000_000_123_456_789, 1_600_000_000_987_654_321
        backend.write_bytes("file", b"")
        backend.make_dir("dir")
        file = backend.open("file", os.O_RDWR)
        for call in (
            lambda atime, mtime: backend.set_times("file", atime, mtime),
            file.set_times,
        ):
            call(first, second)
            self.near(backend.stat("file"), first, second)
            call(second, None)
            self.near(backend.stat("file"), second, second)
            call(None, first)
            self.near(backend.stat("file"), second, first)
            call(None, None)
            self.near(backend.stat("file"), second, first)
        file.close()
        backend.set_times("dir", first, second)
        self.near(backend.stat("dir"), first, second)

    def near(self, found: Any, atime_ns: int, mtime_ns: int) -> None:
        """Assert the times of a Stat, as fine as the storage keeps them."""
        assert abs(found.atime_ns - atime_ns) < self.time_resolution_ns
        assert abs(found.mtime_ns - mtime_ns) < self.time_resolution_ns

    def test_times_of_a_link_are_its_own(self, backend: Backend) -> None:
        self.need(backend, "symlinks")
        backend.write_bytes("file", b"")
        before = backend.stat("file")
        backend.symlink("file", "link")
        backend.set_times("link", 10**18, 10**18)
        assert backend.stat("link").mtime_ns == 10**18
        assert backend.stat("file").mtime_ns == before.mtime_ns

    def test_modes_are_set(self, backend: Backend) -> None:
        self.need(backend, "modes")
        backend.make_dir("dir")
        backend.write_bytes("file", b"")
        backend.set_mode("file", 0o400)
        backend.set_mode("dir", 0o1700)
        assert backend.stat("file").mode == stat.S_IFREG | 0o400
        assert backend.stat("dir").mode == stat.S_IFDIR | 0o1700
        backend.set_mode("file", 0o640)
        file = backend.open("file", os.O_RDWR)
        file.set_mode(0o604)
        file.close()
        assert stat.S_IMODE(backend.stat("file").mode) == 0o604
        if backend.features.symlinks:
            backend.symlink("file", "link")
            fails(errno.ENOTSUP, backend.set_mode, "link", 0o600)
            assert stat.S_IMODE(backend.stat("file").mode) == 0o604

    def test_no_modes_is_enotsup(self, backend: Backend) -> None:
        backend.write_bytes("file", b"")
        backend.make_dir("dir")
        if not backend.features.modes:
            fails(errno.ENOTSUP, backend.set_mode, "file", 0o600)
            assert stat.S_IMODE(backend.stat("file").mode) == 0o644
            assert stat.S_IMODE(backend.stat("dir").mode) == 0o755

    def test_owners_are_kept(self, backend: Backend) -> None:
        backend.write_bytes("file", b"")
        found = backend.stat("file")
        if not backend.features.owners:
            fails(errno.ENOTSUP, backend.set_owner, "file", 0, 0)
            return
        backend.set_owner("file", -1, -1)
        backend.set_owner("file", found.uid, found.gid)
        assert backend.stat("file")[4:6] == (found.uid, found.gid)
        if os.geteuid() == 0:
            backend.set_owner("file", 1234, -1)
            assert backend.stat("file")[4:6] == (1234, found.gid)

    def test_extended_attributes(self, backend: Backend) -> None:
        self.need(backend, "xattrs")
        backend.write_bytes("file", b"")
        backend.make_dir("dir")
        for path in ("file", "dir"):
            assert backend.list_xattrs(path) == []
            fails(errno.ENODATA, backend.get_xattr, path, "user.a")
            fails(errno.ENODATA, backend.set_xattr, path, "user.a", b"", os.XATTR_REPLACE)
            backend.set_xattr(path, "user.a", b"1", os.XATTR_CREATE)
            fails(errno.EEXIST, backend.set_xattr, path, "user.a", b"2", os.XATTR_CREATE)
            backend.set_xattr(path, "user.a", b"\0\xff", os.XATTR_REPLACE)
            backend.set_xattr(path, "user.b", b"")
            assert backend.get_xattr(path, "user.a") == b"\0\xff"
            assert backend.get_xattr(path, "user.b") == b""
            assert sorted(backend.list_xattrs(path)) == ["user.a", "user.b"]
            backend.remove_xattr(path, "user.a")
            fails(errno.ENODATA, backend.remove_xattr, path, "user.a")
            assert backend.list_xattrs(path) == ["user.b"]
        if backend.features.symlinks:
            backend.symlink("file", "link")
            assert backend.list_xattrs("link") == []
            fails(errno.ENODATA, backend.get_xattr, "link", "user.b")

    def test_no_extended_attributes_is_enotsup(self, backend: Backend) -> None:
        backend.write_bytes("file", b"")
        if not backend.features.xattrs:
            fails(errno.ENOTSUP, backend.get_xattr, "file", "user.a")
            fails(errno.ENOTSUP, backend.set_xattr, "file", "user.a", b"")
            fails(errno.ENOTSUP, backend.list_xattrs, "file")
            fails(errno.ENOTSUP, backend.remove_xattr, "file", "user.a")

    def test_the_fingerprint_changes_with_the_content(self, backend: Backend) -> None:
        backend.write_bytes("file", b"1")
        first = backend.fingerprint("file")
        assert backend.fingerprint("file") == first
        backend.write_bytes("file", b"22")
        second = backend.fingerprint("file")
        file = backend.open("file", os.O_WRONLY)
        file.pwrite(b"333", 0)
        file.close()
        assert len({first, second, backend.fingerprint("file")}) == 3

    def test_statvfs_adds_up(self, backend: Backend) -> None:
        space = backend.statvfs()
        assert space.bsize > 0
        assert space.bavail <= space.bfree <= space.blocks
        assert space.namemax >= 255

    # The whole

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

        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(work, range(_THREADS)))
        assert len(backend.scan("shared")) == _THREADS * 10

    def test_behaves_as_a_dictionary_of_paths(self, tmp_path: Path) -> None:
        numbers = iter(range(1 << 30))

        def make() -> Backend:
            directory = tmp_path / f"storage{next(numbers)}"
            directory.mkdir()
            return self.make(directory)

        run_model(make, self.destroy)
