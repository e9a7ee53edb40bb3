"""The portable engine: libfuse 2 by way of fusepy's bindings, one thread.

fusepy's own class is not used: it mounts and serves in one call that cannot be stopped cleanly, and decodes
names strictly. Of libfuse its tree of names and its translation of the protocol are used; on Linux the loop is
our own, and looks at requests first (`vfs.mount.requests`).

What the operating system may keep: attributes and names for one second, so that a change made behind the mount
(a person editing `/repo`) is seen after that; that a name is missing never, so that every try for what is
hidden is on the log. Pages stay from one open to the next if size and modification time say that the content is
the same, as of the same second (`auto_cache`).
"""

import contextlib
import ctypes
import errno
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from vfs.kernel.errors import UnavailableError
from vfs.mount.caller import Caller
from vfs.mount.engine import MountOptions
from vfs.mount.invalidate import drop_names, drop_pages
from vfs.mount.operations import Operations
from vfs.mount.points import find_mount

if TYPE_CHECKING:
    from vfs.mount.requests import Requests

__all__ = ["FusepyEngine"]

_TIMEOUT = 1
_LARGEST = 128 * 1024  # what the kernel takes from libfuse 2 in one request
_LINUX = sys.platform == "linux"


class FusepyEngine:
    """`vfs.mount.engine.Engine` over libfuse 2. Raises UnavailableError where the library is missing."""

    def __init__(
        self, operations: Operations, caller: Caller, mount_point: str, options: MountOptions
    ) -> None:
        try:
            from vfs.mount import callbacks, libfuse
        except OSError as error:
            raise UnavailableError(
                "libfuse 2 cannot be loaded", hint="`vfs doctor` says how to install it"
            ) from error
        self._calls = libfuse.calls
        self._operations = operations
        self._caller = caller
        self._mount_point = mount_point
        self._options = options
        self._callbacks = callbacks.Callbacks(operations, before=None if _LINUX else self._ask_caller)
        self._fuse: int | None = None
        self._session = 0
        self._fd = -1
        self._where = ctypes.c_void_p()
        self._stopping = threading.Event()
        self._nodes: Callable[[], list[int]] = list

    def mount(self) -> None:
        """See `Engine.mount`."""
        words = ["vfs", "-f", "-s", "-o", ",".join(self._mount_options()), self._mount_point]
        argv = (ctypes.c_char_p * len(words))(*[os.fsencode(word) for word in words])
        table = self._callbacks.table
        with _captured_stderr() as said:
            self._fuse = self._calls.setup(
                len(words), argv, ctypes.addressof(table), ctypes.sizeof(table), ctypes.byref(self._where),
                ctypes.byref(ctypes.c_int()), None,
            )  # fmt: skip
        if not self._fuse:
            reason = "; ".join(line for line in said if line) or "libfuse gives no reason"
            raise UnavailableError(
                f"`{self._mount_point}` cannot be mounted: {reason}", hint="`vfs doctor` says what is missing"
            )
        self._session = self._calls.get_session(self._fuse)
        self._channel = self._calls.next_channel(self._session, None)
        self._fd = self._calls.channel_fd(self._channel)

    def serve(self, ready: Callable[[], None]) -> None:
        """See `Engine.serve`."""
        if not _LINUX:
            ready()
            self._calls.loop(self._fuse)
            return
        from vfs.mount.requests import Requests

        size = self._calls.channel_buffer_size(self._channel)
        buffer = ctypes.create_string_buffer(size)
        requests = Requests(
            self._fd, self._operations, self._callbacks, self._caller, timeout=_TIMEOUT, buffer=buffer
        )
        self._nodes = requests.nodes
        try:
            self._loop(requests, buffer, size, ready)
        finally:
            self._nodes = list
            requests.close()

    def _loop(
        self,
        requests: "Requests",
        buffer: "ctypes.Array[ctypes.c_char]",
        size: int,
        ready: Callable[[], None],
    ) -> None:
        receive, process, exited = self._calls.receive, self._calls.process, self._calls.session_exited
        session, own, handle, stopping = self._session, self._channel, requests.handle, self._stopping
        channel = ctypes.c_void_p(own)
        by_reference = ctypes.byref(channel)
        got = 0

        def give(other: int | None) -> None:
            process(session, buffer, got, other or own)

        first = True
        while not stopping.is_set():
            got = receive(by_reference, buffer, size)
            if got <= 0:
                if got in (-errno.EINTR, -errno.EAGAIN):
                    continue
                return
            handle(give)
            if first:
                first = False
                ready()
            if exited(session):
                return

    def stop(self) -> None:
        """See `Engine.stop`; whoever calls sees to it that a system call in progress is interrupted."""
        self._stopping.set()
        if self._session:
            self._calls.session_exit(self._session)

    def forget(self) -> None:
        """See `Engine.forget`."""
        if _LINUX and self._fd >= 0:
            drop_names(self._fd)
            drop_pages(self._fd, self._nodes())

    def unmount(self) -> None:
        """See `Engine.unmount`."""
        fuse, fd, self._fuse, self._fd = self._fuse, self._fd, None, -1
        if fuse is None:
            return
        if _LINUX and find_mount(self._mount_point) is None:
            # Gone here, but another namespace (a jail) may still hold it: that ends with the descriptor.
            os.close(fd)
        else:
            self._calls.teardown(fuse, self._where)

    def _ask_caller(self) -> None:
        """Ask libfuse who calls, where the loop is libfuse's own."""
        self._caller.uid, _, self._caller.pid = self._calls.context()

    def _mount_options(self) -> Iterator[str]:
        yield from ("fsname=vfs", "subtype=vfs", "nosuid", "nodev", "hard_remove", "use_ino", "auto_cache")
        yield from (f"attr_timeout={_TIMEOUT}", f"entry_timeout={_TIMEOUT}", "negative_timeout=0")
        if self._options.allow_other:
            yield "allow_other"
        if _LINUX:
            yield from ("atomic_o_trunc", "big_writes")
            yield from (f"max_read={_LARGEST}", f"max_write={_LARGEST}")


@contextlib.contextmanager
def _captured_stderr() -> Iterator[list[str]]:
    """Take what the library and its helper write to standard error; the list holds the lines afterwards."""
    lines: list[str] = []
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        saved = os.dup(2)
        try:
            os.dup2(file.fileno(), 2)
            yield lines
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            lines += file.read().decode("utf-8", "replace").split("\n")
