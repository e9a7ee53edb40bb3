"""What `BackendFS` and `FsBackend` do beyond what PyFilesystem2's own cases see."""

import errno
import io
import os
import stat
import threading
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from vfs.kernel import errors as kernel
from vfs.kernel.ports import Backend, BackendFile
from vfs_backends.contract import fails
from vfs_backends.fs_compat import FS, OSFS, TempFS, errors
from vfs_backends.fs_errors import as_fs_error, as_os_error
from vfs_backends.memory import MemoryBackend
from vfs_backends.pyfilesystem import FsBackend
from vfs_backends.view import BackendFS


@pytest.fixture
def fs() -> BackendFS:
    return BackendFS(MemoryBackend())


def test_links_are_shown_and_copied_as_links(fs: BackendFS) -> None:
    fs.makedirs("dir/below")
    fs._backend.symlink("../secret", "dir/below/link")
    info = next(iter(fs.scandir("dir/below", ["link", "details"])))
    assert info.is_link
    assert info.target == "../secret"
    assert fs.islink("dir/below/link")
    fs.copydir("dir", "copy", create=True)
    assert fs._backend.read_link("copy/below/link") == "../secret"
    fs.movedir("copy", "moved", create=True)
    assert fs._backend.read_link("moved/below/link") == "../secret"
    assert not fs.exists("copy")
    fs.move("moved/below/link", "link")
    assert fs.islink("link")
    with pytest.raises(errors.ResourceInvalid):
        fs.readbytes("link")


def test_a_tree_does_not_move_into_itself(fs: BackendFS) -> None:
    fs.makedirs("dir/below")
    for call in (fs.movedir, fs.copydir):
        with pytest.raises(errors.InvalidPath):
            call("dir", "dir/below")
    assert fs.exists("dir/below")


def test_a_base_path_is_the_root(fs: BackendFS) -> None:
    fs.makedirs("base/dir")
    view = BackendFS(fs._backend, "base")
    view.writetext("dir/file", "x")
    assert fs.readtext("base/dir/file") == "x"
    assert view.getinfo("/").name == ""
    assert [path for path, _ in view.walk.info()] == ["/dir", "/dir/file"]
    with pytest.raises(errors.IllegalBackReference):
        view.readtext("../secret")
    view.removetree("/")
    assert view.listdir("/") == []
    assert fs.exists("base")


def test_there_is_no_way_around_the_backend(fs: BackendFS) -> None:
    fs.writetext("file", "x")
    assert not fs.hassyspath("file")
    assert not fs.hasurl("file")
    with fs.openbin("file") as file, pytest.raises(io.UnsupportedOperation):
        file.fileno()


def test_writing_at_any_place(fs: BackendFS) -> None:
    with fs.openbin("file", "w+") as file:
        file.write(b"hello world")
        file.seek(-5, os.SEEK_END)
        file.write(b"W")
        file.seek(0)
        assert file.read() == b"hello World"
        with pytest.raises(ValueError, match="negative"):
            file.seek(-1)
    with fs.openbin("file", "a+") as file:
        assert file.tell() == 11
        file.seek(0)
        file.write(b"!")
        file.flush()
        assert file.tell() == 12
    assert fs.readbytes("file") == b"hello World!"


def test_permissions_and_owners_are_set(fs: BackendFS) -> None:
    fs.touch("file")
    fs.setinfo("file", {"access": {"permissions": ["u_r", "g_r"], "uid": 7}})
    info = fs.getinfo("file", ["access", "stat", "lstat"])
    assert info.permissions is not None
    assert info.permissions.mode == 0o440
    assert (info.uid, info.raw["lstat"]["st_uid"]) == (7, 7)
    assert info.raw["stat"]["st_mode"] == stat.S_IFREG | 0o440


class Refusing(MemoryBackend):
    """Refuses to write as the kernel would, with errors that are no OSError."""

    def write_bytes(self, path: str, data: bytes, *, exclusive: bool = False) -> None:
        raise kernel.QuotaExceededError("full", path)

    def open(self, path: str, flags: int, mode: int = 0o666) -> Any:
        return RefusingFile(super().open(path, flags, mode))


class RefusingFile:
    def __init__(self, file: BackendFile) -> None:
        self._file = file

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def pwrite(self, data: bytes, offset: int) -> int:
        raise kernel.QuotaExceededError("full")


def test_errors_of_the_kernel_become_errors_of_fs() -> None:
    fs = BackendFS(Refusing())
    with pytest.raises(errors.InsufficientStorage):
        fs.writebytes("file", b"")
    file = fs.openbin("file", "w", buffering=0)
    with pytest.raises(OSError, match="full") as caught:
        file.write(b"x")
    assert caught.value.errno == errno.EDQUOT
    file.close()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (kernel.NotFoundError("x"), errors.ResourceNotFound),
        (kernel.PermissionError("x"), errors.PermissionDenied),
        (kernel.SecurityViolationError("x"), errors.PermissionDenied),
        (kernel.FileExistsError("x"), errors.FileExists),
        (kernel.InvalidPathError("x"), errors.InvalidPath),
        (kernel.QuotaExceededError("x"), errors.InsufficientStorage),
        (kernel.FileSystemError(errno.ENOTEMPTY, "x"), errors.DirectoryNotEmpty),
        (kernel.BackendUnavailableError("x"), errors.OperationFailed),
        (OSError(errno.EXDEV, "x"), errors.OperationFailed),
        (OSError(errno.ELOOP, "x"), errors.ResourceInvalid),
    ],
)
def test_each_error_has_its_like(error: OSError | kernel.SandboxError, kind: type[errors.FSError]) -> None:
    assert type(as_fs_error(error, "path")) is kind


def test_the_errno_below_an_error_of_fs_wins() -> None:
    below = errors.OperationFailed("x", exc=OSError(errno.EMFILE, "x"))
    assert as_os_error(below, "x").errno == errno.EMFILE
    assert as_os_error(errors.ResourceReadOnly("x"), "x").errno == errno.EROFS
    assert as_os_error(errors.FSError("x"), "x").errno == errno.EIO


def test_a_backend_over_a_view_over_a_backend() -> None:
    backend = FsBackend(BackendFS(MemoryBackend()))
    backend.make_dir("dir")
    backend.write_bytes("dir/file", b"x")
    backend.rename("dir", "moved")
    assert backend.read_bytes("moved/file") == b"x"


def test_fs_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "root" / "dir").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(b"outside")
    (tmp_path / "root" / "link").symlink_to(tmp_path)
    (tmp_path / "root" / "dir" / "file").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "root" / "fifo")
    backend = FsBackend(OSFS(str(tmp_path / "root")))
    for path in ("link/secret", "dir/file"):
        fails(errno.ELOOP, backend.read_bytes, path)
        fails(errno.ELOOP, backend.write_bytes, path, b"")
        fails(errno.ELOOP, backend.open, path, os.O_RDWR)
    fails(errno.ELOOP, backend.scan, "link")
    fails(errno.ENXIO, backend.open, "fifo", os.O_RDONLY)
    assert stat.S_ISLNK(backend.stat("link").mode)
    assert backend.read_link("link") == str(tmp_path)
    backend.remove("link")
    assert (tmp_path / "secret").read_bytes() == b"outside"
    backend.close()


@pytest.fixture
def whole(tmp_path: Path) -> FsBackend:
    return FsBackend(_unseekable(TempFS(temp_dir=str(tmp_path))))


def _unseekable(fs: FS) -> FS:
    """Make storage of `fs` whose files can only be read, or written, from start to end."""
    opened = fs.openbin

    def openbin(path: str, mode: str = "r", buffering: int = -1, **options: object) -> BinaryIO:
        if "+" in mode or "a" in mode:
            raise errors.Unsupported(path)
        return Sequential(opened(path, mode, 0))

    fs.openbin = openbin  # type: ignore[method-assign]  # the one thing that differs
    return fs


class Sequential(io.RawIOBase, BinaryIO):
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return self._file.readable()

    def writable(self) -> bool:
        return self._file.writable()

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def test_what_cannot_seek_is_spooled_and_put_back(whole: FsBackend) -> None:
    whole.write_bytes("file", b"hello world")
    file = whole.open("file", os.O_RDWR)
    file.pwrite(b"W", 6)
    assert file.pread(100, 0) == b"hello World"
    assert whole.read_bytes("file") == b"hello world"
    file.sync(data_only=True)
    assert whole.read_bytes("file") == b"hello World"
    file.truncate(5)
    whole.rename("file", "moved")
    file.close()
    assert whole.read_bytes("moved") == b"hello"
    fails(errno.ENOENT, whole.stat, "file")


def test_a_spooled_file_that_was_removed_stays_removed(whole: FsBackend) -> None:
    file = whole.open("file", os.O_RDWR | os.O_CREAT)
    file.pwrite(b"x", 0)
    whole.remove("file")
    file.close()
    assert whole.scan("") == []


def test_a_spooled_file_is_put_back_by_flush(whole: FsBackend) -> None:
    file = whole.open("file", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    file.pwrite(b"x", 0)
    whole.flush()
    assert whole.read_bytes("file") == b"x"
    file.close()


def test_writers_through_a_view_at_once() -> None:
    backend: Backend = MemoryBackend()
    fs = BackendFS(backend)

    def append(number: int) -> None:
        for _ in range(50):
            with fs.openbin("log", "a") as file:
                file.write(b"%d\n" % number)

    threads = [threading.Thread(target=append, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fs.readbytes("log").splitlines()) == 200
