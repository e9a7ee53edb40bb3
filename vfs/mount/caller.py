"""Who is at work: the process whose call the mount is answering."""

import os
from collections import OrderedDict

from vfs.kernel.audit import Actor

__all__ = ["Caller"]

_KEPT = 16


class Caller:
    """The process behind the request that is being answered; calling it gives the `Actor` for a row.

    The engine sets `pid` and `uid` for each request. The command's name is asked of `/proc` only when a row
    is written. A descriptor on it is kept for the processes seen last: reading it again gives the name that
    the process has now (it may have executed something else meanwhile), and fails once the process is gone,
    whoever has its number then. One thread at a time.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self.pid = 0
        self.uid = 0
        self._proc = proc
        self._open: OrderedDict[int, int] = OrderedDict()

    def __call__(self) -> Actor:
        """Return the process at work, with its command where the system tells."""
        return Actor(self.pid, self.uid, self._command(self.pid))

    def _command(self, pid: int) -> str | None:
        if pid <= 0:
            # A request of the operating system's own (writing back, reading ahead), or from another namespace.
            return None
        fd = self._open.get(pid)
        if fd is not None:
            self._open.move_to_end(pid)
            try:
                return _text(os.pread(fd, 64, 0))
            except OSError:
                del self._open[pid]
                os.close(fd)
        try:
            fd = os.open(f"{self._proc}/{pid}/comm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        self._open[pid] = fd
        if len(self._open) > _KEPT:
            os.close(self._open.popitem(last=False)[1])
        try:
            return _text(os.pread(fd, 64, 0))
        except OSError:
            return None

    def close(self) -> None:
        """Release the descriptors."""
        while self._open:
            os.close(self._open.popitem()[1])


def _text(data: bytes) -> str:
    return data.rstrip(b"\n").decode("utf-8", "backslashreplace")
