"""What times, modes, owners and attributes do."""
# ruff: noqa: D102, S101 -- tests: the name says it

import errno
import os
import stat
from typing import Any

from vfs.kernel.ports import Backend
from vfs_backends.contract.base import Contract, fails


class MetadataContract(Contract):
    """Tests of the methods that change metadata or tell of it."""

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
