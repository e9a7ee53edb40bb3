"""Everything programs do with files on a disk, on a real mount, each against what POSIX says."""

import contextlib
import errno
import fcntl
import mmap
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tests.mount.conftest import Mount, run

SECOND = 10**9


def refused(number: int) -> "pytest.RaisesExc[OSError]":
    return pytest.raises(OSError, check=lambda error: error.errno == number)


def test_what_is_written_is_read_again_and_lies_on_the_disk(mount: Mount) -> None:
    (mount.data / "written").write_bytes(b"one\n")
    assert (mount.data / "written").read_bytes() == b"one\n"
    assert (mount.project / ".sandbox/data/written").read_bytes() == b"one\n"


def test_the_root_shows_the_five_zones_and_takes_nothing_else(mount: Mount) -> None:
    assert sorted(os.listdir(mount.root)) == ["repo", "session", "staged", "workers", "workspace"]
    with refused(errno.ENOENT):
        (mount.root / "other").stat()
    with refused(errno.EPERM):
        (mount.root / "other").mkdir()
    with refused(errno.EPERM):
        (mount.root / "other").write_text("x")


def test_appends_of_two_processes_all_arrive(d: Path) -> None:
    code = (
        "import os,sys\n"
        "fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n"
        "for i in range(100): os.write(fd, (sys.argv[2] * 9 + '\\n').encode())\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(d / "log"), mark]) for mark in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    lines = (d / "log").read_text().splitlines()
    assert sorted(lines) == ["a" * 9] * 100 + ["b" * 9] * 100


def test_truncate_by_path_and_by_descriptor_cuts_and_extends(d: Path) -> None:
    (d / "x").write_bytes(b"0123456789")
    os.truncate(d / "x", 4)
    assert (d / "x").read_bytes() == b"0123"
    with (d / "x").open("r+b") as file:
        file.truncate(6)
        assert os.fstat(file.fileno()).st_size == 6
    assert (d / "x").read_bytes() == b"0123\0\0"
    with (d / "x").open("wb"):
        pass
    assert (d / "x").stat().st_size == 0


def test_exclusive_creation_refuses_what_is_there(d: Path) -> None:
    (d / "x").touch()
    with refused(errno.EEXIST):
        os.open(d / "x", os.O_CREAT | os.O_EXCL | os.O_WRONLY)


def test_rename_replaces_a_file_that_a_reader_has_open(d: Path) -> None:
    (d / "x").write_bytes(b"old")
    (d / "new").write_bytes(b"new")
    with (d / "x").open("rb") as reader:
        os.rename(d / "new", d / "x")
        assert reader.read() == b"old"
    assert (d / "x").read_bytes() == b"new"
    assert os.listdir(d) == ["x"]


def test_a_file_that_is_replaced_over_and_over_is_never_missing(d: Path) -> None:
    # Replaced twice between look-up and open it may be stale (ESTALE), as on NFS; it is never not there.
    (d / "x").write_text("0")
    done = threading.Event()

    def replace() -> None:
        for i in range(100):
            (d / "new").write_text(str(i))
            os.rename(d / "new", d / "x")
        done.set()

    writer = threading.Thread(target=replace)
    writer.start()
    reads = stale = 0
    while not done.is_set():
        try:
            assert (d / "x").read_text().isdigit()
            reads += 1
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            stale += 1
    writer.join()
    assert reads > 20 * stale


def test_renaming_to_another_zone_is_exdev_so_that_mv_copies(mount: Mount, d: Path) -> None:
    (d / "x").write_text("moved")
    with refused(errno.EXDEV):
        os.rename(d / "x", mount.root / "session/working/x")
    run("mv", str(d / "x"), str(mount.root / "session/working/x"))
    assert (mount.root / "session/working/x").read_text() == "moved"
    assert os.listdir(d) == []


def test_a_directory_is_renamed_with_what_it_holds(d: Path) -> None:
    (d / "a/b").mkdir(parents=True)
    (d / "a/b/x").write_text("x")
    os.rename(d / "a", d / "c")
    assert (d / "c/b/x").read_text() == "x"
    with refused(errno.EINVAL):
        os.rename(d / "c", d / "c/b/c")


def test_hard_links_share_content_inode_and_count(d: Path) -> None:
    (d / "x").write_text("one")
    os.link(d / "x", d / "y")
    assert (d / "x").stat().st_ino == (d / "y").stat().st_ino
    assert (d / "y").stat().st_nlink == 2
    (d / "y").write_text("longer than before")
    time.sleep(1.1)  # attributes of the other name may be kept for a second
    assert (d / "x").stat().st_size == 18
    assert (d / "x").read_text() == "longer than before"
    os.unlink(d / "x")
    assert (d / "y").read_text() == "longer than before"


def test_relative_symlinks_inside_the_zone_are_followed(d: Path) -> None:
    (d / "dir").mkdir()
    (d / "dir/x").write_text("target")
    os.symlink("dir/x", d / "link")
    os.symlink("../dir", d / "dir/up")
    assert os.readlink(d / "link") == "dir/x"
    assert (d / "link").read_text() == "target"
    assert (d / "dir/up/x").read_text() == "target"
    assert stat.S_ISLNK(os.lstat(d / "link").st_mode)


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../repo/README.md", "../../../../../etc/passwd"])
def test_a_symlink_that_leaves_the_zone_is_not_made(d: Path, target: str) -> None:
    with refused(errno.EACCES):
        os.symlink(target, d / "link")
    assert not os.path.lexists(d / "link")


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../../README.md"])
def test_a_symlink_that_leaves_the_zone_is_not_followed(mount: Mount, d: Path, target: str) -> None:
    os.symlink(target, mount.project / ".sandbox/data" / d.name / "link")
    with refused(errno.EACCES):
        (d / "link").read_text()
    with refused(errno.EACCES):
        os.readlink(d / "link")
    violations = mount.rows(f"/workspace/data/{d.name}/link")
    assert {row.operation for row in violations} == {"security_violation"}


def test_directories_are_made_listed_and_removed(d: Path) -> None:
    os.makedirs(d / "a/b/c")
    assert [entry.name for entry in os.scandir(d / "a")] == ["b"]
    with refused(errno.ENOTEMPTY):
        os.rmdir(d / "a")
    with refused(errno.EISDIR):
        os.unlink(d / "a")
    (d / "x").touch()
    with refused(errno.ENOTDIR):
        os.rmdir(d / "x")
    run("rm", "-r", str(d / "a"))
    assert os.listdir(d) == ["x"]


def test_a_listing_tells_the_inodes_that_stat_tells(d: Path) -> None:
    for name in ("x", "y"):
        (d / name).touch()
    assert {e.name: e.inode() for e in os.scandir(d)} == {n: (d / n).stat().st_ino for n in ("x", "y")}


def test_a_large_directory_is_listed_whole_and_again_after_rewinding(d: Path) -> None:
    (d / "many").mkdir()
    for i in range(300):
        (d / "many" / f"{i:0200}").touch()
    fd = os.open(d / "many", os.O_RDONLY)
    try:
        assert len(os.listdir(fd)) == 300
        (d / "many/one-more").touch()
        assert len(os.listdir(fd)) == 301
    finally:
        os.close(fd)


def test_a_file_lives_on_without_a_name(d: Path) -> None:
    fd = os.open(d / "x", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.unlink(d / "x")
        assert os.write(fd, b"still here") == 10
        found = os.fstat(fd)
        assert (found.st_nlink, found.st_size) == (0, 10)
        assert os.pread(fd, 100, 0) == b"still here"
        os.ftruncate(fd, 5)
        assert os.fstat(fd).st_size == 5
        os.fchmod(fd, 0o640)
        os.utime(fd, ns=(5, 7))
        found = os.fstat(fd)
        assert (stat.S_IMODE(found.st_mode), found.st_atime_ns, found.st_mtime_ns) == (0o640, 5, 7)
        os.fsync(fd)
        assert os.listdir(d) == []
    finally:
        os.close(fd)


def test_several_files_without_names_are_kept_apart(d: Path) -> None:
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile(dir=d)) for _ in range(5)]
        for i, file in enumerate(files):
            assert os.fstat(file.fileno()).st_size == 0
            file.write(b"x" * i)
            file.flush()
        assert [os.fstat(file.fileno()).st_size for file in files] == [0, 1, 2, 3, 4]


def test_fsync_of_files_and_directories(d: Path) -> None:
    with (d / "x").open("wb") as file:
        file.write(b"x")
        file.flush()
        os.fsync(file.fileno())
        os.fdatasync(file.fileno())
    fd = os.open(d, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def test_permission_bits_are_kept_and_the_umask_holds(d: Path) -> None:
    old = os.umask(0o027)
    try:
        os.close(os.open(d / "x", os.O_CREAT | os.O_WRONLY, 0o666))
        os.mkdir(d / "dir", 0o777)
    finally:
        os.umask(old)
    assert stat.S_IMODE((d / "x").stat().st_mode) == 0o640
    assert stat.S_IMODE((d / "dir").stat().st_mode) == 0o750
    os.chmod(d / "x", 0o755)
    assert stat.S_IMODE((d / "x").stat().st_mode) == 0o755


def test_times_have_nanoseconds(d: Path) -> None:
    (d / "x").touch()
    os.utime(d / "x", ns=(1_111_111_111_123_456_789, 1_222_222_222_987_654_321))
    found = (d / "x").stat()
    assert (found.st_atime_ns, found.st_mtime_ns) == (1_111_111_111_123_456_789, 1_222_222_222_987_654_321)


def test_a_time_before_1970_is_kept(d: Path) -> None:
    (d / "x").touch()
    os.utime(d / "x", ns=(-2 * SECOND + 5, -3 * SECOND + 7))
    found = (d / "x").stat()
    assert (found.st_atime_ns, found.st_mtime_ns) == (-2 * SECOND + 5, -3 * SECOND + 7)


def test_one_time_is_set_and_the_other_left(d: Path) -> None:
    (d / "x").touch()
    os.utime(d / "x", ns=(5 * SECOND, 7 * SECOND))
    run("touch", "-m", "-d", "@1000", str(d / "x"))
    found = (d / "x").stat()
    assert (found.st_atime_ns, found.st_mtime_ns) == (5 * SECOND, 1000 * SECOND)
    run("touch", "-a", "-d", "@2000", str(d / "x"))
    found = (d / "x").stat()
    assert (found.st_atime_ns, found.st_mtime_ns) == (2000 * SECOND, 1000 * SECOND)


def test_a_time_is_set_to_now(d: Path) -> None:
    (d / "x").touch()
    os.utime(d / "x", ns=(5, 7))
    before = time.time_ns()
    run("touch", "-m", str(d / "x"))
    found = (d / "x").stat()
    assert found.st_atime_ns == 5
    # The storage's clock ticks in steps of some milliseconds.
    assert before - SECOND // 10 <= found.st_mtime_ns <= time.time_ns()


def test_the_times_of_a_link_are_its_own(d: Path) -> None:
    (d / "x").touch()
    before = (d / "x").stat().st_mtime_ns
    os.symlink("x", d / "link")
    os.utime(d / "link", ns=(5, 7), follow_symlinks=False)
    assert os.lstat(d / "link").st_mtime_ns == 7
    assert (d / "x").stat().st_mtime_ns == before


def test_extended_attributes_of_user(d: Path) -> None:
    (d / "x").touch()
    os.setxattr(d / "x", "user.note", b"value\0binary")
    assert os.getxattr(d / "x", "user.note") == b"value\0binary"
    assert os.listxattr(d / "x") == ["user.note"]
    with refused(errno.EEXIST):
        os.setxattr(d / "x", "user.note", b"", os.XATTR_CREATE)
    os.removexattr(d / "x", "user.note")
    with refused(errno.ENODATA):
        os.getxattr(d / "x", "user.note")
    with refused(errno.ENODATA):
        os.setxattr(d / "x", "user.note", b"", os.XATTR_REPLACE)
    assert os.listxattr(d / "x") == []


def test_extended_attributes_of_others_are_not_supported(d: Path) -> None:
    (d / "x").touch()
    for name in ("security.capability", "trusted.x"):
        with refused(errno.ENOTSUP):
            os.getxattr(d / "x", name)
    with refused(errno.ENOTSUP):
        os.setxattr(d / "x", "trusted.x", b"x")


def test_statfs_tells_the_space_of_the_storage(mount: Mount) -> None:
    there, real = os.statvfs(mount.data), os.statvfs(mount.project)
    assert (there.f_frsize * there.f_blocks, there.f_namemax) == (real.f_frsize * real.f_blocks, 255)
    assert there.f_bavail > 0


def test_a_shared_mapping_writes_the_file(d: Path) -> None:
    (d / "x").write_bytes(b"." * 10000)
    with (d / "x").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[5000:5003] = b"abc"
        mapping.flush()
    assert (d / "x").read_bytes()[4999:5004] == b".abc."


def test_a_private_mapping_leaves_the_file_alone(d: Path) -> None:
    (d / "x").write_bytes(b"." * 100)
    with (d / "x").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapping:
        mapping[0:3] = b"abc"
        assert mapping[:4] == b"abc."
    assert (d / "x").read_bytes() == b"." * 100


@pytest.mark.parametrize("kind", ["flock", "lockf"])
def test_locks_hold_between_processes(d: Path, kind: str) -> None:
    code = (
        "import fcntl,sys\n"
        "f = open(sys.argv[1], 'r+')\n"
        f"try: fcntl.{kind}(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except OSError: sys.exit(7)\n"
    )
    other = [sys.executable, "-c", code, str(d / "x")]
    with (d / "x").open("w") as file:
        getattr(fcntl, kind)(file, fcntl.LOCK_EX)
        assert subprocess.run(other, check=False).returncode == 7
        getattr(fcntl, kind)(file, fcntl.LOCK_UN)
        assert subprocess.run(other, check=False).returncode == 0


def test_a_script_is_executed_if_its_bits_say_so(d: Path) -> None:
    (d / "run").write_text("#!/bin/sh\necho ran $1\n")
    with refused(errno.EACCES):
        subprocess.run([str(d / "run")], check=False)
    os.chmod(d / "run", 0o755)
    assert run(str(d / "run"), "here").stdout == "ran here\n"


def test_a_binary_is_executed(d: Path) -> None:
    run("cp", "/bin/true", str(d / "program"))
    assert subprocess.run([str(d / "program")], check=False).returncode == 0


def test_a_fifo_joins_two_processes(d: Path) -> None:
    os.mkfifo(d / "pipe")
    assert stat.S_ISFIFO((d / "pipe").stat().st_mode)
    with subprocess.Popen(["sh", "-c", f"echo through > {d / 'pipe'}"]) as writer:
        assert (d / "pipe").read_text() == "through\n"
    assert writer.returncode == 0


def test_a_unix_socket_is_bound_and_answers(d: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(d)  # the address is short
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("sock")
        server.listen()
        client.connect("sock")
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"hello")
            assert accepted.recv(10) == b"hello"
    os.unlink("sock")
    monkeypatch.undo()


def test_device_nodes_are_not_made(d: Path) -> None:
    with refused(errno.EPERM):
        os.mknod(d / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))


def test_names_of_255_bytes_and_no_more(d: Path) -> None:
    (d / ("n" * 255)).write_text("long")
    assert (d / ("n" * 255)).read_text() == "long"
    with refused(errno.ENAMETOOLONG):
        (d / ("n" * 256)).write_text("longer")
    with refused(errno.ENAMETOOLONG):
        (d / ("n" * 256)).stat()


@pytest.mark.parametrize(
    "name", [b"latin-\xe9", b"\xed\xa0\x80", b"new\nline", b"back\\slash", "日本語 ü".encode()]
)
def test_names_are_bytes(d: Path, name: bytes) -> None:
    path = os.fsencode(d) + b"/" + name
    with open(path, "wb") as file:
        file.write(b"x")
    assert os.listdir(os.fsencode(d)) == [name]
    os.rename(path, path + b"2")
    os.symlink(name + b"2", os.fsencode(d) + b"/link")
    assert os.readlink(os.fsencode(d) + b"/link") == name + b"2"
    with open(os.fsencode(d) + b"/link", "rb") as file:
        assert file.read() == b"x"
    os.unlink(path + b"2")


def test_a_sparse_file_takes_no_space_and_reads_as_zeros(d: Path) -> None:
    size = 1 << 40
    with (d / "x").open("wb") as file:
        file.truncate(size)
    found = (d / "x").stat()
    assert (found.st_size, found.st_blocks) == (size, 0)
    with (d / "x").open("rb") as file:
        file.seek(size - 10)
        assert file.read() == b"\0" * 10


def test_seeking_writing_past_the_end_and_positional_calls(d: Path) -> None:
    fd = os.open(d / "x", os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(fd, b"end", 1_000_000)
        os.pwrite(fd, b"start", 0)
        assert os.pread(fd, 8, 0) == b"start\0\0\0"
        assert os.pread(fd, 10, 1_000_000) == b"end"
        assert os.lseek(fd, 0, os.SEEK_END) == 1_000_003
    finally:
        os.close(fd)


def test_content_of_some_megabytes_survives_the_way(d: Path) -> None:
    content = os.urandom(3_000_001)
    (d / "x").write_bytes(content)
    assert (d / "x").read_bytes() == content


def test_chown_to_whom_it_belongs_is_fine(d: Path) -> None:
    (d / "x").touch()
    os.chown(d / "x", os.getuid(), os.getgid())
    os.chown(d / "x", -1, os.getgid())
    assert (d / "x").stat().st_uid == os.getuid()


@pytest.mark.skipif(os.getuid() != 0, reason="by design: only root gives files away")
def test_files_of_the_zones_owner_are_shown_as_the_servers(mount: Mount, kernel: object) -> None:
    (mount.data / "theirs").touch()
    (mount.data / "other").touch()
    os.chown(mount.project / ".sandbox/data/other", 1234, 1234)
    time.sleep(1.1)  # the attributes looked up by touch are kept for a second
    assert (mount.data / "theirs").stat().st_uid == 0
    assert (mount.data / "other").stat().st_uid == 1234


def test_access_answers_by_rights_and_bits(d: Path) -> None:
    (d / "x").write_text("x")
    assert os.access(d / "x", os.R_OK | os.W_OK)
    assert not os.access(d / "x", os.X_OK)
    os.chmod(d / "x", 0o755)
    assert os.access(d / "x", os.X_OK)
    assert os.access(d, os.R_OK | os.W_OK | os.X_OK)
    assert not os.access(d / "missing", os.F_OK)


def test_a_change_made_behind_the_mount_is_seen_within_its_second(mount: Mount) -> None:
    assert (mount.repo / "README.md").read_text() == "a small project\n"
    (mount.project / "README.md").write_text("a changed project, longer than before\n")
    (mount.project / "new.txt").write_text("new\n")
    assert (mount.repo / "new.txt").read_text() == "new\n"
    time.sleep(1.1)
    assert (mount.repo / "README.md").read_text() == "a changed project, longer than before\n"


def test_reading_a_name_that_is_a_directory_or_below_a_file_fails_as_on_a_disk(d: Path) -> None:
    (d / "x").touch()
    with refused(errno.EISDIR):
        d.read_bytes()
    with refused(errno.ENOTDIR):
        (d / "x/y").read_bytes()
    with refused(errno.EBADF):
        fd = os.open(d / "x", os.O_RDONLY)
        try:
            os.write(fd, b"x")
        finally:
            os.close(fd)


def test_a_further_name_shows_in_the_link_count_at_once(d: Path) -> None:
    (d / "x").touch()
    assert (d / "x").stat().st_nlink == 1
    os.link(d / "x", d / "y")
    assert (d / "x").stat().st_nlink == 2
