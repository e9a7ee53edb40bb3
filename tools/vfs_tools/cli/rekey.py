"""Beginning a new chain with a new key, when the old key is lost.

The old chain cannot be continued, and nothing of it is removed: log, signed heads and public key are put aside
under the old key's id, where `vfs audit verify --dir … --key … --heads …` still checks them.
"""

import os
from pathlib import Path
from typing import NamedTuple

from vfs.kernel.errors import ConflictError, NotFoundError
from vfs.kernel.keys import VerifyKey
from vfs.project import Layout

__all__ = ["PutAside", "put_aside"]


class PutAside(NamedTuple):
    """Where the parts of the old chain lie now."""

    key_id: str
    key: Path
    log: Path | None
    heads: Path | None


def put_aside(layout: Layout, private: Path) -> PutAside:
    """Move the old chain out of the way, so that opening the project begins another.

    Raises NotFoundError if the project never had a key, ConflictError if the key is not lost. May be run
    again after it was broken off: the public key, which says that there was a chain, goes last.
    """
    public, signing = layout.root / "public.pem", private / "signing.pem"
    if not public.exists():
        raise NotFoundError(
            f"`{layout.project}` has no signing key to replace", hint="`vfs init` makes the first"
        )
    if signing.exists():
        raise ConflictError(
            f"the signing key `{signing}` is there", hint="only a key that is lost is replaced"
        )
    key_id = VerifyKey.load(public).id
    log = _move(layout.audit, layout.root / f"audit-{key_id}")
    heads = _move(private / "heads.jsonl", private / f"heads-{key_id}.jsonl")
    _move(private / "signing.pem.pub", private / f"signing-{key_id}.pem.pub")
    key = layout.root / f"public-{key_id}.pem"
    os.rename(public, key)
    return PutAside(key_id, key, log, heads)


def _move(old: Path, new: Path) -> Path | None:
    """Move what is there; never over what was put aside before."""
    if old.exists() and not new.exists():
        os.rename(old, new)
    return new if new.exists() else None
