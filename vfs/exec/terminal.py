"""A terminal for an interactive command, made for it alone and shown through the caller's.

The command gets a pseudo-terminal of its own, so that nothing it does to its terminal (pushing back input,
changing modes, becoming its foreground process group) is done to the caller's.
"""

import contextlib
import fcntl
import os
import sys
import termios
import tty
from types import TracebackType
from typing import Any, Self

__all__ = ["Terminal", "is_interactive"]

_CHUNK = 65536
_ENOUGH = 1 << 16


def is_interactive() -> bool:
    """Tell whether this process reads from a terminal and writes to one."""
    try:
        return os.isatty(sys.stdin.fileno()) and os.isatty(sys.stdout.fileno())
    except (AttributeError, OSError, ValueError):  # closed, or not a real stream
        return False


class Terminal:
    """The caller's terminal, lent to one command while it is entered, and given back as it was.

    `inside` is the command's end, to be given to it as its standard streams and then closed here with
    `started`. One thread at a time.
    """

    def __init__(self, reads: int = 0, writes: int = 1) -> None:
        self.reads = reads
        self._writes = writes
        self._saved: list[Any] | None = None
        self._typed = b""
        self.outside, self.inside = -1, -1

    def __enter__(self) -> Self:
        self.outside, self.inside = os.openpty()
        os.set_blocking(self.outside, False)
        self.resize()
        self._saved = termios.tcgetattr(self.reads)
        termios.tcsetattr(self.inside, termios.TCSANOW, self._saved)
        self.take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()
        self.started()
        os.close(self.outside)

    def take(self) -> None:
        """Let every key through unread, to the command's terminal, which gives it its meaning."""
        tty.setraw(self.reads, termios.TCSADRAIN)

    def give_back(self) -> None:
        """Restore the caller's terminal."""
        if self._saved is not None:
            with contextlib.suppress(termios.error, OSError):  # it has gone away, nothing to restore
                termios.tcsetattr(self.reads, termios.TCSADRAIN, self._saved)

    def started(self) -> None:
        """Close the command's end here, so that the end of the command is seen."""
        if self.inside >= 0:
            os.close(self.inside)
            self.inside = -1

    def resize(self) -> None:
        """Give the command's terminal the size of the caller's; the command gets SIGWINCH if that is news."""
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(self.reads, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(self.outside, termios.TIOCSWINSZ, size)

    @property
    def wants_input(self) -> bool:
        """Whether to read on: no more than a screenful waits for a command that does not read."""
        return len(self._typed) < _ENOUGH

    @property
    def has_input(self) -> bool:
        """Whether typed characters wait to be passed on."""
        return bool(self._typed)

    def read(self) -> bool:
        """Take what was typed; return False when the caller's terminal has ended."""
        try:
            data = os.read(self.reads, _CHUNK)
        except OSError:
            return False
        self._typed += data
        return bool(data)

    def pass_on(self) -> None:
        """Give the command what was typed, as far as it takes it."""
        with contextlib.suppress(OSError):
            self._typed = self._typed[os.write(self.outside, self._typed) :]

    def show(self) -> bool:
        """Show what the command has written; return False once nothing more can come."""
        try:
            data = os.read(self.outside, _CHUNK)
        except BlockingIOError:
            return True
        except OSError:  # EIO: nobody has the command's end any more
            return False
        while data:
            try:
                data = data[os.write(self._writes, data) :]
            except OSError:  # the caller's terminal is gone; SIGHUP says so
                return False
        return True

    def drain(self) -> None:
        """Show what the command wrote last; does not wait for more."""
        with contextlib.suppress(OSError):
            while data := os.read(self.outside, _CHUNK):
                os.write(self._writes, data)
