"""Where a project's own files lie, and its identity: an id, and the key that signs for it.

What no zone shows is in `P/.sandbox`. What must be out of every agent's reach, the signing key and the signed heads
of the audit log, is in the user's own state directory (`VFS_HOME`), under the project's id.
"""

import contextlib
import fcntl
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from vfs.kernel.errors import ConfigError, ConflictError, NotFoundError
from vfs.kernel.keys import SigningKey, VerifyKey
from vfs.kernel.sessions import DEFAULT_WORKSPACE

__all__ = ["Layout", "PutAside", "find_project", "vfs_home"]

_MARKS = (".sandbox", "vfs.toml", ".git")


def vfs_home() -> Path:
    """Return where keys and signed heads are kept: `VFS_HOME`, or `vfs` in the user's state directory."""
    if home := os.environ.get("VFS_HOME"):
        return Path(home)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "vfs"


def find_project(start: Path | None = None) -> Path:
    """Return the project `start` (else `VFS_PROJECT`, else the current directory) lies in.

    That is the nearest directory upwards with a `.sandbox`, a `vfs.toml` or a `.git`; `start` itself if there
    is none. Raises ConfigError if `start` is no directory.
    """
    start = Path(start or os.environ.get("VFS_PROJECT") or Path.cwd()).absolute()
    if not start.is_dir():
        raise ConfigError(f"there is no directory `{start}`", hint="name the project's directory")
    for directory in (start, *start.parents):
        if any((directory / mark).exists() for mark in _MARKS):
            return directory
    return start


class PutAside(NamedTuple):
    """Where the parts of a chain lie whose key is lost; `vfs audit verify` still checks them there."""

    key_id: str
    key: Path
    log: Path | None
    heads: Path | None


class Layout:
    """Where a project's own files lie; `home` stands for `vfs_home()`."""

    def __init__(self, project: Path, home: Path | None = None) -> None:
        self.project = project
        self.root = project / ".sandbox"
        self.state = self.root / "state.db"
        self.generation = self.root / "generation"
        self.audit = self.root / "audit"
        self.public_key = self.root / "public.pem"
        self._id_file = self.root / "id"
        self._home = home or vfs_home()

    def make(self) -> None:
        """Make the directories; `.sandbox` is the owner's alone and ignored by git. Raises ConfigError."""
        for directory in (self.root, self.audit):
            try:
                directory.mkdir(mode=0o700, exist_ok=True)
            except OSError as error:
                raise ConfigError(
                    f"`{directory}` cannot be made: {(error.strerror or 'input/output error').lower()}",
                    hint="the project must be a directory that you may write",
                ) from error
        ignore = self.root / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")

    def workspace(self, workspace_id: str) -> Path:
        """Return where a workspace's zones lie; the default one is right under `.sandbox`."""
        return self.root if workspace_id == DEFAULT_WORKSPACE else self.root / "workspaces" / workspace_id

    # Identity

    @property
    def project_id(self) -> str:
        """Return the project's id, made at the first time. Two processes may ask at once."""
        if not self._id_file.exists():
            with self._alone():
                if not self._id_file.exists():
                    making = self._id_file.with_suffix(".new")
                    making.write_text(f"{uuid.uuid4()}\n")
                    making.rename(self._id_file)
        return self._id_file.read_text().strip()

    @property
    def private(self) -> Path:
        """Return the project's directory out of agents' reach; it need not be there yet."""
        known = self._id_file.read_text().strip() if self._id_file.exists() else "-"
        return self._home / "projects" / known

    @property
    def heads(self) -> Path:
        """Return where the signed heads of the audit log are."""
        return self.private / "heads.jsonl"

    def signing_key(self) -> SigningKey:
        """Return the project's key; it is made with the project, and never silently again.

        Raises ConfigError for a key that is lost.
        """
        path = self._home / "projects" / self.project_id / "signing.pem"
        if not self.public_key.exists():
            with self._alone():
                self._make_key(path)
        if not path.exists():
            raise ConfigError(
                f"the project's signing key `{path}` is missing",
                hint="restore it, or set VFS_HOME to where it is; `vfs init --new-key` begins a new chain",
            )
        return SigningKey.load(path)

    def _make_key(self, path: Path) -> None:
        """Make the key unless another process just did; the public half in the project comes last."""
        if self.public_key.exists():
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = SigningKey.load(path) if path.exists() else SigningKey.create(path)
        making = self.public_key.with_suffix(".new")
        making.write_text(key.public_pem)
        making.rename(self.public_key)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the project while something is made that all processes share."""
        directory = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)

    def put_chain_aside(self) -> PutAside:
        """Move the log of a lost key out of the way, so that opening the project begins another.

        Nothing of it is removed. Raises NotFoundError if the project never had a key, ConflictError if the key
        is not lost. May be run again after it was broken off: the public key, which says that there was a
        chain, goes last.
        """
        if not self.public_key.exists():
            raise NotFoundError(
                f"`{self.project}` has no signing key to replace", hint="`vfs init` makes the first"
            )
        signing = self.private / "signing.pem"
        if signing.exists():
            raise ConflictError(
                f"the signing key `{signing}` is there", hint="only a key that is lost is replaced"
            )
        key_id = VerifyKey.load(self.public_key).id
        log = _move(self.audit, self.root / f"audit-{key_id}")
        heads = _move(self.heads, self.heads.with_name(f"heads-{key_id}.jsonl"))
        _move(self.private / "signing.pem.pub", self.private / f"signing-{key_id}.pem.pub")
        key = self.root / f"public-{key_id}.pem"
        os.rename(self.public_key, key)
        return PutAside(key_id, key, log, heads)


def _move(old: Path, new: Path) -> Path | None:
    """Move what is there; never over what was put aside before."""
    if old.exists() and not new.exists():
        os.rename(old, new)
    return new if new.exists() else None
