"""From a URL to the storage it names."""

from urllib.parse import unquote, urlsplit

from vfs.kernel.errors import ConfigError
from vfs.kernel.ports import Backend

__all__ = ["open_backend"]


def open_backend(url: str) -> Backend:
    """Return the backend that `url` names. Raises ConfigError."""
    scheme = urlsplit(url).scheme
    if scheme == "mem":
        from vfs_backends.memory import MemoryBackend

        return MemoryBackend()
    if scheme == "osfs" or url.startswith("/"):
        from vfs_backends.osfs import OsBackend

        return OsBackend(unquote(url.removeprefix("osfs://")))
    raise ConfigError(f"no storage has the URL scheme `{scheme}`", hint="use osfs://, mem://")
