"""Size quotas per zone.

A scope is what has one quota: a zone of one workspace, or one session's directory. Its use is counted once by
walking it and from then on kept in the state database, which all processes share. So that not every write is
a transaction, a ledger takes bytes from the shared count in portions and spends them locally; near the limit
the portions shrink to what is needed, so the quota is never exceeded and never refuses what still fits.
What a killed process had taken and not spent comes back at the next count.
"""

import errno
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vfs.kernel.errors import QuotaExceededError, SandboxError
from vfs.kernel.ports import Backend
from vfs.kernel.state import StateDatabase
from vfs.kernel.trees import walk

__all__ = ["Ledger", "measure"]

PORTION = 1 << 20
_UNREACHABLE = frozenset(
    {errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
)


def measure(backend: Backend, path: str = "") -> int:
    """Return the bytes in all regular files below `path` and in the texts of links, each hard-linked one once.

    What cannot be reached counts nothing and stops nothing: a directory (`path` too) that this process may not
    enter, what lies deeper than a path is long, what vanishes meanwhile. Storage that fails raises its OSError,
    so that a count that is no count is never kept.
    """
    total, seen = 0, set()
    for child, entry in walk(backend, path, failed=_pass_over):
        if entry.ino in seen or not (stat.S_ISREG(entry.type) or stat.S_ISLNK(entry.type)):
            continue
        try:
            found = backend.stat(child)
        except OSError as error:
            _pass_over(child, error)
            continue
        if found.nlink > 1:
            seen.add(entry.ino)
        total += found.size
    return total


def _pass_over(_path: str, error: OSError | SandboxError) -> None:
    if error.errno not in _UNREACHABLE:
        raise error


class Ledger:
    """The account of one scope with a limit in bytes. Thread-safe; several processes may share the scope."""

    def __init__(self, state: StateDatabase, scope: str, limit: int, count: Callable[[], int]) -> None:
        self.limit = limit
        self._state = state
        self._scope = scope
        self._count = count
        self._lock = threading.Lock()
        self._changes = threading.RLock()
        self._users: dict[int, int] = {}
        """How many handles are open, by inode."""
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
    def alone(self) -> Iterator[None]:
        """Let nobody else in this process measure or change a file meanwhile."""
        with self._changes:
            yield

    def opened(self, inode: int) -> None:
        """Take note that a handle on the file is open: its bytes stay until it is closed."""
        with self._changes:
            self._users[inode] = self._users.get(inode, 0) + 1

    def closed(self, inode: int, *, is_gone: bool, size: int, path: str) -> None:
        """Take note that a handle was closed; the last one on a file without a name gives its bytes back."""
        with self._changes:
            left = self._users.pop(inode, 1) - 1
            if left > 0:
                self._users[inode] = left
            elif is_gone:
                self.spend(-size, path)

    def removed(self, inode: int, size: int, path: str) -> None:
        """Give back the bytes of a file that has lost its last name, now or when it is closed."""
        with self._changes:
            if inode not in self._users:
                self.spend(-size, path)

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
