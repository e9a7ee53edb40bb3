"""A backend from a URL.

| URL | backend |
|---|---|
| `/path` or `osfs:///path` or `file:///path` | that directory, in `OsBackend` |
| `mem://` | a new, empty `MemoryBackend` |
| `union://URL;URL;…` | `UnionBackend`, the first on top; `;` and `%` within a URL are `%3B` and `%25` |
| any scheme a PyFilesystem2 opener knows | `FsBackend`; `OsBackend` where that is a directory |
"""

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from urllib.parse import unquote

from vfs.kernel.errors import ConfigError
from vfs.kernel.ports import Backend
from vfs_backends.fs_compat import FS, OSFS, TempFS, opener_errors, registry
from vfs_backends.memory import MemoryBackend
from vfs_backends.osfs import OsBackend
from vfs_backends.pyfilesystem import FsBackend
from vfs_backends.union import UnionBackend

__all__ = ["FACTORIES", "Factory", "open_backend", "scheme_of"]

Factory = Callable[[str, Callable[[str], Backend]], Backend]
"""Makes a backend from what follows `scheme://`; the second argument opens a URL inside that.

It raises ConfigError or OSError, and puts nothing that may be secret into the text.
"""


def open_backend(url: str, factories: Mapping[str, Factory] | None = None) -> Backend:
    """Return a new backend for `url`; the caller closes it.

    `factories` adds schemes, or takes the place of those in `FACTORIES`. Raises ConfigError for a URL
    that is none, an unknown scheme, or storage that cannot be opened. Its text names the scheme, and never
    the rest of the URL, where credentials may be.
    """
    known = {**FACTORIES, **(factories or {})}
    if url.startswith("/"):
        return _open_directory(url)
    scheme, separator, rest = url.partition("://")
    if not separator or not scheme:
        raise ConfigError(
            "a storage URL starts with a scheme or is an absolute path",
            hint="write for example `/srv/data`, `osfs:///srv/data` or `mem://`",
        )
    factory = known.get(scheme)
    try:
        if factory is not None:
            return factory(rest, lambda inner: open_backend(inner, factories))
        if scheme in registry.protocols:
            return _open_with_fs(scheme, url)
    except OSError as error:
        raise ConfigError(
            f"the storage `{scheme}://…` cannot be opened: {(error.strerror or 'input/output error').lower()}"
        ) from None
    raise ConfigError(
        f"unknown storage scheme `{scheme}`",
        hint=f"use one of {', '.join(sorted({*known, *registry.protocols}))}, "
        f"or install the PyFilesystem2 package that provides `{scheme}`",
    )


def scheme_of(url: str) -> str:
    """Return the scheme, which is all of a URL that may be shown; `osfs` for a path."""
    return url.partition("://")[0] if "://" in url else "osfs"


def _open_os(rest: str, _: Callable[[str], Backend]) -> Backend:
    return _open_directory(unquote(rest, errors="surrogateescape"))


def _open_directory(path: str) -> Backend:
    if not path.startswith("/"):
        raise ConfigError(
            f"the directory of `osfs://` is not an absolute path: `{path}`",
            hint="write three slashes: `osfs:///srv/data`",
        )
    try:
        return OsBackend(path)
    except OSError as error:
        raise ConfigError(
            f"the directory `{path}` cannot be opened: {(error.strerror or 'input/output error').lower()}",
            hint="make the directory, or correct the path",
        ) from error


def _open_memory(rest: str, _: Callable[[str], Backend]) -> Backend:
    if rest:
        raise ConfigError("`mem://` takes nothing after it", hint="write `mem://`")
    return MemoryBackend()


def _open_union(rest: str, open_inner: Callable[[str], Backend]) -> Backend:
    layers: list[Backend] = []
    try:
        layers.extend(open_inner(_decode_inner(url)) for url in rest.split(";") if url)
    except BaseException:
        for layer in layers:
            layer.close()
        raise
    return UnionBackend(layers)


def _decode_inner(url: str) -> str:
    """Decode the two characters that a list of URLs needs; the others are for the URL itself to decode."""
    return url.replace("%3B", ";").replace("%3b", ";").replace("%25", "%")


def _open_with_fs(scheme: str, url: str) -> Backend:
    fs = _open_fs(scheme, url)
    # Links lead out of an OSFS; the same directory in an OsBackend is contained.
    if isinstance(fs, OSFS) and not isinstance(fs, TempFS):
        with fs:
            return OsBackend(os.fsencode(fs.getsyspath("/")).decode("utf-8", "surrogateescape"))
    return FsBackend(fs)


def _open_fs(scheme: str, url: str) -> FS:
    try:
        fs, path = registry.open(url, writeable=False, cwd="/")
        return fs.opendir(path) if path else fs
    except opener_errors.EntryPointError:
        problem = f"the package that provides `{scheme}` cannot be loaded"
    except Exception as error:  # noqa: BLE001 (openers raise anything, with the URL in the text)
        problem = f"the storage `{scheme}://…` cannot be opened: {type(error).__name__}"
    raise ConfigError(problem, hint="check the URL, the network and the credentials")


FACTORIES: Mapping[str, Factory] = MappingProxyType(
    {"osfs": _open_os, "file": _open_os, "mem": _open_memory, "union": _open_union}
)
"""The schemes that need no PyFilesystem2 opener."""
