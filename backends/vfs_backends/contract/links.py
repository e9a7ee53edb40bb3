"""What hard links and symbolic links do."""
# ruff: noqa: D102, S101 -- tests: the name says it

import errno
import os
import stat

from vfs.kernel.ports import Backend
from vfs_backends.contract.base import NOT_UTF8, Contract, fails


class LinksContract(Contract):
    """Tests of links, and that none is followed."""

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
        for text in ("target", "/etc/passwd", "../../outside", NOT_UTF8, "loop", "x" * 1000):
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
