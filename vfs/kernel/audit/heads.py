"""Signed heads: what the chain was, kept where the agent cannot reach it.

Who can write the audit directory could rewrite the whole chain, or cut its end off, and hash it anew. A head
says, under the log's Ed25519 key, that row `seq` of chain `chain` had the hash `hash`; no rewriting agrees
with it. Heads are lines of JSON appended, one `write` each, to a file outside the project, by every process
that has the log open. Rows after the last head are the only ones that can be cut off unnoticed.
"""

import base64
import binascii
import json
import os
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from vfs.kernel.audit import failure
from vfs.kernel.audit.record import dump
from vfs.kernel.errors import AuditUnavailableError, SandboxError
from vfs.kernel.keys import SigningKey, VerifyKey

__all__ = ["Head", "Heads", "read_heads", "sign_document", "verify_document"]

_PURPOSE: Final = b"vfs-audit-v1\n"
"""Stands before everything this key signs here, so that no signature serves in another place."""


class Head(NamedTuple):
    """One line of the file; `document` is what `signature` is over. `sequence` is -1 if it is no head."""

    line: int
    chain: str
    sequence: int
    hash: str
    document: str
    signature: str


class Heads:
    """The signing end. `sign` is called under the journal's lock, so by one process at a time."""

    def __init__(self, path: str, signer: SigningKey, durability: str) -> None:
        self.path: Final = path
        self.signer: Final = signer
        self._is_durable = durability == "disk"
        self._newest = 0

    def sign(self, chain: str, sequence: int, row_hash: str) -> None:
        """Append a head for that row, unless this process has; AuditUnavailableError if it cannot."""
        if sequence <= self._newest:
            return
        document = dump({"chain": chain, "hash": row_hash, "seq": sequence, "time": time.time_ns()})
        line = dump({"head": document, "signature": sign_document(self.signer, document)}) + "\n"
        try:
            self._append(line.encode())
        except OSError as error:
            raise failure.from_os(error, self.path) from error
        self._newest = sequence

    def check(self) -> None:
        """Raise AuditUnavailableError unless heads can be written."""
        try:
            self._append(b"")
        except OSError as error:
            raise failure.from_os(error, self.path) from error

    def _append(self, line: bytes) -> None:
        # Opened each time: it is rare, and so the file may be moved away to be archived.
        descriptor = os.open(
            self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            end = os.fstat(descriptor).st_size
            if os.write(descriptor, line) != len(line):
                os.ftruncate(descriptor, end)
                raise AuditUnavailableError(
                    f"cannot record: `{self.path}` takes only part of a signed head",
                    hint="free space on the disk that holds it",
                )
            if line and self._is_durable:
                os.fdatasync(descriptor)
        finally:
            os.close(descriptor)


def sign_document(signer: SigningKey, document: str) -> str:
    """Return the signature over a document of the audit log, in base 64."""
    try:
        return base64.b64encode(signer.sign(_PURPOSE + document.encode())).decode()
    except SandboxError as error:
        raise AuditUnavailableError(f"cannot sign: {error.message}", hint=error.hint) from error


def verify_document(key: VerifyKey, document: str, signature: str) -> bool:
    """Return whether `signature` is the key's over that document."""
    try:
        return key.verify(base64.b64decode(signature, validate=True), _PURPOSE + document.encode())
    except (ValueError, binascii.Error):
        return False


def read_heads(path: str) -> Iterator[Head]:
    """Yield what the file holds, forged and broken lines included; nothing if there is no file.

    A line that cannot be parsed is yielded with the sequence number -1; OSError if it cannot be read.
    """
    try:
        file = open(path, "rb")  # noqa: SIM115 (closed below; only opening may find it missing)
    except FileNotFoundError:
        return
    with file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _parse(number, line)


def _parse(number: int, line: bytes) -> Head:
    try:
        outer = json.loads(line)
        document, signature = str(outer["head"]), str(outer["signature"])
        inner = json.loads(document)
        return Head(number, str(inner["chain"]), int(inner["seq"]), str(inner["hash"]), document, signature)
    except (ValueError, KeyError, TypeError):
        return Head(number, "", -1, "", line.decode("ascii", "backslashreplace"), "")
