"""What whole files and open files do."""
# ruff: noqa: D102, S101 -- tests: the name says it

import errno
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor

from vfs.kernel.ports import Backend
from vfs_backends.contract.base import THREADS, Contract, fails


class FilesContract(Contract):
    """Tests of `read_bytes`, `write_bytes`, `open` and what it returns."""

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
        barrier = threading.Barrier(THREADS)

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

        with ThreadPoolExecutor(THREADS) as pool:
            for round_ in range(20):
                assert sum(pool.map(create, [f"opened {round_}"] * THREADS)) == 1
                assert sum(pool.map(write, [f"written {round_}"] * THREADS)) == 1

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
        files = [backend.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND) for _ in range(THREADS)]

        def append(number: int) -> None:
            for line in range(50):
                files[number].pwrite(b"%d %02d\n" % (number, line), 0)

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(append, range(THREADS)))
        for file in files:
            file.close()
        lines = backend.read_bytes("log").splitlines()
        assert sorted(lines) == [b"%d %02d" % (n, line) for n in range(THREADS) for line in range(50)]

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
