"""Fixtures of the kernel's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.worlds import DiskWorld, MemoryWorld, World


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VFS_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.delenv("VFS_WORKERS_PATH", raising=False)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[DiskWorld]:
    world = DiskWorld(tmp_path)
    yield world
    world.close()


@pytest.fixture(params=["os", "memory"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    world = DiskWorld(tmp_path) if request.param == "os" else MemoryWorld()
    yield world
    world.close()
