"""Quotas: what does not fit is refused, what fits is not, whoever writes and however."""

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfs.config import Settings
from vfs.kernel.errors import QuotaExceededError
from vfs.kernel.quota import Ledger, measure
from vfs.kernel.sandbox import Sandbox
from vfs.kernel.state import StateDatabase
from vfs.kernel.zones import Zone
from vfs.project import memory_sandbox, open_sandbox


def settings(size: int) -> Settings:
    return Settings.parse({"quota": {"session": size, "workspace": size}})


@pytest.mark.parametrize("size", [1, 999, 1000])
def test_what_fits_exactly_fits(tmp_path: Path, size: int) -> None:
    with open_sandbox(tmp_path, settings=settings(1000)) as sandbox:
        sandbox.write("x", "a" * size)
        sandbox.write("y", "b" * (1000 - size))
        with pytest.raises(QuotaExceededError, match="quota of 1,000"):
            sandbox.write("z", "c")
        assert not sandbox.exists("z")


def test_every_way_to_grow_is_counted_and_every_way_to_shrink_gives_back(tmp_path: Path) -> None:
    with open_sandbox(tmp_path, settings=settings(1000)) as sandbox:
        with sandbox.open("f", "wb", buffering=0) as file:
            file.write(b"x" * 900)
            with pytest.raises(QuotaExceededError):
                file.write(b"x" * 101)
            with pytest.raises(QuotaExceededError):
                file.truncate(1001)
            file.write(b"x" * 100)
            file.truncate(500)
        with sandbox.open("f", "ab", buffering=0) as file:
            file.write(b"y" * 500)
            with pytest.raises(QuotaExceededError):
                file.write(b"y")
        with sandbox.open("f", "wb", buffering=0) as file:
            file.write(b"z" * 1000)
        sandbox.write("f", "small")
        sandbox.write("g", "g" * 900)
        sandbox.move("g", "f")
        sandbox.write("h", "h" * 100)
        sandbox.delete("f")
        sandbox.write("i", "i" * 900)


def test_a_quota_counts_what_was_there_before(tmp_path: Path) -> None:
    with open_sandbox(tmp_path, session_id="s") as sandbox:
        sandbox.write("x", "a" * 800)
    with open_sandbox(tmp_path, settings=settings(1000), session_id="s") as sandbox:
        sandbox.write("y", "b" * 200)
        with pytest.raises(QuotaExceededError):
            sandbox.write("z", "c")


def test_a_failed_write_costs_nothing() -> None:
    with memory_sandbox(settings=settings(1000)) as sandbox:
        sandbox.write("x", "a" * 400)
        for _ in range(10):
            with pytest.raises(FileExistsError):
                sandbox.write_bytes("x", b"b" * 900, exclusive=True)
        sandbox.write("y", "b" * 600)


def test_several_kernels_share_one_quota(tmp_path: Path) -> None:
    limit = settings(100_000)
    with open_sandbox(tmp_path, settings=limit) as one, open_sandbox(tmp_path, settings=limit) as two:
        refused = []

        def fill(sandbox: Sandbox, name: str) -> None:
            for number in range(100):
                try:
                    sandbox.write(f"/workspace/data/{name}{number}", "x" * 1000)
                except QuotaExceededError:
                    refused.append(1)

        threads = [threading.Thread(target=fill, args=(s, n)) for s, n in ((one, "a"), (two, "b"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        written = measure(one.kernel.storage.backend(Zone.WORKSPACE, "cli", ""))
        assert written == 100_000
        assert len(refused) == 100


@given(st.lists(st.integers(-400, 700), max_size=30))
def test_a_ledger_never_exceeds_and_never_refuses_what_fits(
    tmp_path_factory: pytest.TempPathFactory, changes: list[int]
) -> None:
    state = StateDatabase(tmp_path_factory.mktemp("ledger") / "state.db")
    ledgers = [Ledger(state, "scope", 1000, lambda: 0) for _ in range(2)]
    used = 0
    for number, drawn in enumerate(changes):
        change = max(drawn, -used)
        ledger = ledgers[0 if number < len(changes) // 2 else 1]
        if number == len(changes) // 2:
            ledgers[0].settle()
        try:
            ledger.spend(change, "/x")
        except QuotaExceededError:
            assert used + change > 1000
        else:
            used += change
            assert used <= 1000
    state.close()
