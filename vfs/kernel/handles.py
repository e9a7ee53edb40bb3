"""Open files: what was granted at the open is granted again at each use after the rules changed."""

import errno
import os
import stat
from collections.abc import Callable, Sequence

from vfs.kernel.audit import Recorder
from vfs.kernel.door import Claim, Door, outcome_of, translate
from vfs.kernel.errors import FileSystemError, SandboxError, from_os_error
from vfs.kernel.paths import VirtualPath
from vfs.kernel.policy import Decision
from vfs.kernel.ports import BackendFile, Stat
from vfs.kernel.quota import Ledger
from vfs.kernel.trust import Operation

__all__ = ["Handle", "plain_mode"]

_NEW = os.O_CREAT | os.O_EXCL


def plain_mode(mode: int) -> int:
    """Return the mode without set-user-id and set-group-id: a file must not run as somebody else on the host."""
    return mode & ~(stat.S_ISUID | stat.S_ISGID)


class Handle:
    """A file that a session has open; has the shape of `vfs.kernel.ports.BackendFile`.

    On the log: the open (written by whoever opens), the first write before it takes effect, and at the close
    the outcome with the bytes read and written. When the session's trust or the rules have changed since, the
    next use demands the same rights again. Thread-safe as far as the backend's file is.
    """

    def __init__(
        self,
        file: BackendFile,
        *,
        door: Door,
        recorder: Recorder,
        claims: Sequence[Claim],
        sequences: Sequence[int],
        account: Ledger | None,
        number: Callable[[int], int],
        flags: int,
    ) -> None:
        self._file = file
        self._door = door
        self._recorder = recorder
        self._claims = claims
        self._sequences = sequences
        self._account = account
        self._number = number
        self._appends = bool(flags & os.O_APPEND)
        self._is_new = flags & _NEW == _NEW
        self._inode = 0
        self._epoch = door.epoch()
        self._wrote = False
        self._closed = False
        self._rights = {claim.operation for claim in claims}
        self._failure = "ok"
        self.bytes_read = 0
        self.bytes_written = 0
        if account is not None:
            self._inode = file.stat().ino
            account.opened(self._inode)

    @property
    def path(self) -> VirtualPath:
        """Return the path under which it was opened."""
        return self._claims[0].path

    @property
    def closed(self) -> bool:
        """Tell whether it was closed."""
        return self._closed

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to `size` bytes from `offset`, fewer only at the end."""
        self._recheck()
        self._need(Operation.READ)
        try:
            data = self._file.pread(size, offset)
        except OSError as error:
            raise self._failed(error) from error
        self.bytes_read += len(data)
        return data

    def pwrite(self, data: bytes, offset: int) -> int:
        """Write all of `data` at `offset` (at the end after O_APPEND) and return its length."""
        self._before_change()
        try:
            if self._account is None:
                done = self._file.pwrite(data, offset)
            else:
                with self._account.alone():
                    size = self._file.stat().size
                    end = (size if self._appends else offset) + len(data)
                    with self._account.growing(max(0, end - size), str(self.path)):
                        done = self._file.pwrite(data, offset)
        except (OSError, SandboxError) as error:
            raise self._failed(error) from error
        self.bytes_written += done
        return done

    def truncate(self, size: int) -> None:
        """Cut or extend to `size` bytes."""
        self._before_change()
        try:
            if self._account is None:
                self._file.truncate(size)
            else:
                with (
                    self._account.alone(),
                    self._account.growing(size - self._file.stat().size, str(self.path)),
                ):
                    self._file.truncate(size)
        except (OSError, SandboxError) as error:
            raise self._failed(error) from error

    def stat(self) -> Stat:
        """Return the metadata now; a handle may always know of its own file."""
        found = self._file.stat()
        return Stat(found[0], found[1], self._number(found[2]), *found[3:])

    def set_times(self, atime_ns: int | None, mtime_ns: int | None) -> None:
        """Set the times given."""
        self._before_change()
        self._file.set_times(atime_ns, mtime_ns)

    def set_mode(self, mode: int) -> None:
        """Set the permission bits."""
        self._before_change()
        self._file.set_mode(plain_mode(mode))

    def sync(self, *, data_only: bool) -> None:
        """Return when what was written has reached stable storage."""
        try:
            self._file.sync(data_only=data_only)
        except OSError as error:
            raise self._failed(error) from error

    def fileno(self) -> int | None:
        """Return the operating system's descriptor, where there is one."""
        return self._file.fileno()

    def close(self) -> None:
        """Release the file and record the outcome; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            self._settle()
            self._file.close()
        except OSError as error:
            self._failure = outcome_of(error)
            translate(error, self.path)
        finally:
            for sequence in self._sequences:
                self._recorder.outcome(
                    sequence, self._failure, bytes_read=self.bytes_read, bytes_written=self.bytes_written
                )

    def _settle(self) -> None:
        if self._account is not None:
            last = self._file.stat()
            self._account.closed(self._inode, is_gone=last.nlink == 0, size=last.size, path=str(self.path))

    def _before_change(self) -> None:
        self._recheck()
        self._need(Operation.WRITE)
        if not self._wrote:
            for claim, sequence in zip(self._claims, self._sequences, strict=True):
                if claim.operation is Operation.WRITE:
                    self._recorder.first_write(sequence)
            self._wrote = True

    def _need(self, operation: Operation) -> None:
        """Refuse what the file was not opened for, as the operating system does."""
        if operation not in self._rights:
            raise FileSystemError(errno.EBADF, f"the file is not open for {operation}", str(self.path))

    def _recheck(self) -> None:
        epoch = self._door.epoch()
        if epoch == self._epoch:
            return
        for claim in self._claims:
            decision = self._door.decide(*claim)
            # What an approver allowed at the open stays allowed for this handle.
            if not decision.allowed and not decision.ask:
                raise self._door.refuse("use", claim, decision)
            if decision.create_only and not self._is_new:
                only = Decision(False, "matrix", "untrusted sessions may only write files that they made")
                raise self._door.refuse("use", claim, only)
        self._epoch = epoch

    def _failed(self, error: OSError | SandboxError) -> SandboxError:
        self._failure = outcome_of(error)
        return error if isinstance(error, SandboxError) else from_os_error(error, str(self.path))
