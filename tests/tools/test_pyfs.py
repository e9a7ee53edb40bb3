"""A sandbox as a PyFilesystem2 file system."""

import unittest

import pytest

from tests.tools.conftest import World, rows
from vfs.kernel.sandbox import Sandbox
from vfs.project import memory_sandbox
from vfs_backends.fs_compat import FS, conformance_cases, errors
from vfs_tools.pyfs import as_fs

Cases = conformance_cases()


class TestConformance(Cases, unittest.TestCase):  # type: ignore[misc,valid-type]  # a class made at run time
    """PyFilesystem2's own cases, in a session's working directory."""

    sandbox: Sandbox

    def make_fs(self) -> FS:
        self.sandbox = memory_sandbox(trust_level="session")
        return as_fs(self.sandbox, "/session/working")

    def destroy_fs(self, fs: FS) -> None:
        fs.close()
        self.sandbox.close()


def test_the_root_holds_the_five_zones(world: World) -> None:
    with as_fs(world.sandbox()) as fs:
        assert sorted(fs.listdir("/")) == ["repo", "session", "staged", "workers", "workspace"]


def test_what_the_session_may_not_do_is_denied_and_recorded(world: World) -> None:
    sandbox = world.sandbox("session", repo={"a": "x"})
    with as_fs(sandbox) as fs:
        with pytest.raises(errors.PermissionDenied):
            fs.readtext("/repo/a")
        with pytest.raises(errors.PermissionDenied):
            fs.writetext("/repo/a", "y")
    assert [(row.operation, row.path, row.allowed) for row in rows(sandbox)] == [
        ("read", "/repo/a", False),
        ("write", "/repo/a", False),
    ]


def test_helpers_that_copy_get_past_nothing(world: World) -> None:
    sandbox = world.sandbox("workspace", repo={"a": "x", ".env": "SECRET"})
    with as_fs(sandbox) as fs:
        fs.copy("/repo/a", "/session/working/a")
        with pytest.raises(errors.PermissionDenied):
            fs.move("/session/working/a", "/repo/b")
        with pytest.raises(errors.ResourceNotFound):
            fs.copy("/repo/.env", "/session/working/env")
        assert not fs.hassyspath("/repo/a")
        assert sandbox.read("a") == "x"


def test_it_is_recorded_under_the_sandboxs_face(world: World) -> None:
    sandbox = world.sandbox()
    with as_fs(sandbox.through("fs"), "/session/working") as fs:
        fs.writetext("a", "x")
    assert {(row.face, row.path) for row in rows(sandbox)} == {("fs", "/session/working/a")}
    assert sandbox.read("a") == "x"
