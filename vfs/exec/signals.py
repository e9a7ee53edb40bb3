"""Signals as something to wait for, instead of something that interrupts at any point."""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["Signals"]

_HANDLED = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH,
)  # fmt: skip


class Signals:
    """While it is entered, signals to this process are kept in order instead of acting.

    What was ignored before (`nohup`) stays ignored. Only the main thread can take signals: entered in another
    one, it takes none, and they act as they did.
    """

    def __init__(self) -> None:
        self._kept: list[int] = []
        self._before: dict[int, Any] = {}
        self._readable = self._writable = -1

    def fileno(self) -> int:
        """Return a descriptor that is readable while signals are waiting to be taken."""
        return self._readable

    @property
    def pending(self) -> tuple[int, ...]:
        """The signals that have come and were not taken."""
        return tuple(self._kept)

    def take(self) -> list[int]:
        """Return the signals that have come since the last call, in order."""
        while True:
            try:
                if not os.read(self._readable, 512):
                    break
            except BlockingIOError:
                break
        kept, self._kept = self._kept, []
        return kept

    def __enter__(self) -> Self:
        self._readable, self._writable = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        if threading.current_thread() is threading.main_thread():
            for number in _HANDLED:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._keep)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._before:
            signal.signal(*self._before.popitem())
        os.close(self._readable)
        os.close(self._writable)
        self._readable = self._writable = -1

    def _keep(self, number: int, _frame: FrameType | None) -> None:
        self._kept.append(number)
        try:
            os.write(self._writable, b"\0")
        except BlockingIOError:
            return  # it is readable already
