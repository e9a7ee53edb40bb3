"""Size quotas per zone.

A scope is what has one quota: a zone of one workspace, or one session's directory. Its use is counted once by
walking it and from then on kept in the state database, which all processes share. So that not every write is
a transaction, a ledger takes bytes from the shared count in portions and spends them locally; near the limit
the portions shrink to what is needed, so the quota is never exceeded and never refuses what still fits.
What a killed process had taken and not spent comes back at the next count.
"""

import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vfs.kernel.errors import QuotaExceededError
from vfs.kernel.ports import Backend
from vfs.kernel.state import StateDatabase

__all__ = ["Ledger", "measure"]

PORTION = 1 << 20


def measure(backend: Backend, path: str = "") -> int:
    """Return the bytes in all regular files below `path`, each hard-linked file once."""
    total, seen, directories = 0, set(), [path]
    while directories:
        directory = directories.pop()
        for entry in backend.scan(directory):
            child = f"{directory}/{entry.name}" if directory else entry.name
            if stat.S_ISDIR(entry.type):
                directories.append(child)
            elif stat.S_ISREG(entry.type) and entry.ino not in seen:
                try:
                    found = backend.stat(child)
                except FileNotFoundError:
                    continue  # removed while we looked
                if found.nlink > 1:
                    seen.add(entry.ino)
                total += found.size
    return total


class Ledger:
    """The account of one scope with a limit in bytes. Thread-safe; several processes may share the scope."""

    def __init__(self, state: StateDatabase, scope: str, limit: int, count: Callable[[], int]) -> None:
        self.limit = limit
        self._state = state
        self._scope = scope
        self._count = count
        self._lock = threading.Lock()
        self._spare = 0
        """Bytes taken from the shared count and not spent; negative never."""

    def spend(self, growth: int, path: str) -> None:
        """Account for `growth` more bytes (negative: given back). Raises QuotaExceededError if too many."""
        with self._lock:
            if growth <= self._spare and self._spare - growth <= 2 * PORTION:
                self._spare -= growth
                return
            wanted = growth - self._spare
            if wanted <= 0:
                self._take(wanted + PORTION, 0, path)
                self._spare = PORTION
            else:
                self._spare = self._take(wanted, PORTION, path)

    @contextmanager
    def growing(self, growth: int, path: str) -> Iterator[None]:
        """Account for `growth` bytes that the block writes, and for none if the block fails."""
        self.spend(growth, path)
        try:
            yield
        except BaseException:
            self.spend(-growth, path)
            raise

    def settle(self) -> None:
        """Give back what was taken and not spent."""
        with self._lock:
            if self._spare:
                self._take(-self._spare, 0, "")
                self._spare = 0

    def used(self) -> int:
        """Return the bytes in use, unspent portions of other processes included."""
        return self._take(0, 0, "", report=True)

    def recount(self) -> None:
        """Count anew at the next use; for when a process was killed or files changed on the host."""
        with self._state.transaction() as database:
            database.execute("DELETE FROM usage WHERE scope = ?", (self._scope,))

    def _take(self, wanted: int, extra: int, path: str, *, report: bool = False) -> int:
        """Add `wanted`, and up to `extra` more if it fits, to the shared count; return the extra taken."""
        with self._state.transaction() as database:
            row = database.execute("SELECT bytes FROM usage WHERE scope = ?", (self._scope,)).fetchone()
            used = int(row[0]) if row else self._count()
            if report:
                taken = 0
            elif used + wanted > self.limit and wanted > 0:
                raise QuotaExceededError(
                    f"`{path}` needs {wanted:,} bytes more, and {max(0, self.limit - used):,} of the quota"
                    f" of {self.limit:,} are left",
                    path,
                    hint="remove files, or raise the quota in vfs.toml",
                )
            else:
                taken = max(0, min(extra, self.limit - used - wanted))
            database.execute(
                "INSERT INTO usage (scope, bytes, counted_at) VALUES (?, ?, ?)"
                " ON CONFLICT (scope) DO UPDATE SET bytes = excluded.bytes",
                (self._scope, max(0, used + wanted + taken), time.time()),
            )
        return used if report else taken
