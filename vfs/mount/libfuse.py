"""libfuse 2 as fusepy binds it, with what fusepy leaves out.

Importing this module loads the library; it raises OSError where there is none. fusepy's structure of
callbacks ends with `ioctl`, so that libfuse would take later members to be missing, which they shall be; what
is added here are the functions by which a program runs the loop of requests itself.
"""

import ctypes
from typing import Any

import fuse

__all__ = [
    "CHANNEL_SEND",
    "Channel",
    "ChannelOperations",
    "FileInfo",
    "Stat",
    "StatVfs",
    "Timespecs",
    "calls",
    "operations_type",
]

Stat: Any = fuse.c_stat
StatVfs: Any = fuse.c_statvfs
FileInfo: Any = fuse.fuse_file_info
Timespecs: Any = fuse.c_utimbuf
operations_type: Any = fuse.fuse_operations

Channel = ctypes.c_void_p


CHANNEL_SEND = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
"""What sends a reply: the channel, the address of an array of `struct iovec`, its length; 0 or a negative errno."""


class ChannelOperations(ctypes.Structure):
    """`struct fuse_chan_ops`: how a channel receives and sends; what is null is not called."""

    _fields_ = (("receive", ctypes.c_void_p), ("send", CHANNEL_SEND), ("destroy", ctypes.c_void_p))


class _Calls:
    """The functions of the library, typed. Those that wait let other Python threads run meanwhile.

    `process` does not: it calls back into Python at once, and handing the interpreter over twice per request
    costs more than it could give.
    """

    def __init__(self) -> None:
        waiting = fuse._libfuse  # noqa: SLF001 (the one library that is loaded; fusepy has no public name for it)
        direct = ctypes.PyDLL(waiting._name)  # noqa: SLF001 (ctypes' name of the library's file)
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self.setup = _typed(
            waiting.fuse_setup, pointer,
            ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), pointer, size, ctypes.POINTER(pointer),
            ctypes.POINTER(ctypes.c_int), pointer,
        )  # fmt: skip
        self.teardown = _typed(waiting.fuse_teardown, None, pointer, pointer)
        self.loop = _typed(waiting.fuse_loop, ctypes.c_int, pointer)
        self.get_session = _typed(waiting.fuse_get_session, pointer, pointer)
        self.next_channel = _typed(waiting.fuse_session_next_chan, pointer, pointer, pointer)
        self.session_exit = _typed(waiting.fuse_session_exit, None, pointer)
        self.session_exited = _typed(direct.fuse_session_exited, ctypes.c_int, pointer)
        self.channel_fd = _typed(waiting.fuse_chan_fd, ctypes.c_int, pointer)
        self.channel_buffer_size = _typed(waiting.fuse_chan_bufsize, size, pointer)
        self.channel_new = _typed(
            waiting.fuse_chan_new, pointer,
            ctypes.POINTER(ChannelOperations), ctypes.c_int, size, pointer,
        )  # fmt: skip
        self.channel_destroy = _typed(waiting.fuse_chan_destroy, None, pointer)
        self.receive = _typed(waiting.fuse_chan_recv, ctypes.c_int, ctypes.POINTER(pointer), pointer, size)
        self.process = _typed(direct.fuse_session_process, None, pointer, pointer, size, pointer)
        self.context = fuse.fuse_get_context


def _typed(function: Any, result: Any, *arguments: Any) -> Any:
    function.restype = result
    function.argtypes = arguments
    return function


calls = _Calls()
