"""Ed25519 keys: what signs audit heads, prunes and promotion tokens, and what checks them.

The private key is a PEM file (PKCS 8, mode 0600) outside every zone, with its public half beside it as
`<path>.pub`. Who has only the public half can verify and can sign nothing. `cryptography` costs tens of
milliseconds to import, so it is imported by the first signature or check, not by loading a key.
"""

import base64
import binascii
import builtins
import contextlib
import functools
import hashlib
import os
import stat
from typing import TYPE_CHECKING, Final, Self

from vfs.kernel.errors import ConfigError, FileExistsError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = ["SigningKey", "VerifyKey"]

_RAW_LENGTH: Final = 32
_SPKI_PREFIX: Final = bytes.fromhex("302a300506032b6570032100")
"""RFC 8410: what stands before the 32 raw bytes in the DER form of an Ed25519 public key."""


class VerifyKey:
    """The public half: checks signatures. Equal keys compare equal. Safe to use from any thread."""

    def __init__(self, raw: bytes) -> None:
        if len(raw) != _RAW_LENGTH:
            raise ConfigError(f"an Ed25519 public key has {_RAW_LENGTH} bytes, not {len(raw)}")
        self.raw: Final = raw

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a PEM file; ConfigError if it cannot be read or is no Ed25519 public key."""
        try:
            with open(path, "rb") as file:
                pem = file.read()
        except OSError as error:
            raise ConfigError(
                f"cannot read the public key `{os.fspath(path)}`: {_reason(error)}",
                hint="name the `.pub` file that lies beside the signing key",
            ) from error
        try:
            return cls.from_pem(pem.decode("ascii", "replace"))
        except ConfigError as error:
            raise ConfigError(f"`{os.fspath(path)}` is not an Ed25519 public key in PEM form") from error

    @classmethod
    def from_pem(cls, pem: str) -> Self:
        """Parse the PEM text (`BEGIN PUBLIC KEY`); ConfigError if it is not one of Ed25519."""
        lines = pem.strip().splitlines()
        try:
            if lines[0] != "-----BEGIN PUBLIC KEY-----" or lines[-1] != "-----END PUBLIC KEY-----":
                raise ValueError(pem)
            der = base64.b64decode("".join(lines[1:-1]), validate=True)
            if not der.startswith(_SPKI_PREFIX):
                raise ValueError(pem)
        except (ValueError, IndexError, binascii.Error) as error:
            raise ConfigError("not an Ed25519 public key in PEM form") from error
        return cls(der[len(_SPKI_PREFIX) :])

    @property
    def pem(self) -> str:
        """The key as PEM text, to give away."""
        text = base64.b64encode(_SPKI_PREFIX + self.raw).decode()
        return f"-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n"

    @property
    def id(self) -> str:
        """A short name of the key: the first 16 hex digits of the SHA-256 of its raw bytes."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    def verify(self, signature: bytes, data: bytes) -> bool:
        """Return whether `signature` is this key's over `data`."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, data)
        except InvalidSignature:
            return False
        return True

    @functools.cached_property
    def _key(self) -> "Ed25519PublicKey":
        from cryptography.hazmat.primitives.asymmetric import ed25519

        return ed25519.Ed25519PublicKey.from_public_bytes(self.raw)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VerifyKey) and other.raw == self.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"VerifyKey({self.id})"


class SigningKey:
    """The private half: signs. Made by `create` or `load`; safe to use from any thread."""

    def __init__(self, pem: bytes, path: str, public: VerifyKey | None = None) -> None:
        self._pem = pem
        self._path = path
        self._public = public

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Self:
        """Make a new key in the file `path` (0600) and its public half in `<path>.pub` (0644).

        Raises FileExistsError rather than replacing a key: what it signed could no longer be continued.
        ConfigError if the file cannot be written. The directory must exist.
        """
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519

        name = os.fspath(path)
        private = ed25519.Ed25519PrivateKey.generate()
        pem = private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        public = VerifyKey(private.public_key().public_bytes_raw())
        try:
            _write_new(name, pem, 0o600)
            _write_new(name + ".pub", public.pem.encode(), 0o644)
        except builtins.FileExistsError as error:
            raise FileExistsError(
                f"there is a key already: `{error.filename}`", hint="load it, or choose another name"
            ) from error
        except OSError as error:
            raise ConfigError(f"cannot write the signing key `{name}`: {_reason(error)}") from error
        return cls(pem, name, public)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the key in the file `path`.

        ConfigError if it cannot be read, or may be read by others than its owner. Whether the content is
        an Ed25519 key shows at the first use.
        """
        name = os.fspath(path)
        try:
            with open(name, "rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                pem = file.read()
        except OSError as error:
            raise ConfigError(f"cannot read the signing key `{name}`: {_reason(error)}") from error
        if stat.S_IMODE(mode) & 0o077:
            raise ConfigError(
                f"the signing key `{name}` may be read by others", hint=f"run `chmod 600 {name}`"
            )
        public = None
        with contextlib.suppress(ConfigError):
            public = VerifyKey.load(name + ".pub")
        return cls(pem, name, public)

    @property
    def public(self) -> VerifyKey:
        """The public half, from `<path>.pub` if it is there."""
        if self._public is None:
            self._public = VerifyKey(self._key.public_key().public_bytes_raw())
        return self._public

    @property
    def public_pem(self) -> str:
        """The public half as PEM text, to give away."""
        return self.public.pem

    @property
    def private_pem(self) -> bytes:
        """The private half as PEM, for a library that signs in a form of its own."""
        return self._pem

    def sign(self, data: bytes) -> bytes:
        """Return the 64 bytes of the signature over `data`; ConfigError if the file held no such key."""
        return self._key.sign(data)

    @functools.cached_property
    def _key(self) -> "Ed25519PrivateKey":
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519

        try:
            key = serialization.load_pem_private_key(self._pem, password=None)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"`{self._path}` is not a private key in PEM form") from error
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise ConfigError(f"`{self._path}` is not an Ed25519 key")
        if self._public is not None and key.public_key().public_bytes_raw() != self._public.raw:
            # Everything signed would fail to verify with the public key that people were given.
            raise ConfigError(
                f"`{self._path}.pub` is not the public half of `{self._path}`",
                hint=f"remove `{self._path}.pub`, or put the right pair in place",
            )
        return key

    def __repr__(self) -> str:
        return f"SigningKey({self._path!r})"


def _write_new(path: str, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)  # the umask may have taken bits away
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
