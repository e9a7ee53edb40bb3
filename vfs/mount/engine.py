"""What the lifecycle of a mount asks of an engine: whatever brings the operating system's calls to `Operations`."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from vfs.mount.caller import Caller
from vfs.mount.operations import Operations

__all__ = ["Engine", "MountOptions"]


class MountOptions(NamedTuple):
    """How to mount: `allow_other` lets other users of the machine in."""

    allow_other: bool = False


class Engine(Protocol):
    """Serves operations as a mounted directory; made for one mount and used once."""

    def __init__(
        self, operations: Operations, caller: Caller, mount_point: str, options: MountOptions
    ) -> None: ...

    def mount(self) -> None:
        """Mount, not yet answering. Raises UnavailableError with the reason and what mends it."""
        ...

    def serve(self, ready: Callable[[], None]) -> None:
        """Answer requests until `stop`, or until it is unmounted from outside; calls `ready` after the first.

        Runs in the main thread.
        """
        ...

    def stop(self) -> None:
        """Make `serve` return; callable from another thread, and more than once."""
        ...

    def forget(self) -> None:
        """Make the operating system drop what it keeps, so that open files and mappings are judged again.

        Called from another thread than the one that serves, holding no lock.
        """
        ...

    def unmount(self) -> None:
        """Take the mount away, also from under programs that use it, and release everything."""
        ...
