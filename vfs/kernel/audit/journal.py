"""The journal: where a row is before the act it records.

An append-only file of lines `<hash> <record>`. One `write` per row, so the row has reached the operating
system when `append` returns: a process killed at any moment leaves no effect without its row. Rows move on
to the store (`store.py`) in batches, after which the file is replaced by a new one whose first line, the
`carry` line, names the chain and the row it continues after.

**Many processes** append to one chain. An appender holds `lock` (flock); one `lseek` then tells whether the
file has grown since its own last row. If so it reads what was added. Whoever replaces the file first adds a
line `rotated` to the old one, so its size gives that away too.

**Repair.** What stands after the last whole row (a write cut short by a power cut or a kill) was never
acknowledged. The next appender keeps a copy in `torn-<sequence>`, cuts it off, and records that (`recovery`).
A file that is shorter than it was, or gone, is not repaired: appending fails until somebody has looked.

**Lock order**: the store's lock, `_mutex`, flock. Nothing is called while holding the last two except the
signer of heads (`heads.py`), before the row whose turn it is.

**Fork**: descriptors, locks and the writer are made anew in the child.
"""

import contextlib
import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple

from vfs.kernel.audit import failure
from vfs.kernel.audit.durability import GroupCommit
from vfs.kernel.audit.fork import renew_after_fork
from vfs.kernel.audit.record import (
    ZERO_HASH,
    Carry,
    chain_hash,
    genesis_record,
    last_row,
    parse_carry,
    recovery_body,
)
from vfs.kernel.audit.writers import Writer
from vfs.kernel.errors import AuditUnavailableError

__all__ = ["NAME", "Durability", "Extent", "Journal"]

NAME: Final = "journal"
LOCK_NAME: Final = "lock"
ROTATED: Final = b"rotated\n"
SIZE_LIMIT: Final = 64 << 20
"""Bytes up to which the journal grows while the database cannot take its rows; then appending fails."""
ALARM_EVERY: Final = 4 << 20
"""Bytes after which `on_growth` is called, for somebody to move rows to the store."""
CHECK_EVERY: Final = 64
"""Rows after which an appender looks whether the file it holds is still the one in the directory."""

Durability = Literal["os", "disk"]

_LOCK_EX: Final = fcntl.LOCK_EX
_LOCK_UN: Final = fcntl.LOCK_UN


class Extent(NamedTuple):
    """A part of the journal that the store may not have yet; `descriptor` is the receiver's to close."""

    descriptor: int
    generation: int
    start: int
    end: int


class Journal:
    """The appender's end of the chain in one audit directory. Safe to use from any thread.

    `sign_head(sequence, hash)` is called for the newest row before each row whose number `head_every`
    divides; if it raises, nothing is appended. `on_growth()` is called, without locks, each time the file
    has grown by `ALARM_EVERY` bytes.
    """

    def __init__(
        self,
        directory: str,
        *,
        durability: Durability,
        head_every: int,
        sign_head: Callable[[int, str], None],
        on_growth: Callable[[], None],
        size_limit: int = SIZE_LIMIT,
    ) -> None:
        self.path: Final = os.path.join(directory, NAME)
        self.chain = ""
        self.key_id = ""
        self.pending_text = ""
        """What marks a record as begun by this writer: `,"pending":"<writer id>"`."""
        self._directory = directory
        self._is_durable = durability == "disk"
        self._head_every = head_every
        self._sign_head = sign_head
        self._on_growth = on_growth
        self._size_limit = size_limit
        self._mutex = threading.Lock()
        self._group = GroupCommit(self._flush_to_disk, self.path)
        self._lock_fd = -1
        self._fd = -1
        self._writer: Writer | None = None
        self._unfinished = 0
        self._has_appended = False
        # The newest row known, and where it ends in the file.
        self._end = -1
        self._sequence = 0
        self._hash = ZERO_HASH
        self._time = 0
        # How far the store has the file of this generation: bytes, and the row that ends there.
        self._generation = 0
        self._stored_end = 0
        self._stored = Carry("", "", 0, 0, ZERO_HASH)
        self._alarm = ALARM_EVERY

    def open(self, genesis: Callable[[], tuple[str, str, str]], *, may_begin: Callable[[], bool]) -> None:
        """Open the file, or begin a chain with what `genesis` returns: chain id, key id, public key.

        `may_begin` says whether there is no older part of the chain, without which a missing journal is
        an honest beginning and not a loss.
        """
        try:
            self._lock_fd = _open(os.path.join(self._directory, LOCK_NAME), os.O_RDWR | os.O_CREAT)
            with self._locked(catch_up=False):
                if not os.path.lexists(self.path):
                    if not may_begin():
                        raise failure.damaged(self.path, "is missing, though there are older rows")
                    record = genesis_record(time.time_ns(), *genesis())
                    self._install(f"{chain_hash(ZERO_HASH, record)} {record}\n".encode())
                self._reopen()
            self._enroll()
        except OSError as error:
            self._release()
            raise failure.from_os(error, str(error.filename or self.path)) from error
        except BaseException:
            self._release()
            raise
        renew_after_fork(self)

    def close(self) -> None:
        """Release everything; appending then fails. A second call does nothing."""
        with self._mutex:
            writer, self._writer = self._writer, None
            if writer is not None and self._unfinished:
                writer.abandon()  # the next to open the log finds it dead, and reports what it left
            elif writer is not None:
                writer.close()
            self._release()

    @property
    def is_open(self) -> bool:
        """Whether rows can be appended."""
        return self._fd >= 0

    def append(self, body: str, unfinished: int = 0) -> int:
        """Append a row and return its sequence number.

        `body` is the record from its `kind` on, with a leading comma and the closing brace; `unfinished`
        is 1 for an entry that needs an outcome and -1 for an outcome. Raises
        AuditUnavailableError, with nothing recorded, if the row cannot be written, its predecessor cannot
        be learnt, or a head is due and cannot be written; with durability `disk` also if the row was
        written but cannot be known to be on the disk.
        """
        if self._is_durable:
            self._group.check()
        with self._mutex:
            try:
                fcntl.flock(self._lock_fd, _LOCK_EX)
                try:
                    if os.lseek(self._fd, 0, os.SEEK_END) != self._end:
                        self._catch_up()
                    sequence = self._append(body)
                    self._unfinished += unfinished
                finally:
                    fcntl.flock(self._lock_fd, _LOCK_UN)
            except (OSError, ValueError) as error:
                raise self._unavailable(error) from error
        if self._is_durable:
            self._group.wait_for(sequence)
        if self._end >= self._alarm:
            self._alarm = self._end + ALARM_EVERY
            self._on_growth()
        return sequence

    def sync(self) -> None:
        """Return when every row is on the disk, whatever the durability."""
        with self._guarded():
            sequence = self._sequence
        self._group.wait_for(sequence)

    def sign_newest(self) -> None:
        """Have a head signed for the newest row, whoever wrote it, if this process wrote any."""
        with self._guarded():
            if self._has_appended:
                self._sign_head(self._sequence, self._hash)

    @property
    def size(self) -> int:
        """Bytes in the file, as far as this process knows."""
        return max(self._end, 0)

    # For the store

    def unstored(self) -> Extent | None:
        """Return the part that was not yet reported as stored, or None if there is none."""
        with self._guarded():
            if self._stored_end == self._end:
                return None
            return Extent(os.dup(self._fd), self._generation, self._stored_end, self._end)

    def mark_stored(self, extent: Extent, end: int, sequence: int, moment: int, row_hash: str) -> None:
        """Take note that the store has, safely, everything up to byte `end`, where that row ends."""
        with self._mutex:
            if extent.generation == self._generation:
                self._stored_end = end
                self._stored = Carry(self.chain, self.key_id, sequence, moment, row_hash)

    def rotate(self, beyond: int = 0) -> None:
        """Replace the file by one without the rows reported as stored, if those exceed `beyond` bytes."""
        with self._guarded():
            if self._stored.sequence == 0 or self._stored_end <= beyond:
                return
            carry = self._stored.line()
            rest = _pread(self._fd, self._stored_end, self._end)
            os.write(self._fd, ROTATED)
            try:
                self._install(carry + rest)
            except BaseException:
                os.ftruncate(self._fd, self._end)
                raise
            stored = self._stored
            self._reopen()
            self._stored, self._stored_end = stored, len(carry)
            self._alarm = self._end + ALARM_EVERY

    # With the locks held

    def _append(self, body: str) -> int:
        """Write one row; the state is current."""
        if self._end > self._size_limit:
            raise AuditUnavailableError(
                f"the journal `{self.path}` has grown beyond {self._size_limit >> 10} KiB, "
                "because the audit database does not take its rows",
                hint="see `vfs doctor`; close programs that hold the database, free space on its disk",
            )
        sequence = self._sequence + 1
        if not sequence % CHECK_EVERY:
            self._check_place()
        if not sequence % self._head_every:
            self._sign_head(self._sequence, self._hash)
        now = time.time_ns()
        if now < self._time:  # the clock was set back; queries by time rely on being told
            body = f'{body[:-1]},"skew":{self._time - now}}}'
        record = f'{{"seq":{sequence},"time":{now}{body}'
        digest = hashlib.sha256((self._hash + record).encode()).hexdigest()
        line = f"{digest} {record}\n".encode()
        try:
            written = os.write(self._fd, line)
        except OSError:
            self._undo()
            raise
        if written != len(line):
            self._undo()
            raise AuditUnavailableError(
                f"cannot record: `{self.path}` takes only part of a row",
                hint="free space on the disk that holds it, or raise the file size limit (`ulimit -f`)",
            )
        self._end += written
        self._sequence = sequence
        self._hash = digest
        self._time = now
        self._has_appended = True
        return sequence

    def _undo(self) -> None:
        # If this fails too, the rest of the row is a torn tail, and whoever appends next cuts it off.
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, self._end)

    def _check_place(self) -> None:
        try:
            there, here = os.stat(self.path, follow_symlinks=False), os.fstat(self._fd)
        except FileNotFoundError as error:
            raise failure.damaged(self.path, "was removed while in use") from error
        if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
            raise failure.damaged(self.path, "was replaced while in use")

    def _catch_up(self) -> None:
        """Learn what others did since: more rows, or a new file."""
        status = os.fstat(self._fd)
        if status.st_nlink == 0:
            self._reopen()
        elif status.st_size < self._end:
            raise failure.damaged(
                self.path, f"is shorter than it was: {status.st_size} bytes, not {self._end}"
            )
        else:
            self._learn(max(self._end, 0), status.st_size)

    def _reopen(self) -> None:
        try:
            descriptor = _open(self.path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError as error:
            raise failure.damaged(self.path, "was removed while in use") from error
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = descriptor
        self._generation += 1
        self._learn(0, os.fstat(descriptor).st_size)

    def _learn(self, start: int, end: int) -> None:
        """Take the newest row from the bytes `start` to `end`, and cut off what is no row."""
        data = _pread(self._fd, start, end)
        if start == 0:
            carry = parse_carry(data[: data.find(b"\n") + 1])
            if carry is None:
                raise failure.damaged(self.path, "has no valid first line")
            self.chain, self.key_id = carry.chain, carry.key
            self._sequence, self._time, self._hash = carry.sequence, carry.time, carry.hash
            self._stored, self._stored_end = carry, 0 if carry.sequence == 0 else data.find(b"\n") + 1
            self._end = self._stored_end
        length, row = last_row(data)
        if row is not None:
            self._sequence, self._time, self._hash = row.sequence, row.time, row.hash
            self._end = start + length
        torn = data[self._end - start :]
        if torn:
            if torn != ROTATED:
                self._keep_torn(torn)
            os.ftruncate(self._fd, self._end)
            if torn != ROTATED:
                self._append(recovery_body(torn))

    def _keep_torn(self, torn: bytes) -> None:
        with contextlib.suppress(FileExistsError):
            name = os.path.join(self._directory, f"torn-{self._sequence + 1}")
            with open(_open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                file.write(torn)

    def _install(self, content: bytes) -> None:
        """Put a new file with this content in place of the journal, durably."""
        making = self.path + ".new"
        with open(_open(making, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(making, self.path)
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    # Locks, descriptors, forks

    @contextlib.contextmanager
    def _locked(self, *, catch_up: bool = True) -> Iterator[None]:
        with self._mutex:
            fcntl.flock(self._lock_fd, _LOCK_EX)
            try:
                if catch_up and os.lseek(self._fd, 0, os.SEEK_END) != self._end:
                    self._catch_up()
                yield
            finally:
                fcntl.flock(self._lock_fd, _LOCK_UN)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            with self._locked():
                yield
        except (OSError, ValueError) as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> AuditUnavailableError:
        if isinstance(error, AuditUnavailableError):
            return error
        if not self.is_open:
            return AuditUnavailableError(f"cannot record: the audit log `{self._directory}` is closed")
        if isinstance(error, OSError):
            return failure.from_os(error, self.path)
        return AuditUnavailableError(f"cannot record: {error}")

    def _flush_to_disk(self) -> int:
        with self._guarded():
            # A descriptor of its own: the journal may be rotated, and its file closed, while this waits.
            # What is rotated away was made durable by the store and by `_install`.
            descriptor, sequence = os.dup(self._fd), self._sequence
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        return sequence

    def _enroll(self) -> None:
        self._writer = Writer(self._directory)
        self.pending_text = f',"pending":"{self._writer.id}"'

    def _release(self) -> None:
        descriptors = (self._fd, self._lock_fd)
        self._fd = self._lock_fd = self._end = -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)

    def renew(self) -> None:
        """In a forked child: take descriptors, locks and a writer of its own; on failure, be closed."""
        self._mutex = threading.Lock()
        self._group = GroupCommit(self._flush_to_disk, self.path)
        self._unfinished = 0
        self._has_appended = False
        was_open = self.is_open
        self._release()
        if self._writer is not None:
            self._writer.abandon()
            self._writer = None
        if was_open:
            try:
                self._lock_fd = _open(os.path.join(self._directory, LOCK_NAME), os.O_RDWR)
                self._enroll()
                # The first append sees that the end is unknown, and reads where the chain stands.
                self._fd = _open(self.path, os.O_RDWR | os.O_APPEND)
            except OSError:
                self._release()


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _pread(descriptor: int, start: int, end: int) -> bytes:
    parts: list[bytes] = []
    while start < end and (part := os.pread(descriptor, min(end - start, 1 << 24), start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)
