"""Our backends for `fs.open_fs`: `vfs-osfs:///path`, `vfs-mem://`, `vfs-union://URL;URL`.

Each is what `vfs_backends.urls` makes of the URL without `vfs-`, as a PyFilesystem2 file system. Declared
as entry points of the group `fs.opener`.
"""

import os
from urllib.parse import unquote

from vfs.kernel.errors import ConfigError
from vfs_backends.fs_compat import FS, Opener, errors
from vfs_backends.urls import open_backend
from vfs_backends.view import BackendFS

__all__ = ["MemoryOpener", "OsOpener", "UnionOpener"]


class _BackendOpener(Opener):
    """Opens the backend; CreateFailed if it cannot be."""

    def open_fs(
        self,
        fs_url: str,
        parse_result: object,  # noqa: ARG002 (it has taken apart what belongs to a URL inside)
        writeable: bool,  # noqa: ARG002, FBT001 (the base class has it)
        create: bool,  # noqa: FBT001 (the base class has it)
        cwd: str,  # noqa: ARG002 (the base class has it)
    ) -> FS:
        url = fs_url.removeprefix("vfs-")
        try:
            self.prepare(url, create=create)
            return BackendFS(open_backend(url), owner=True)
        except (ConfigError, OSError) as error:
            raise errors.CreateFailed(str(error)) from error

    def prepare(self, url: str, *, create: bool) -> None:
        """Make what `create` asks for."""


class OsOpener(_BackendOpener):
    """`vfs-osfs:///path`."""

    protocols = ["vfs-osfs"]  # noqa: RUF012 (the base class says it is not a class variable)

    def prepare(self, url: str, *, create: bool) -> None:
        """Make the directory."""
        if create:
            os.makedirs(unquote(url.removeprefix("osfs://"), errors="surrogateescape"), exist_ok=True)


class MemoryOpener(_BackendOpener):
    """`vfs-mem://`."""

    protocols = ["vfs-mem"]  # noqa: RUF012 (the base class says it is not a class variable)


class UnionOpener(_BackendOpener):
    """`vfs-union://URL;URL`."""

    protocols = ["vfs-union"]  # noqa: RUF012 (the base class says it is not a class variable)
