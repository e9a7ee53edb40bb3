"""A session's files: the whole virtual tree in the shape of a backend, every call through the door.

`Files` is what all faces share. It takes absolute virtual paths (`/workspace/data/x`, or the same without
the leading slash), has the methods of `vfs.kernel.ports.Backend` with their meaning, and raises the errors of
`vfs.kernel.errors`. Because it has a backend's shape, whatever speaks to backends (the PyFilesystem2 view, the
conformance suite, the mount) can speak to a session in the same words.

Links are not followed here: a path that meets one raises ELOOP, and whoever wants to follow (the Python API;
the mount leaves it to the operating system) asks `resolve` for the path that is meant, and is judged on that.
"""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TypeVar

from vfs.kernel.door import Claim, Door
from vfs.kernel.errors import (
    FileExistsError,
    FileSystemError,
    InvalidPathError,
    SandboxError,
    SecurityViolationError,
    from_os_error,
)
from vfs.kernel.handles import Handle, plain_mode
from vfs.kernel.paths import VirtualPath, join, printable
from vfs.kernel.policy import Decision
from vfs.kernel.ports import Backend, DirEntry, Features, RenameFlag, Stat, StatVfs
from vfs.kernel.quota import Ledger
from vfs.kernel.trust import Operation
from vfs.kernel.zones import ZONES, Zone

__all__ = ["Files"]

T = TypeVar("T")

READ, WRITE, DELETE, LIST = Operation.READ, Operation.WRITE, Operation.DELETE, Operation.LIST
MAX_LINKS = 40
_MAKES_FILES = ("open", "write", "mknod", "symlink", "link")
_ZONE_NUMBER = {zone: number for number, zone in enumerate(Zone)}
_ROOT_INODE = 1


class Files:
    """The tree of one session through one face. Thread-safe."""

    def __init__(
        self,
        door: Door,
        backend_of: Callable[[Zone], Backend],
        *,
        accounts: Mapping[Zone, Ledger],
        on_staged: Callable[[str], None],
    ) -> None:
        self.door = door
        self._backend_of = backend_of
        self._accounts = accounts
        self._on_staged = on_staged
        self._started = time.time_ns()

    @property
    def features(self) -> Features:
        """Return what the tree can do at best; a zone's own backend may lack some of it."""
        return Features(
            symlinks=True, hard_links=True, modes=True, owners=True, xattrs=True, special_nodes=True,
            atomic_rename=True,
        )  # fmt: skip

    # Looking

    def stat(self, path: str) -> Stat:
        """Return the metadata of what is at `path`, a link itself if it is one."""
        where, only_directories = self.door.look("stat", _absolute(path))
        if not where.rest:
            return self._stat_top(where)
        found = self._stat(where)
        if only_directories and not stat.S_ISDIR(found.mode):
            refusal = Decision(False, "matrix", "untrusted sessions may not look at staged files")
            raise self.door.refuse("stat", Claim(LIST, where), refusal)
        return found

    def access(self, path: str, operation: Operation) -> bool:
        """Tell whether `operation` on what exists at `path` would be granted; no access, so no row."""
        where = self._locate(path, operation, "access")
        return self.door.decide(operation, where).allowed

    def scan(self, path: str) -> list[DirEntry]:
        """Return the entries of a directory, without those that a rule hides from this session."""
        claim = self.door.admit(LIST, "list", _absolute(path))
        where, zone = claim.path, claim.path.zone
        with self.door.reading("list", claim):
            if zone is None:
                return [DirEntry(z.value, _inode_of_zone(z), stat.S_IFDIR) for z in ZONES.values()]
            entries = self._backend_of(zone).scan(where.rest)
        hides = self.door.hides
        return [
            DirEntry(entry.name, _inode(entry.ino, zone), entry.type)
            for entry in entries
            if not hides(where.child(entry.name))
        ]

    def read_link(self, path: str) -> str:
        """Return where a link says it leads. A target outside the zone is a violation and is not told."""
        where = self._looked(path, "readlink")
        target = self._call(where, lambda: self._backend(where.zone).read_link(where.rest))
        self._inside(where, target, READ, "readlink")
        return target

    def resolve(self, path: str, *, follow_last: bool = True) -> str:
        """Return the path that `path` means once the links in it are followed, each inside its zone.

        Raises SecurityViolationError for a link that leaves its zone, ELOOP for a circle.
        """
        where = self._locate(path, LIST, "resolve")
        if where.zone is None or not where.rest:
            return str(where)
        names, done = where.rest.split("/"), ""
        hops = 0
        while names:
            name = names.pop(0)
            here = VirtualPath(where.zone, f"{done}/{name}" if done else name)
            if (names or follow_last) and self._is_link(here):
                self.door.look("resolve", str(here))
                hops += 1
                if hops > MAX_LINKS:
                    raise FileSystemError(errno.ELOOP, f"the links go in a circle: `{path}`", path)
                backend = self._backend(where.zone)
                target = self._call(here, lambda b=backend, p=here.rest: b.read_link(p))  # type: ignore[misc]  # mypy infers no lambda with a default
                led = self._inside(here, target, READ, "resolve")
                names = [*filter(None, led.split("/")), *names]
                done = ""
            else:
                done = here.rest
        return str(VirtualPath(where.zone, done))

    # Reading and writing

    def open(self, path: str, flags: int, mode: int = 0o666) -> Handle:
        """Open a regular file with the meaning of `os.O_*`; read and write are claimed as `flags` say.

        Where the session may only add, the file must not exist yet, and the handle is what it has of it.
        """
        path = _absolute(path)
        creates = bool(flags & os.O_CREAT)
        operations = _operations_of(flags)
        memory = self.door.memory()
        claims = [claim for one in operations if (claim := memory.get((one, path))) is not None]
        if len(claims) < len(operations):
            where = self._locate(path, operations[-1], "open")
            self._refuse_top(where, "open", errno.EISDIR)
            claims = [Claim(operation, where) for operation in operations]
            for claim in claims:
                decision = self.door.demand("open", claim, creates=creates)
                if decision.create_only and claim.operation is WRITE:
                    self._demand_absent("open", where)
                    flags |= os.O_EXCL
                elif decision.allowed:
                    memory.keep(path, claim)
        return self._open(claims, flags, mode)

    def _open(self, claims: list[Claim], flags: int, mode: int) -> Handle:
        """Act on what was granted: a write is on the log before the file is touched, a read after."""
        where = claims[0].path
        zone, text = where.zone, str(where)
        backend, account = self._backend(zone), self._account(where)
        recorder, actor = self.door.recorder(), self.door.actor()
        action = "create" if flags & os.O_CREAT else "open"
        ahead = claims[-1].operation is WRITE

        def record(outcome: str | None) -> list[int]:
            return [
                recorder.entry(operation, action, text, zone, True, actor=actor, outcome=outcome,
                               pending=outcome is None)
                for operation, _ in claims
            ]  # fmt: skip

        sequences = record(None) if ahead else []
        freed = self._size(backend, where.rest) if flags & os.O_TRUNC and account is not None else 0
        try:
            file = backend.open(where.rest, flags, plain_mode(mode))
        except OSError as error:
            failure = from_os_error(error, text)
            for sequence in sequences:
                recorder.outcome(sequence, failure.code)
            if not ahead and error.errno != errno.ELOOP:
                record(failure.code)
            raise failure from error
        try:
            if account is not None and freed:
                account.spend(-freed, text)
            if not ahead:
                sequences = record(None)
            if zone is Zone.STAGED and flags & os.O_CREAT:
                self._on_staged(where.rest)
        except BaseException:
            file.close()
            raise
        return Handle(
            file, door=self.door, recorder=recorder, claims=claims, sequences=sequences, account=account,
            number=lambda inode: _inode(inode, zone), flags=flags,
        )  # fmt: skip

    def read_bytes(self, path: str) -> bytes:
        """Return a whole file."""
        claim = self.door.admit(READ, "read", _absolute(path))
        with self.door.reading("read", claim) as act:
            data = self._backend(claim.path.zone).read_bytes(claim.path.rest)
            act.read = len(data)
        return data

    def write_bytes(
        self, path: str, data: bytes, *, exclusive: bool = False, make_parents: bool = False
    ) -> None:
        """Make `data` the content of `path`, all or nothing; missing parents are made if asked."""
        where = self._locate(path, WRITE, "write")
        self._refuse_top(where, "write", errno.EISDIR)
        claim = Claim(WRITE, where)
        if self.door.demand("write", claim, creates=True).create_only:
            self._demand_absent("write", where)
            exclusive = True
        with self.door.mutation("write", claim) as act:
            backend = self._backend(where.zone)
            account = self._account(where)
            with self._replacing(account, backend, where, len(data)):
                try:
                    backend.write_bytes(where.rest, data, exclusive=exclusive)
                except FileNotFoundError:
                    if not make_parents or "/" not in where.rest:
                        raise
                    self.make_dirs(str(where.parent))
                    backend.write_bytes(where.rest, data, exclusive=exclusive)
            act.written = len(data)
            if where.zone is Zone.STAGED:
                self._on_staged(where.rest)

    # The tree

    def make_dir(self, path: str, mode: int = 0o777) -> None:
        """Make one directory."""
        where = self._locate(path, WRITE, "mkdir")
        self._refuse_top(where, "mkdir", errno.EEXIST)
        claim = Claim(WRITE, where)
        self.door.demand("mkdir", claim, creates=True)
        with self.door.mutation("mkdir", claim):
            self._backend(where.zone).make_dir(where.rest, plain_mode(mode))
            if where.zone is Zone.STAGED:
                self._on_staged(where.rest)

    def make_dirs(self, path: str) -> None:
        """Make a directory and those above it that are missing; one that is there is fine."""
        where = self._locate(path, WRITE, "mkdir")
        if where.rest:
            self.door.demand("mkdir", Claim(WRITE, where), creates=True)
        missing = []
        while where.rest and not self._is_dir(where):
            missing.append(where)
            where = where.parent
        for directory in reversed(missing):
            try:
                self.make_dir(str(directory), 0o755)
            except FileExistsError:
                if not self._is_dir(directory):
                    raise

    def make_node(self, path: str, mode: int) -> None:
        """Make an empty file, FIFO or socket."""
        where = self._locate(path, WRITE, "mknod")
        self._refuse_top(where, "mknod", errno.EEXIST)
        with self.door.mutation("mknod", self._demanded("mknod", WRITE, where)):
            self._backend(where.zone).make_node(where.rest, plain_mode(mode))

    def remove(self, path: str) -> None:
        """Remove one name that is not a directory."""
        where = self._locate(path, DELETE, "unlink")
        self._refuse_top(where, "unlink", errno.EISDIR)
        with self.door.mutation("unlink", self._demanded("unlink", DELETE, where)):
            account = self._account(where)
            backend = self._backend(where.zone)
            gone = self._peek(where) if account is not None else None
            backend.remove(where.rest)
            if account is not None and gone is not None:
                _forget(account, gone, where)

    def remove_dir(self, path: str) -> None:
        """Remove one empty directory."""
        where = self._locate(path, DELETE, "rmdir")
        self._refuse_top(where, "rmdir", errno.EBUSY)
        with self.door.mutation("rmdir", self._demanded("rmdir", DELETE, where)):
            self._backend(where.zone).remove_dir(where.rest)

    def rename(self, source: str, target: str, flag: RenameFlag = RenameFlag.REPLACE) -> None:
        """Move a name within its zone; between zones EXDEV, and programs copy instead."""
        old, new = self._locate(source, DELETE, "rename"), self._locate(target, WRITE, "rename")
        self._refuse_top(old, "rename", errno.EBUSY)
        self._refuse_top(new, "rename", errno.EBUSY)
        claims = [Claim(DELETE, old), Claim(WRITE, new)]
        if flag is RenameFlag.EXCHANGE:
            claims += [Claim(DELETE, new), Claim(WRITE, old)]
        for claim in claims:
            self.door.demand("rename", claim)
        self._same_zone(old, new)
        replaced = self._peek(new)
        if replaced is not None and flag is RenameFlag.REPLACE:
            claims.append(self._demanded("rename", DELETE, new))
        moved = self._peek(old)
        if moved is not None and stat.S_ISLNK(moved.mode):
            # What a link says means something else in another place.
            target = self._call(old, lambda: self._backend(old.zone).read_link(old.rest))
            self._inside(new, target, WRITE, "rename")
        exchanged = replaced if flag is RenameFlag.EXCHANGE else None
        if any(one is not None and stat.S_ISDIR(one.mode) for one in (moved, exchanged)):
            self._demand_move(old, new)
        else:
            self._refuse_top(new, "mknod", errno.EISDIR)  # a file is not a staged commit
        with self.door.mutation("rename", *claims, source=str(old), target=str(new)):
            self._backend(old.zone).rename(old.rest, new.rest, flag)
            account = self._account(new)
            gone = replaced if flag is RenameFlag.REPLACE else None
            if account is not None and gone is not None and (moved is None or moved.ino != gone.ino):
                _forget(account, gone, new)
            if new.zone is Zone.STAGED:
                self._on_staged(new.rest)

    def _demand_move(self, old: VirtualPath, new: VirtualPath) -> None:
        for path in (old, new):
            if path.zone is Zone.STAGED and "/" not in path.rest:
                refusal = Decision(False, "staged", "a staged commit keeps its id and cannot be renamed")
                raise self.door.refuse("rename", Claim(WRITE, path), refusal)
        self.door.demand_move("rename", old, new)

    def link(self, source: str, target: str) -> None:
        """Give a file a further name in its zone; it takes the right to write what is linked."""
        old, new = self._locate(source, READ, "link"), self._locate(target, WRITE, "link")
        self._refuse_top(old, "link", errno.EPERM)
        self._refuse_top(new, "link", errno.EEXIST)
        for claim in (Claim(READ, old), Claim(WRITE, old)):
            # A new name writes to the old file, so a rule over the old name must not be dodged by it.
            self.door.demand("link", claim)
        self.door.demand("link", Claim(WRITE, new))
        self._same_zone(old, new)
        if new.zone is Zone.STAGED and old.rest.partition("/")[0] != new.rest.partition("/")[0]:
            # What is decided on must not change through a name in another staged commit.
            raise FileSystemError(
                errno.EXDEV,
                f"`{old}` and `{new}` are in different staged commits",
                str(new),
                hint="copy instead",
            )
        linked = self._peek(old)
        if linked is not None and stat.S_ISLNK(linked.mode):
            target_text = self._call(old, lambda: self._backend(old.zone).read_link(old.rest))
            self._inside(new, target_text, WRITE, "link")
        with self.door.mutation("link", Claim(WRITE, new), source=str(old)):
            self._backend(old.zone).link(old.rest, new.rest)
            if new.zone is Zone.STAGED:
                self._on_staged(new.rest)

    def symlink(self, target: str, path: str) -> None:
        """Make a link that says `target`, which must stay in the link's zone."""
        where = self._locate(path, WRITE, "symlink")
        self._refuse_top(where, "symlink", errno.EEXIST)
        self.door.demand("symlink", Claim(WRITE, where))
        self._inside(where, target, WRITE, "symlink")
        account = self._account(where)
        length = len(os.fsencode(target))
        with (
            self.door.mutation("symlink", Claim(WRITE, where), target=printable(target)),
            account.growing(length, str(where)) if account is not None else nullcontext(),
        ):
            self._backend(where.zone).symlink(target, where.rest)
            if where.zone is Zone.STAGED:
                self._on_staged(where.rest)

    # Metadata

    def set_times(self, path: str, atime_ns: int | None, mtime_ns: int | None) -> None:
        """Set the times given; None leaves a time as it is."""
        self._change("utime", path, lambda b, p: b.set_times(p, atime_ns, mtime_ns))

    def set_mode(self, path: str, mode: int) -> None:
        """Set the permission bits."""
        self._change("chmod", path, lambda b, p: b.set_mode(p, plain_mode(mode)))

    def set_owner(self, path: str, uid: int, gid: int) -> None:
        """Set owner and group; -1 leaves one as it is."""
        self._change("chown", path, lambda b, p: b.set_owner(p, uid, gid))

    def get_xattr(self, path: str, name: str) -> bytes:
        """Return one extended attribute."""
        where = self._looked(path, "getxattr")
        return self._call(where, lambda: self._backend(where.zone).get_xattr(where.rest, name))

    def list_xattrs(self, path: str) -> list[str]:
        """Return the names of the extended attributes."""
        where = self._looked(path, "listxattr")
        return self._call(where, lambda: self._backend(where.zone).list_xattrs(where.rest))

    def set_xattr(self, path: str, name: str, value: bytes, flags: int = 0) -> None:
        """Set one extended attribute."""
        self._change("setxattr", path, lambda b, p: b.set_xattr(p, name, value, flags))

    def remove_xattr(self, path: str, name: str) -> None:
        """Remove one extended attribute."""
        self._change("removexattr", path, lambda b, p: b.remove_xattr(p, name))

    def statvfs(self, path: str = "/session") -> StatVfs:
        """Return the space of the storage under the zone of `path`."""
        where = self._locate(path, LIST, "statfs")
        zone = where.zone or Zone.SESSION
        return self._call(where, lambda: self._backend(zone).statvfs())

    def fingerprint(self, path: str) -> str:
        """Return a token that differs whenever the content of the file may differ."""
        where = self._looked(path, "fingerprint")
        return self._call(where, lambda: self._backend(where.zone).fingerprint(where.rest))

    def flush(self) -> None:
        """Return when everything acknowledged so far has reached stable storage."""
        for zone in Zone:
            self._backend(zone).flush()

    def close(self) -> None:
        """Do nothing: the backends are the kernel's to close."""

    # Within

    def _locate(self, path: str, operation: Operation, action: str) -> VirtualPath:
        return self.door.locate(_absolute(path), operation, action)

    def _backend(self, zone: Zone | None) -> Backend:
        if zone is None:
            raise FileSystemError(errno.EPERM, "the root holds the five zones and nothing else", "/")
        return self._backend_of(zone)

    def _account(self, where: VirtualPath) -> Ledger | None:
        return self._accounts.get(where.zone) if where.zone is not None else None

    def _call(self, where: VirtualPath, act: Callable[[], T]) -> T:
        try:
            return act()
        except SandboxError:
            raise
        except OSError as error:
            raise from_os_error(error, str(where)) from error

    def _stat(self, where: VirtualPath) -> Stat:
        found = self._call(where, lambda: self._backend(where.zone).stat(where.rest))
        return Stat(found[0], found[1], _inode(found[2], where.zone), *found[3:])

    def _stat_top(self, where: VirtualPath) -> Stat:
        """The root and the zones are there for everyone; what is in them is another question."""
        if where.zone is not None and self.door.decide(LIST, where).allowed:
            return self._stat(where)._replace(ino=_inode_of_zone(where.zone))
        inode = _ROOT_INODE if where.zone is None else _inode_of_zone(where.zone)
        mode = stat.S_IFDIR | (0o555 if where.zone is None else 0o111)
        then = self._started
        return Stat(mode, 0, inode, 2, os.geteuid(), os.getegid(), then, then, then, then, 0)

    def _peek(self, where: VirtualPath) -> Stat | None:
        """Return what is at `where`, or None; for a decision of the kernel's own, not for the caller."""
        try:
            return self._backend(where.zone).stat(where.rest)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EPERM, errno.EACCES):
                return None
            raise from_os_error(error, str(where)) from error

    def _is_dir(self, where: VirtualPath) -> bool:
        found = self._peek(where)
        return found is not None and stat.S_ISDIR(found.mode)

    def _is_link(self, where: VirtualPath) -> bool:
        found = self._peek(where)
        return found is not None and stat.S_ISLNK(found.mode)

    def _size(self, backend: Backend, rest: str, *, last_link: bool = False) -> int:
        """Return the size of the regular file at `rest` (of its last name only, if asked), or 0."""
        try:
            found = backend.stat(rest)
        except OSError:
            return 0
        return found.size if stat.S_ISREG(found.mode) and not (last_link and found.nlink > 1) else 0

    @contextmanager
    def _replacing(
        self, account: Ledger | None, backend: Backend, where: VirtualPath, size: int
    ) -> Iterator[None]:
        """Account for a file of `size` bytes in the place of what is at `where`, if that goes with its name."""
        if account is None:
            yield
            return
        with account.alone():
            old = self._size(backend, where.rest, last_link=True)
            with account.growing(size - old, str(where)):
                yield

    def _looked(self, path: str, action: str) -> VirtualPath:
        where, only_directories = self.door.look(action, _absolute(path))
        if where.zone is None:
            raise FileSystemError(errno.ENOTSUP, "not supported at the root", "/")
        if only_directories or not where.rest:
            # A zone's own directory is there for everyone, but what is attached to it is not.
            self._demanded(action, LIST, where)
        return where

    def _demanded(self, action: str, operation: Operation, where: VirtualPath) -> Claim:
        claim = Claim(operation, where)
        self.door.demand(action, claim)
        return claim

    def _change(self, action: str, path: str, act: Callable[[Backend, str], None]) -> None:
        where = self._locate(path, WRITE, action)
        # A zone's own directory is everyone's; only its times may be set, as copying programs do.
        self._refuse_top(where, action, errno.EPERM, zones=action != "utime")
        with self.door.mutation(action, self._demanded(action, WRITE, where)):
            act(self._backend(where.zone), where.rest)

    def _refuse_top(self, where: VirtualPath, action: str, number: int, *, zones: bool = True) -> None:
        """Refuse what cannot be done to the root, nor (with `zones`) to a zone's own directory."""
        if where.zone is None or (zones and not where.rest):
            operation = READ if action == "read" else WRITE
            reason = f"`{where}` is part of the tree itself: {os.strerror(number).lower()}"
            self.door.refuse(action, Claim(operation, where), Decision(False, "root", reason))
            raise from_os_error(OSError(number, os.strerror(number)), str(where))
        if where.zone is Zone.STAGED and "/" not in where.rest and action in _MAKES_FILES:
            if action == "open" and self._is_dir(where):
                return
            reason = "files are staged in a commit's directory: /staged/{commit-id}/…"
            self.door.refuse(action, Claim(WRITE, where), Decision(False, "staged", reason))
            raise InvalidPathError(reason, str(where))

    def _demand_absent(self, action: str, where: VirtualPath) -> None:
        if self._peek(where) is not None:
            refusal = Decision(False, "matrix", "Untrusted sessions cannot overwrite staged files")
            raise self.door.refuse(action, Claim(WRITE, where), refusal)

    def _inside(self, link: VirtualPath, target: str, operation: Operation, action: str) -> str:
        """Return where in its zone a link leads; one that leaves it is a violation."""
        led = join(link.parent.rest, target) if link.rest else None
        if led is None:
            reason = f"the link leads out of its zone, to `{printable(target)}`"
            self.door.violation(operation, action, link, reason)
            raise SecurityViolationError(f"{reason}: `{link}`", str(link))
        return led

    def _same_zone(self, old: VirtualPath, new: VirtualPath) -> None:
        if old.zone is not new.zone:
            raise FileSystemError(
                errno.EXDEV, f"`{old}` and `{new}` are in different zones", str(new), hint="copy instead"
            )


def _operations_of(flags: int) -> tuple[Operation, ...]:
    """Return the rights that an open with these flags takes; writing, if it is one of them, last."""
    access = flags & os.O_ACCMODE
    if access == os.O_RDONLY and not flags & (os.O_CREAT | os.O_TRUNC):
        return (READ,)
    return (WRITE,) if access == os.O_WRONLY else (READ, WRITE)


def _absolute(path: str) -> str:
    """Return a path of a backend's form as a virtual one."""
    return path if path[:1] == "/" else f"/{path}"


def _forget(account: Ledger, gone: Stat, where: VirtualPath) -> None:
    """Give back the bytes of what was removed or replaced, if that was its last name."""
    if stat.S_ISLNK(gone.mode) or (stat.S_ISREG(gone.mode) and gone.nlink <= 1):
        account.removed(gone.ino, gone.size, str(where))


def _inode(number: int, zone: Zone | None) -> int:
    """Return an inode number that no other zone's backend can have; three bits name the zone."""
    return ((number << 3) & 0x7FFF_FFFF_FFFF_FFFF) | (_ZONE_NUMBER[zone] + 2 if zone else 0)


def _inode_of_zone(zone: Zone) -> int:
    return (1 << 3) | (_ZONE_NUMBER[zone] + 2)
