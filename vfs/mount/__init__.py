"""The kernel as a directory: one set of path-based operations, and engines that serve it.

- `MountServer` serves a session in a process of its own, `serve` in this one (its main thread);
- `unmount` and `clear_dead` take mounts away.

The names are loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vfs.mount.engine import MountOptions as MountOptions
    from vfs.mount.server import MountServer as MountServer
    from vfs.mount.serving import ENGINES as ENGINES
    from vfs.mount.serving import serve as serve
    from vfs.mount.unmounting import clear_dead as clear_dead
    from vfs.mount.unmounting import unmount as unmount

_HOME = {
    "ENGINES": "vfs.mount.serving",
    "MountOptions": "vfs.mount.engine",
    "MountServer": "vfs.mount.server",
    "clear_dead": "vfs.mount.unmounting",
    "serve": "vfs.mount.serving",
    "unmount": "vfs.mount.unmounting",
}

__all__ = [*_HOME]  # noqa: PLE0604 (the names are strings, taken from the table)


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used (PEP 562)."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module `vfs.mount` has no attribute `{name}`")
