"""Nothing that others do to the tree gets a path of `OsBackend` out of its root, or makes it wait."""

import ctypes
import errno
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from vfs.kernel.ports import RenameFlag
from vfs_backends import atomic
from vfs_backends.beneath import OpenAt2, Resolver, Walk, best_resolver
from vfs_backends.osfs import OsBackend
from vfs_backends.reserved import TemporaryNames
from vfs_backends.view import BackendFS

SECRET = b"outside"


@contextmanager
def raises(*numbers: int) -> Iterator[None]:
    with pytest.raises(OSError) as caught:  # noqa: PT011 (the errno is what is checked)
        yield
    assert errno.errorcode[caught.value.errno or 0] in [errno.errorcode[number] for number in numbers]


@pytest.fixture(params=[OpenAt2, Walk])
def resolver(request: pytest.FixtureRequest) -> Resolver:
    made: Resolver = request.param()
    return made


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "file").write_bytes(SECRET)
    (directory / "below").mkdir()
    return directory


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "root"
    directory.mkdir()
    return directory


@pytest.fixture
def backend(root: Path, resolver: Resolver) -> Iterator[OsBackend]:
    backend = OsBackend(root, resolver=resolver)
    yield backend
    backend.close()


def untouched(outside: Path) -> bool:
    return (
        (outside / "file").read_bytes() == SECRET
        and sorted(os.listdir(outside)) == ["below", "file"]
        and not os.listdir(outside / "below")
    )


CALLS: dict[str, Callable[[OsBackend, str], Any]] = {
    "stat": lambda backend, path: backend.stat(path),
    "scan": lambda backend, path: backend.scan(path),
    "read": lambda backend, path: backend.read_bytes(path),
    "write": lambda backend, path: backend.write_bytes(path, b"attack"),
    "write new": lambda backend, path: backend.write_bytes(path, b"attack", exclusive=True),
    "open": lambda backend, path: backend.open(path, os.O_RDONLY).close(),
    "open w": lambda backend, path: backend.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC).close(),
    "open x": lambda backend, path: backend.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL).close(),
    "make_dir": lambda backend, path: backend.make_dir(path),
    "make_node": lambda backend, path: backend.make_node(path, stat.S_IFIFO | 0o600),
    "remove": lambda backend, path: backend.remove(path),
    "remove_dir": lambda backend, path: backend.remove_dir(path),
    "rename from": lambda backend, path: backend.rename(path, "loot"),
    "rename to": lambda backend, path: backend.rename("inside", path),
    "exchange": lambda backend, path: backend.rename("inside", path, RenameFlag.EXCHANGE),
    "link from": lambda backend, path: backend.link(path, "loot"),
    "link to": lambda backend, path: backend.link("inside", path),
    "symlink": lambda backend, path: backend.symlink("x", path),
    "read_link": lambda backend, path: backend.read_link(path),
    "set_times": lambda backend, path: backend.set_times(path, 0, 0),
    "set_mode": lambda backend, path: backend.set_mode(path, 0),
    "set_owner": lambda backend, path: backend.set_owner(path, -1, -1),
    "get_xattr": lambda backend, path: backend.get_xattr(path, "user.a"),
    "set_xattr": lambda backend, path: backend.set_xattr(path, "user.a", b""),
    "list_xattrs": lambda backend, path: backend.list_xattrs(path),
    "remove_xattr": lambda backend, path: backend.remove_xattr(path, "user.a"),
    "fingerprint": lambda backend, path: backend.fingerprint(path),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize("kind", ["absolute", "climbing", "to the root of all", "through proc"])
def test_no_call_goes_through_a_link(
    backend: OsBackend, root: Path, outside: Path, kind: str, call: Callable[[OsBackend, str], Any]
) -> None:
    backend.write_bytes("inside", b"")
    descriptor = os.open(outside, os.O_RDONLY)
    targets = {
        "absolute": str(outside),
        "climbing": "../outside",
        "to the root of all": "/",
        "through proc": f"/proc/self/fd/{descriptor}",
    }
    os.symlink(targets[kind], root / "link")
    try:
        for path in ("link/file", "link/below", "link/new", "link/below/new"):
            with raises(errno.ELOOP):
                call(backend, path)
    finally:
        os.close(descriptor)
    assert untouched(outside)
    assert not os.path.lexists(root / "loot")


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize("path", ["..", "../outside/file", "dir/../../outside/file", "dir/..", "/etc/passwd"])
def test_no_call_climbs(
    backend: OsBackend, outside: Path, path: str, call: Callable[[OsBackend, str], Any]
) -> None:
    backend.make_dir("dir")
    backend.write_bytes("inside", b"")
    with raises(errno.EINVAL, errno.ENOENT, errno.EXDEV, errno.EEXIST, errno.ELOOP):
        call(backend, path)
    assert untouched(outside)


def swapping(root: Path, outside: Path, stop: threading.Event) -> None:
    """Swap `root/dir`, a directory, with a link to `outside`, over and over."""
    os.symlink(outside, root / "link")
    rename = ctypes.CDLL(None).renameat2
    one, two = os.fsencode(root / "dir"), os.fsencode(root / "link")
    while not stop.is_set():
        rename(-100, one, -100, two, int(RenameFlag.EXCHANGE))


def test_no_race_leads_out(backend: OsBackend, root: Path, outside: Path) -> None:
    backend.make_dir("dir")
    backend.make_dir("dir/below")
    backend.write_bytes("dir/file", b"inside")
    backend.write_bytes("inside", b"")
    (outside / "file").chmod(0o640)
    before = os.stat(outside / "file")
    ino = os.stat(outside / "file").st_ino
    stop = threading.Event()
    # A process of its own would not race harder: the calls on both sides release the interpreter.
    attacker = threading.Thread(target=swapping, args=(root, outside, stop))
    attacker.start()
    reached = refused = 0
    errors = set()
    deadline = time.monotonic() + 3
    try:
        while time.monotonic() < deadline or not (reached and refused):
            try:
                assert backend.read_bytes("dir/file") == b"inside"
                assert backend.stat("dir/file").ino != ino
                with backend.open("dir/file", os.O_RDWR) as file:
                    assert file.stat().ino != ino
                backend.set_mode("dir/file", 0o600)
                backend.set_times("dir/file", 0, 0)
                backend.write_bytes("dir/file", b"inside")
                backend.write_bytes("dir/below/new", b"new")
                backend.remove("dir/below/new")
                backend.make_dir("dir/made")
                backend.rename("dir/made", "dir/moved")
                backend.remove_dir("dir/moved")
                assert {entry.name for entry in backend.scan("dir")} <= {"file", "below", "made", "moved"}
                reached += 1
            except FileExistsError:
                with suppress(OSError):
                    backend.remove_dir("dir/made")
            except OSError as error:
                errors.add(error.errno)
                refused += 1
    finally:
        stop.set()
        attacker.join()
    after = os.stat(outside / "file")
    # ENOTDIR: it was a link when it was opened as a directory, and none any more when it was asked why.
    assert errors <= {errno.ELOOP, errno.ENOENT, errno.ENOTDIR}
    assert untouched(outside)
    assert (before.st_mode, before.st_mtime_ns, before.st_ino) == (
        after.st_mode,
        after.st_mtime_ns,
        after.st_ino,
    )


def test_removetree_races_stay_inside(backend: OsBackend, root: Path, outside: Path) -> None:
    stop = threading.Event()
    backend.make_dir("dir")
    attacker = threading.Thread(target=swapping, args=(root, outside, stop))
    attacker.start()
    fs = BackendFS(backend)
    try:
        for number in range(300):
            with suppress(OSError):
                backend.make_dir("dir/below")
                backend.write_bytes(f"dir/below/{number}", b"")
            with suppress(Exception):  # whichever error the race brings, it must not bring a loss
                fs.removetree("dir/below")
    finally:
        stop.set()
        attacker.join()
    assert untouched(outside)


def test_removetree_removes_a_link_and_not_what_it_leads_to(
    backend: OsBackend, root: Path, outside: Path
) -> None:
    backend.make_dir("dir")
    os.symlink(outside, root / "dir" / "link")
    BackendFS(backend).removetree("dir")
    assert backend.scan("") == []
    assert untouched(outside)


def test_a_fifo_or_device_is_never_waited_for(backend: OsBackend, root: Path) -> None:
    os.mkfifo(root / "fifo")
    names = ["fifo"]
    if os.geteuid() == 0:
        with suppress(PermissionError):
            os.mknod(root / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
            names.append("zero")
    for name in names:
        for call in ("read", "write", "open", "open w"):
            with raises(errno.ENXIO):
                CALLS[call](backend, name)


def test_a_removed_root_is_stale_and_never_made_again(backend: OsBackend, root: Path) -> None:
    file = backend.open("file", os.O_RDWR | os.O_CREAT)
    os.unlink(root / "file")
    root.rmdir()
    for name, call in CALLS.items():
        if name in ("link to", "rename to", "exchange"):
            continue
        for path in ("file", "dir/file"):
            with raises(errno.ESTALE):
                call(backend, path)
    for look in (backend.stat, backend.scan):
        with raises(errno.ESTALE):
            look("")
    assert not root.exists()
    file.pwrite(b"still", 0)
    assert file.pread(10, 0) == b"still"
    file.close()


def test_a_root_put_in_its_place_is_not_the_root(backend: OsBackend, root: Path, tmp_path: Path) -> None:
    backend.write_bytes("file", b"first")
    root.rename(tmp_path / "moved")
    root.mkdir()
    (root / "file").write_bytes(b"second")
    assert backend.read_bytes("file") == b"first"
    backend.write_bytes("new", b"")
    assert os.listdir(root) == ["file"]


def test_a_closed_backend_reaches_nothing(root: Path, resolver: Resolver) -> None:
    backend = OsBackend(root, resolver=resolver)
    backend.write_bytes("file", b"")
    backend.close()
    others = [os.open("/", os.O_RDONLY) for _ in range(5)]  # takes the number that the root had
    try:
        for path in ("file", "etc/passwd", "etc", ""):
            with raises(errno.EBADF):
                backend.stat(path)
    finally:
        for descriptor in others:
            os.close(descriptor)


def test_no_descriptor_leaks(backend: OsBackend, root: Path, outside: Path) -> None:
    backend.make_dir("dir")
    backend.write_bytes("dir/file", b"x")
    os.symlink(outside, root / "dir" / "link")
    before = os.listdir("/proc/self/fd")
    for call in CALLS.values():
        for path in ("dir/file", "dir", "dir/none", "dir/link", "dir/link/file", "none/none", ""):
            with suppress(OSError):
                call(backend, path)
    assert os.listdir("/proc/self/fd") == before


def test_the_umask_does_not_matter(backend: OsBackend) -> None:
    before = os.umask(0o077)
    try:
        backend.write_bytes("new", b"")
        backend.open("file", os.O_WRONLY | os.O_CREAT, 0o666).close()
        backend.make_dir("dir", 0o777)
        backend.make_node("fifo", stat.S_IFIFO | 0o666)
    finally:
        os.umask(before)
    modes = {entry.name: stat.S_IMODE(backend.stat(entry.name).mode) for entry in backend.scan("")}
    assert modes == {"new": 0o644, "file": 0o666, "dir": 0o777, "fifo": 0o666}


def test_reserved_names_are_nowhere_and_swept_when_stale(backend: OsBackend, root: Path) -> None:
    name = ".vfs-0123456789abcdef.tmp"
    backend.make_dir("dir")
    for place in (root / name, root / "dir" / name):
        place.write_bytes(b"half")
    (root / ".vfs-mine.tmp").write_bytes(b"not reserved")
    assert sorted(entry.name for entry in backend.scan("")) == [".vfs-mine.tmp", "dir"]
    assert backend.scan("dir") == []
    for call in CALLS.values():
        with pytest.raises(FileNotFoundError):
            call(backend, f"dir/{name}")
    with raises(errno.ENOTEMPTY):
        backend.remove_dir("dir")
    assert backend.sweep() == 0
    for place in (root / name, root / "dir" / name):
        os.utime(place, (0, 0))
    backend.remove_dir("dir")
    assert backend.sweep() == 1
    assert sorted(os.listdir(root)) == [".vfs-mine.tmp"]


def test_a_failed_write_leaves_nothing(backend: OsBackend, root: Path) -> None:
    backend.write_bytes("file", b"old")
    with pytest.raises(TypeError):
        backend.write_bytes("file", "no bytes")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(TypeError):
        backend.write_bytes("new", "no bytes")  # type: ignore[arg-type]  # what is tested
    assert os.listdir(root) == ["file"]
    assert backend.read_bytes("file") == b"old"


def test_a_file_too_large_for_memory_is_efbig(backend: OsBackend, root: Path) -> None:
    with open(root / "file", "wb") as file:
        file.truncate(1 << 40)
    with raises(errno.EFBIG):
        backend.read_bytes("file")


def test_only_user_attributes_are_there(backend: OsBackend) -> None:
    backend.write_bytes("file", b"")
    for name in ("security.capability", "trusted.overlay.opaque", "system.posix_acl_access", "bare"):
        with raises(errno.ENOTSUP):
            backend.set_xattr("file", name, b"")
        with raises(errno.ENOTSUP):
            backend.get_xattr("file", name)


def test_the_probe_finds_a_resolver_that_works(root: Path) -> None:
    backend = OsBackend(root, resolver=best_resolver())
    backend.make_dir("dir")
    backend.write_bytes("dir/file", b"x")
    assert backend.read_bytes("dir/file") == b"x"
    backend.close()


@pytest.mark.parametrize("unnamed", [True, False])
def test_creating_whole_is_exclusive_with_and_without_unnamed_files(root: Path, unnamed: bool) -> None:
    directory = os.open(root, os.O_RDONLY)
    try:
        atomic.create(directory, "file", b"first", TemporaryNames(), unnamed=unnamed)
        with raises(errno.EEXIST):
            atomic.create(directory, "file", b"second", TemporaryNames(), unnamed=unnamed)
        os.symlink("elsewhere", root / "link")
        with raises(errno.EEXIST):
            atomic.create(directory, "link", b"second", TemporaryNames(), unnamed=unnamed)
    finally:
        os.close(directory)
    assert (root / "file").read_bytes() == b"first"
    assert stat.S_IMODE((root / "file").stat().st_mode) == 0o644
    assert sorted(os.listdir(root)) == ["file", "link"]
