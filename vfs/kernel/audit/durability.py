"""Waiting for the disk together.

One flush of the disk covers every row written before it began, so threads that wait at the same time share
one: the first becomes the leader and flushes, the others follow and, if their row came too late for that
flush, elect the next leader among them.
"""

import threading
from collections.abc import Callable

from vfs.kernel.audit import failure

__all__ = ["GroupCommit"]


class GroupCommit:
    """`flush` brings everything written so far to the disk and returns the last sequence number it covers."""

    def __init__(self, flush: Callable[[], int], path: str) -> None:
        self._flush = flush
        self._path = path
        self._changed = threading.Condition()
        self._safe = 0
        self._has_leader = False
        self._failure: OSError | None = None

    def check(self) -> None:
        """Raise AuditUnavailableError once a flush has failed.

        After a failed flush the kernel may count the lost pages as clean, so that a second try would
        succeed without having written them. Hence no second try.
        """
        if self._failure is not None:
            raise failure.from_os(self._failure, self._path)

    def wait_for(self, sequence: int) -> None:
        """Return once that row is on the disk; AuditUnavailableError if it cannot be known to be."""
        while True:
            with self._changed:
                while self._has_leader and self._safe < sequence:
                    self._changed.wait()
                self.check()
                if self._safe >= sequence:
                    return
                self._has_leader = True
            self._lead()

    def _lead(self) -> None:
        safe = 0
        try:
            safe = self._flush()
        except OSError as error:
            self._failure = error
        finally:
            with self._changed:
                self._safe = max(self._safe, safe)
                self._has_leader = False
                self._changed.notify_all()
