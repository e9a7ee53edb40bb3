"""The FUSE protocol, as far as requests and replies are looked at here (linux/fuse.h, protocol 7)."""

import struct
from typing import Final

from vfs.kernel.ports import Stat

__all__ = [
    "ACCESS",
    "CREATE",
    "FLUSH",
    "GETATTR",
    "GETXATTR",
    "HEADER",
    "LINK",
    "OPEN",
    "OPENDIR",
    "RELEASE",
    "SETATTR",
    "attributes",
    "reply",
]

GETATTR: Final = 3
SETATTR: Final = 4
LINK: Final = 13
OPEN: Final = 14
RELEASE: Final = 18
GETXATTR: Final = 22
FLUSH: Final = 25
OPENDIR: Final = 27
ACCESS: Final = 34
CREATE: Final = 35

HEADER: Final = struct.Struct("=IIQQIIII")
"""fuse_in_header: length, opcode, unique, node, uid, gid, pid, lengths of extensions."""

HANDLE: Final = struct.Struct("=Q")
"""What a release and a flush begin with, the number of the open file; what a link begins with, the old node."""

SETATTR_IN: Final = struct.Struct("=IIQQQQQQIIIIII")
"""fuse_setattr_in: valid, padding, fh, size, lock owner, atime, mtime, ctime, their nanoseconds, mode, …"""

SET_MODE: Final = 1 << 0
SET_ATIME: Final = 1 << 4
SET_MTIME: Final = 1 << 5
SET_ATIME_NOW: Final = 1 << 7
SET_MTIME_NOW: Final = 1 << 8
SET_CTIME: Final = 1 << 10

GETXATTR_SIZE: Final = 8
"""Bytes of fuse_getxattr_in, after which the name follows."""

OUT_HEADER: Final = struct.Struct("=IiQ")
"""fuse_out_header: length, negative errno, unique; in a notification its code, and 0."""

_ATTRIBUTES: Final = struct.Struct("=QII6Q3I7I")


def reply(unique: int, data: bytes = b"", error: int = 0) -> bytes:
    """Return the answer to a request: `data`, or an errno."""
    return OUT_HEADER.pack(OUT_HEADER.size + len(data), -error, unique) + data


def attributes(found: Stat, seconds: int) -> bytes:
    """Return fuse_attr_out: metadata that may be kept for `seconds`."""
    atime, atime_ns = divmod(found.atime_ns, 10**9)
    mtime, mtime_ns = divmod(found.mtime_ns, 10**9)
    ctime, ctime_ns = divmod(found.ctime_ns, 10**9)
    mask = 0xFFFF_FFFF_FFFF_FFFF
    return _ATTRIBUTES.pack(
        seconds, 0, 0, found.ino, found.size, found.blocks, atime & mask, mtime & mask, ctime & mask,
        atime_ns, mtime_ns, ctime_ns, found.mode, found.nlink, found.uid, found.gid, 0, 0, 0,
    )  # fmt: skip
