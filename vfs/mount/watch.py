"""What happens to a mount while it serves: the end it is told, and trust that changes.

A thread beside the one that answers. It alone tells the engine to stop and to forget, one after the other:
forgetting waits for pages that are being read, so the answering must go on until it is done.
"""

import os
import select
import signal
import threading
from collections.abc import Callable

__all__ = ["Watch"]

_INTERVAL = 0.1
_PATIENCE = 0.2
"""Seconds until an unmounted mount is taken to live on in another namespace; else it ends with the unmounting."""


class Watch:
    """Watches signals, the parent process, and whether verdicts given before still hold.

    `standing` is asked every tenth of a second and gives a value that changes when they do not; `changed` is
    called then. `end` is called once, when SIGTERM, SIGINT or SIGHUP arrives or `parent`, a descriptor, reads
    as ended; it tells whether serving ends of itself soon. If it does not, `stop` is called and the main thread
    interrupted until `close`. Made in the main thread, which serves; the signals are the watch's from `start`
    to `close`.
    """

    _SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def __init__(
        self,
        *,
        standing: Callable[[], object],
        changed: Callable[[], None],
        end: Callable[[], bool],
        stop: Callable[[], None],
        parent: int | None = None,
    ) -> None:
        self._standing = standing
        self._changed = changed
        self._end = end
        self._stop = stop
        self._parent = parent
        self._finished = threading.Event()
        self._main = threading.get_ident()
        self._thread = threading.Thread(target=self._run, name="vfs-mount-watch", daemon=True)
        self._handlers: list[object] = []
        self._old_wakeup = -1
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)

    def start(self) -> None:
        """Take the signals over and begin to watch."""
        # What arrives is written to the pipe at once, even while the main thread waits in a system call.
        self._handlers = [signal.signal(number, lambda *_: None) for number in self._SIGNALS]
        self._old_wakeup = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        self._thread.start()

    def close(self) -> None:
        """Give the signals back; serving has ended."""
        self._finished.set()
        os.write(self._wake_write, b"\0")
        self._thread.join()
        signal.set_wakeup_fd(self._old_wakeup)
        for number, handler in zip(self._SIGNALS, self._handlers, strict=True):
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal() itself returned
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _run(self) -> None:
        before = self._standing()
        watched = [self._wake_read] if self._parent is None else [self._wake_read, self._parent]
        while True:
            readable, _, _ = select.select(watched, [], [], _INTERVAL)
            if self._finished.is_set():
                return
            if self._wake_read in readable and os.read(self._wake_read, 512).strip(b"\0"):
                break
            if self._parent in readable and not os.read(self._parent, 512):
                break
            now = self._standing()
            if now != before:
                before = now
                self._changed()
        if self._end() and self._finished.wait(_PATIENCE):
            return
        self._stop()
        while not self._finished.wait(0.02):
            # It may be just about to wait for a request, so once is not enough.
            signal.pthread_kill(self._main, signal.SIGTERM)
