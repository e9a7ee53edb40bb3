"""One door: over the whole matrix, every face gives the same verdict and leaves the same rows.

A mount differs where the operating system does: it looks up each directory on the way before it opens what is in
it. So a row of the mount may name an ancestor, and the right to list it, where the other faces name the path itself;
and of what is not there, or hidden, it says ENOENT before it comes to ask for more. Nothing happens either way.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.faces import Face, faces
from vfs.kernel.audit import AuditEntry, AuditFilter
from vfs.kernel.kernel import Kernel
from vfs.kernel.paths import parse
from vfs.kernel.trust import MATRIX, Operation, TrustLevel
from vfs.kernel.zones import Zone
from vfs.project import open_project

FILES = {
    "repo": ["a.txt", ".env", ".git/config", ".git/hooks/sample", "src/main.py", "vfs.toml"],
    "workspace": ["data/a.txt", "data/sub/b.txt"],
    "session": ["working/a.txt", "outputs/r.md"],
    "staged": ["c1/a.txt"],
    "workers": ["w.worker"],
}


class World(NamedTuple):
    kernel: Kernel
    project: Path
    session_id: str
    faces: list[Face]

    def reset(self) -> None:
        """Put every file back as it was at first, as the host does."""
        sandbox = self.project / ".sandbox"
        roots = {
            "repo": self.project,
            "workspace": sandbox,
            "session": sandbox / "sessions" / self.session_id,
            "staged": sandbox / "staged",
            "workers": self.project / ".workers",
        }
        for zone, paths in FILES.items():
            for path in paths:
                target = roots[zone] / path
                target.parent.mkdir(parents=True, exist_ok=True)
                if not target.exists() or target.read_text() != "old":
                    target.write_text("" if path == "vfs.toml" else "old")
            for new in ("new", "c1/new", "data/new", "working/new", "src/new", "key.pem"):
                (roots[zone] / new).unlink(missing_ok=True)


@pytest.fixture(scope="module", params=TrustLevel)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    project, home = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VFS_HOME", str(home))
        (project / ".workers").mkdir()
        with open_project(project) as kernel:
            session = kernel.start(trust_level=request.param)
            with faces(kernel, session, project) as found:
                yield World(kernel, project, session.id, found)


existing = [f"/{zone}/{path}" for zone, paths in FILES.items() for path in paths]
other = [
    "/repo/new", "/repo/src/new", "/workspace/data/new", "/session/working/new", "/staged/c1/new", "/workers/new",
    "/repo/.sandbox/state.db", "/repo/.git/hooks/new", "/session/ses_aaaaaaaaaaaaaaaa/x",
    "/workspace/new", "/repo/key.pem",
]  # fmt: skip
paths = st.sampled_from([*existing, *other])
directories = st.sampled_from(
    ["/", "/repo", "/repo/src", "/repo/.git", "/workspace", "/workspace/data", "/session", "/session/working",
     "/staged", "/staged/c1", "/workers", "/repo/.sandbox"]
)  # fmt: skip
requests = st.one_of(
    st.tuples(st.sampled_from(["read", "write", "delete"]), paths), st.tuples(st.just("list"), directories)
)


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(requests)
def test_every_face_gives_the_same_verdict_and_leaves_the_same_rows(
    world: World, request_: tuple[str, str]
) -> None:
    operation, path = request_
    seen = {}
    for face in world.faces:
        world.reset()
        before = world.kernel.log.stats().last_sequence or 0
        verdict = getattr(face, operation)(path)
        entries = world.kernel.log.get_entries(AuditFilter(session_id=world.session_id, after=before))
        seen[face.name] = (verdict, [entry for entry in entries if entry.action not in _ASIDE])
    expected, rows = seen["api"]
    if seen["fuse"][0] == "missing" and expected == "denied":
        assert path not in existing or world.kernel.policy.hides(_level(world), parse(path))
        assert not any(entry.allowed for entry in seen.pop("fuse")[1])
    assert {verdict for verdict, _ in seen.values()} == {expected}, (operation, path, seen)
    for name, (_, entries) in seen.items():
        assert _agree(rows, entries), (name, operation, path, rows, entries)
        assert {entry.face for entry in entries} <= {name}


_ASIDE = ("mkdir", "utime", "chmod")
"""What a face does besides: the API makes missing parents."""


def _level(world: World) -> TrustLevel:
    return world.kernel.sessions.get(world.session_id).trust_level


def _agree(rows: list[AuditEntry], entries: list[AuditEntry]) -> bool:
    refused = [row for row in rows if not row.allowed]
    if refused:
        return any(_same_refusal(refused[-1], entry) for entry in entries) and not any(
            entry.allowed and entry.operation == refused[-1].operation for entry in entries
        )
    made = [(row.operation, row.path, row.zone) for row in rows if row.outcome == "ok"]
    # The operating system tells a mount of a closed file a moment after close(2) has returned.
    got = [(e.operation, e.path, e.zone) for e in entries if e.outcome in ("ok", "pending")]
    return set(made) <= set(got) and not [entry for entry in entries if not entry.allowed]


def _same_refusal(row: AuditEntry, entry: AuditEntry) -> bool:
    return (
        not entry.allowed
        and entry.zone == row.zone
        and entry.rule == row.rule
        and entry.trust_level == row.trust_level
        and (entry.path == row.path or f"{row.path}/".startswith(f"{entry.path}/"))
    )


def test_the_matrix_decides_at_the_mount(world: World) -> None:
    """All eighty cells, at a real mount: what the table grants is done, the rest is EACCES."""
    level = _level(world)
    mount = next(face for face in world.faces if face.name == "fuse")
    for zone in Zone:
        world.reset()
        config = MATRIX[level][zone]
        place = {"workspace": "/data", "session": "/working", "staged": "/c1"}.get(zone, "")
        directory = f"/{zone}{place}"
        old = f"{directory}/{'w.worker' if zone is Zone.WORKERS else 'a.txt'}"
        assert (mount.read(old) == "ok") == config.grants(Operation.READ), (zone, "read")
        assert (mount.list(directory) == "ok") == config.grants(Operation.LIST), (zone, "list")
        assert (mount.write(f"{directory}/new") == "ok") == config.grants(Operation.WRITE), (zone, "write")
        assert (mount.write(old) == "ok") == (config.grants(Operation.WRITE) and not config.create_only)
        assert (mount.delete(old) == "ok") == config.grants(Operation.DELETE), (zone, "delete")
