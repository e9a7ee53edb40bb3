"""Telling the operating system to forget what it keeps of a mount, through the descriptor of `/dev/fuse`.

Attributes and names are kept for a second at most, but pages of a file that is open or mapped for as long as
it is. Once they are dropped, the next read, or the next touch of a mapping, comes back to the server, and the
open file is judged again.

Dropping pages waits for those that are being read or written, thus for the thread that answers: do it from
another one, and hold no lock that it may need.
"""

import errno
import os
import struct
from collections.abc import Iterable

from vfs.mount import wire

__all__ = ["drop_attributes", "drop_names", "drop_pages"]

_INVALIDATE_INODE = 2
_INCREMENT_EPOCH = 8  # since Linux 6.16; before, names live out their second
_INODE = struct.Struct("=Qqq")
_GONE = (errno.ENOENT, errno.ENODEV, errno.EBADF, errno.EINVAL)


def drop_pages(fd: int, nodes: Iterable[int]) -> None:
    """Drop the attributes and all pages of `nodes`; one that is unknown, or a mount that is gone, is fine."""
    for node in nodes:
        _notify(fd, _INVALIDATE_INODE, _INODE.pack(node, 0, 0))


def drop_attributes(fd: int, node: int) -> None:
    """Drop the attributes of `node` and no pages; this waits for nothing, so any thread may do it."""
    _notify(fd, _INVALIDATE_INODE, _INODE.pack(node, -1, 0))


def drop_names(fd: int) -> None:
    """Drop every name that was looked up, where the kernel can; otherwise they expire by themselves."""
    _notify(fd, _INCREMENT_EPOCH, b"")


def _notify(fd: int, code: int, body: bytes) -> None:
    try:
        os.write(fd, wire.OUT_HEADER.pack(wire.OUT_HEADER.size + len(body), code, 0) + body)
    except OSError as error:
        if error.errno not in _GONE:
            raise
