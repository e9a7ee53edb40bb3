"""What is seen of each request before libfuse takes it, and what is answered without it.

libfuse 2 knows files by path, and so fails what programs do with a file whose name is gone (fstat after
unlink), hides from its callbacks which of the operating system's files a request is about (needed to drop
what is cached of it), and passes on at every write a question whose answer is always no. Here the loop looks
at the request first:

- which node an open file belongs to is kept, read off the open's request and, for a file that is made, off
  the reply;
- attributes of a file that is open are asked of the open file;
- the mode and times of an open file without a name are set on the open file;
- a node whose name is gone by the time it is used is stale, not missing: told so, the operating system looks
  the name up again, and a program does not miss a file that is being replaced;
- a file that got a further name has a new link count under its old one, which libfuse takes for another file;
- attributes outside `user.` are refused, and a flush that has nothing to wait for is answered.
"""

import ctypes
import errno
import os
import stat
import struct
import time
from collections.abc import Callable

from vfs.mount import libfuse, wire
from vfs.mount.callbacks import Callbacks
from vfs.mount.caller import Caller
from vfs.mount.invalidate import drop_attributes
from vfs.mount.operations import Operations, number_of

__all__ = ["Requests"]

_BODY = wire.HEADER.size
_HANDLE_AT = wire.HEADER.size
_XATTR_AT = wire.HEADER.size + wire.GETXATTR_SIZE
_USER = b"user."
_VECTOR = struct.Struct("@NN")  # struct iovec: address and length
_BY_NODE = frozenset({wire.GETATTR, wire.SETATTR, wire.OPENDIR, wire.ACCESS})
"""Requests about a node itself, not about a name in one, besides the opening of a file."""


class Requests:
    """The requests of one mount, from the descriptor of `/dev/fuse`.

    `process` hands the request in the buffer to libfuse, its reply to go through the channel given.
    All methods but `nodes` belong to the one thread that serves.
    """

    def __init__(
        self,
        fd: int,
        operations: Operations,
        callbacks: Callbacks,
        caller: Caller,
        *,
        timeout: int,
        buffer: ctypes.Array[ctypes.c_char],
    ) -> None:
        self._fd = fd
        self._operations = operations
        self._callbacks = callbacks
        self._caller = caller
        self._timeout = timeout
        self._buffer = memoryview(buffer).cast("B")
        self._nodes: dict[int, list[int]] = {}
        self._makes = False
        self._made = 0
        self._answers: dict[int, Callable[[int, int], bool]] = {
            wire.GETATTR: self._getattr,
            wire.SETATTR: self._setattr,
            wire.GETXATTR: self._getxattr,
            wire.FLUSH: self._flush,
        }
        # libfuse keeps the address of the function, not the object.
        self._send = libfuse.CHANNEL_SEND(self._observe)
        self._observed = libfuse.calls.channel_new(
            libfuse.ChannelOperations(None, self._send, None), fd, len(self._buffer), None
        )

    def nodes(self) -> list[int]:
        """Return the nodes that have open files; callable from any thread."""
        return list(self._nodes)

    def handle(self, process: Callable[[int | None], None]) -> None:
        """Answer the request in the buffer; `process` takes the channel, None for its own."""
        _, opcode, unique, node, uid, _, pid, _ = wire.HEADER.unpack_from(self._buffer)
        caller = self._caller
        caller.pid, caller.uid = pid, uid
        answer = self._answers.get(opcode)
        if answer is not None:
            try:
                if answer(node, unique):
                    return
            except Exception as error:  # noqa: BLE001 (an unanswered request would hang the caller)
                self._reply(wire.reply(unique, error=number_of(error)))
                return
            process(self._observed if opcode in _BY_NODE else None)
        elif opcode == wire.OPEN:
            self._callbacks.opened = 0
            process(self._observed)
            if self._callbacks.opened:
                self._nodes.setdefault(node, []).append(self._callbacks.opened)
        elif opcode == wire.CREATE:
            self._callbacks.opened = self._made = 0
            self._makes = True
            process(self._observed)
            self._makes = False
            if self._callbacks.opened and self._made:
                self._nodes.setdefault(self._made, []).append(self._callbacks.opened)
        elif opcode == wire.RELEASE:
            self._forget(node, wire.HANDLE.unpack_from(self._buffer, _HANDLE_AT)[0])
            process(None)
        elif opcode == wire.LINK:
            # Before the answer, so that the caller cannot ask between the two.
            drop_attributes(self._fd, wire.HANDLE.unpack_from(self._buffer, _HANDLE_AT)[0])
            process(None)
        else:
            process(self._observed if opcode in _BY_NODE else None)

    def close(self) -> None:
        """Release the channel; the descriptor is not ours."""
        libfuse.calls.channel_destroy(self._observed)

    # What is answered here

    def _getattr(self, node: int, unique: int) -> bool:
        numbers = self._nodes.get(node)
        if not numbers:
            return False
        self._reply(
            wire.reply(unique, wire.attributes(self._operations.fgetattr(numbers[-1]), self._timeout))
        )
        return True

    def _setattr(self, node: int, unique: int) -> bool:
        numbers = self._nodes.get(node)
        if not numbers or self._operations.fgetattr(numbers[-1]).nlink:
            return False
        fields = wire.SETATTR_IN.unpack_from(self._buffer, _BODY)
        valid = fields[0]
        known = (
            wire.SET_MODE | wire.SET_ATIME | wire.SET_MTIME | wire.SET_ATIME_NOW | wire.SET_MTIME_NOW
            | wire.SET_CTIME
        )  # fmt: skip
        if valid & ~known:
            return False
        number = numbers[-1]
        if valid & wire.SET_MODE:
            self._operations.fchmod(number, stat.S_IMODE(fields[11]))
        if valid & (wire.SET_ATIME | wire.SET_MTIME):
            atime, mtime, atime_ns, mtime_ns = fields[5], fields[6], fields[8], fields[9]
            now = time.time_ns()
            self._operations.futimens(
                number,
                _time(valid, wire.SET_ATIME, wire.SET_ATIME_NOW, atime, atime_ns, now),
                _time(valid, wire.SET_MTIME, wire.SET_MTIME_NOW, mtime, mtime_ns, now),
            )
        self._reply(wire.reply(unique, wire.attributes(self._operations.fgetattr(number), self._timeout)))
        return True

    def _getxattr(self, _node: int, unique: int) -> bool:
        if self._buffer[_XATTR_AT : _XATTR_AT + len(_USER)] == _USER:
            return False
        self._reply(wire.reply(unique, error=errno.ENOTSUP))
        return True

    def _flush(self, _node: int, unique: int) -> bool:
        number = wire.HANDLE.unpack_from(self._buffer, _HANDLE_AT)[0]
        if self._operations.needs_flush(number):
            return False
        self._reply(wire.reply(unique))
        return True

    def _reply(self, data: bytes) -> None:
        try:
            os.write(self._fd, data)
        except OSError as error:
            # ENOENT: the caller was interrupted and no longer waits; ENODEV: it was unmounted meanwhile.
            if error.errno not in (errno.ENOENT, errno.ENODEV):
                raise

    # Which node is open

    def _forget(self, node: int, number: int) -> None:
        numbers = self._nodes.get(node)
        if numbers and number in numbers:
            numbers.remove(number)
            if not numbers:
                del self._nodes[node]

    def _observe(self, _channel: int, vectors: int, count: int) -> int:
        """Send a reply: a missing node as a stale one, and of a file that is made read off the node that it got."""
        try:
            places = _VECTOR.iter_unpack(ctypes.string_at(vectors, _VECTOR.size * count))
            data = b"".join([ctypes.string_at(address, length) for address, length in places])
            if self._makes:
                if count > 1:
                    self._made = wire.HANDLE.unpack_from(data, wire.OUT_HEADER.size)[0]
            elif count == 1:
                _, error, unique = wire.OUT_HEADER.unpack_from(data)
                if error == -errno.ENOENT:
                    data = wire.reply(unique, error=errno.ESTALE)
            os.write(self._fd, data)
        except OSError as error:
            return -(error.errno or errno.EIO)
        return 0


def _time(valid: int, given: int, is_now: int, seconds: int, nanoseconds: int, now: int) -> int | None:
    if not valid & given:
        return None
    if valid & is_now:
        return now
    signed = seconds - (1 << 64) if seconds >> 63 else seconds
    return signed * 10**9 + nanoseconds
