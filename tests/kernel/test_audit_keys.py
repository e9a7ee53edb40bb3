"""Keys: made once, kept private, and never mistaken for one another."""

import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from vfs.kernel.errors import ConfigError, FileExistsError
from vfs.kernel.keys import SigningKey, VerifyKey


def test_what_one_signs_the_public_half_verifies(tmp_path: Path) -> None:
    created = SigningKey.create(tmp_path / "key")
    loaded = SigningKey.load(tmp_path / "key")
    public = VerifyKey.load(tmp_path / "key.pub")
    assert loaded.public == created.public == public == VerifyKey.from_pem(loaded.public_pem)
    signature = loaded.sign(b"data")
    assert public.verify(signature, b"data")
    assert not public.verify(signature, b"dato")
    assert not public.verify(signature[:-1] + bytes([signature[-1] ^ 1]), b"data")
    assert not public.verify(b"", b"data")
    other = SigningKey.create(tmp_path / "other")
    assert not other.public.verify(signature, b"data")
    assert other.public != public
    assert other.public.id != public.id


def test_the_public_half_is_in_the_form_that_openssl_reads(tmp_path: Path) -> None:
    key = SigningKey.create(tmp_path / "key")
    read = serialization.load_pem_public_key(key.public_pem.encode())
    assert (
        read.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ).decode()
        == key.public_pem
    )


def test_the_files_have_the_modes_they_should_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o277)
    try:
        SigningKey.create(tmp_path / "key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "key.pub").stat().st_mode) == 0o644


def test_a_key_is_never_replaced(tmp_path: Path) -> None:
    SigningKey.create(tmp_path / "key")
    content = (tmp_path / "key").read_bytes()
    with pytest.raises(FileExistsError, match="there is a key already"):
        SigningKey.create(tmp_path / "key")
    assert (tmp_path / "key").read_bytes() == content


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    SigningKey.create(tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(ConfigError, match="may be read by others") as caught:
        SigningKey.load(tmp_path / "key")
    assert caught.value.hint == f"run `chmod 600 {tmp_path / 'key'}`"


def test_without_its_pub_file_a_key_still_knows_its_public_half(tmp_path: Path) -> None:
    public = SigningKey.create(tmp_path / "key").public
    (tmp_path / "key.pub").unlink()
    assert SigningKey.load(tmp_path / "key").public == public


def test_a_pub_file_of_another_key_is_noticed_before_anything_is_signed(tmp_path: Path) -> None:
    SigningKey.create(tmp_path / "key")
    SigningKey.create(tmp_path / "other")
    (tmp_path / "other.pub").replace(tmp_path / "key.pub")
    with pytest.raises(ConfigError, match="is not the public half of"):
        SigningKey.load(tmp_path / "key").sign(b"data")


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"-----BEGIN PUBLIC KEY-----\n%%\n-----END PUBLIC KEY-----\n"]
)
def test_what_is_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(ConfigError, match="not a private key"):
        SigningKey.load(tmp_path / "key").sign(b"")
    with pytest.raises(ConfigError, match="is not an Ed25519 public key"):
        VerifyKey.load(tmp_path / "key")


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    pem = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "key").write_bytes(pem)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(ConfigError, match="is not an Ed25519 key"):
        SigningKey.load(tmp_path / "key").sign(b"")


def test_a_missing_key_is_a_clear_error(tmp_path: Path) -> None:
    for kind in (SigningKey, VerifyKey):
        with pytest.raises(ConfigError, match="no such file"):
            kind.load(tmp_path / "none")
    with pytest.raises(ConfigError, match="cannot write the signing key"):
        SigningKey.create(tmp_path / "no" / "key")
