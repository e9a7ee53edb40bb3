"""Backends from URLs, by us and by PyFilesystem2's openers; and `fs` without `pkg_resources`."""

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from vfs.kernel.errors import ConfigError
from vfs_backends.fs_compat import errors, registry
from vfs_backends.memory import MemoryBackend
from vfs_backends.osfs import OsBackend
from vfs_backends.pyfilesystem import FsBackend
from vfs_backends.union import UnionBackend
from vfs_backends.urls import open_backend, scheme_of
from vfs_backends.view import BackendFS


@pytest.mark.parametrize("form", ["{}", "osfs://{}", "file://{}"])
def test_a_directory(tmp_path: Path, form: str) -> None:
    (tmp_path / "file").write_bytes(b"x")
    backend = open_backend(form.format(tmp_path))
    assert isinstance(backend, OsBackend)
    assert backend.read_bytes("file") == b"x"
    backend.close()


def test_a_directory_with_odd_characters(tmp_path: Path) -> None:
    (tmp_path / "a b;c%").mkdir()
    for url in (f"osfs://{tmp_path}/a%20b;c%25", f"{tmp_path}/a b;c%"):
        open_backend(url).close()


def test_memory() -> None:
    assert isinstance(open_backend("mem://"), MemoryBackend)


def test_a_union_with_urls_inside(tmp_path: Path) -> None:
    (tmp_path / "a;b").mkdir()
    (tmp_path / "a;b" / "file").write_bytes(b"lower")
    backend = open_backend(f"union://mem://;{tmp_path}/a%3Bb")
    assert isinstance(backend, UnionBackend)
    assert backend.read_bytes("file") == b"lower"
    backend.write_bytes("file", b"upper")
    assert (tmp_path / "a;b" / "file").read_bytes() == b"lower"
    backend.close()


def test_a_scheme_that_fs_knows(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("dir/file", "zipped")
    backend = open_backend(f"zip://{tmp_path}/x.zip")
    assert isinstance(backend, FsBackend)
    assert not backend.features.writable
    assert backend.read_bytes("dir/file") == b"zipped"
    file = backend.open("dir/file", os.O_RDONLY)
    assert file.pread(3, 3) == b"ped"
    file.close()
    backend.close()


def test_a_directory_that_fs_opens_is_contained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "app").mkdir()
    backend = open_backend("userdata://app:me")
    assert isinstance(backend, OsBackend)
    backend.close()


def test_a_factory_of_ones_own() -> None:
    backend = MemoryBackend()
    assert (
        open_backend("kv://a/b", {"kv": lambda rest, _: backend if rest == "a/b" else MemoryBackend()})
        is backend
    )


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nonsense", "absolute path"),
        ("", "absolute path"),
        ("s4://bucket", "unknown storage scheme `s4`"),
        ("osfs://relative", "not an absolute path"),
        ("/none/such", "no such file or directory"),
        ("mem://something", "takes nothing"),
        ("union://mem://;s4://x", "unknown storage scheme `s4`"),
        ("zip:///none/such.zip", "`zip://…` cannot be opened"),
    ],
)
def test_what_cannot_be_opened_is_said(url: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_backend(url)
    assert says in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "url",
    [
        "ftp://user:hunter2@127.0.0.1:1/x",
        "s4://user:hunter2@host/x?token=hunter2",
        "union://mem://;s4://user:hunter2@host",
        "tar:///none?password=hunter2",
        "user:hunter2@host",
    ],
)
def test_no_credentials_in_what_is_said(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_backend(url)
    error: BaseException | None = caught.value
    while error is not None:
        assert "hunter2" not in f"{error} {error.__dict__}"
        error = error.__cause__
    assert scheme_of(url) in ("ftp", "s4", "union", "tar", "osfs")


def test_our_openers(tmp_path: Path) -> None:
    with registry.open_fs("vfs-mem://") as fs:
        assert isinstance(fs, BackendFS)
        fs.writetext("file", "x")
    with registry.open_fs(f"vfs-osfs://{tmp_path}/new", create=True) as fs:
        fs.writetext("file", "x")
    with registry.open_fs(f"vfs-union://mem://;{tmp_path}/new") as fs:
        assert fs.readtext("file") == "x"
        fs.writetext("file", "y")
    assert (tmp_path / "new" / "file").read_text() == "x"
    with pytest.raises(errors.CreateFailed, match="no such file"):
        registry.open_fs(f"vfs-osfs://{tmp_path}/none")


_PROGRAM = """
import sys
{before}
import vfs_backends.fs_compat as compat
assert sys.modules.get("pkg_resources") is {after}
from fs.opener import registry
assert {{"mem", "zip", "vfs-mem"}} <= set(registry.protocols)
registry.open_fs("vfs-mem://").close()
registry.open_fs("temp://").close()
import fs
fs.__path__.index
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "None"),
        ("import types; real = sys.modules['pkg_resources'] = types.ModuleType('pkg_resources')", "real"),
    ],
    ids=["missing or not yet imported", "imported by others"],
)
def test_fs_needs_no_pkg_resources_and_warns_of_nothing(before: str, after: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROGRAM.format(before=before, after=after)],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_importing_the_package_imports_no_test_tools() -> None:
    program = "import sys, vfs_backends.urls, vfs_backends.openers; print('pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert io.BytesIO(done.stdout).read() == b"False\n"
