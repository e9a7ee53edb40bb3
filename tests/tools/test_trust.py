"""Every tool at every trust level: what the matrix grants happens, what it does not is refused and recorded."""

from typing import Any

import pytest

from tests.tools.conftest import World, rows
from vfs.config import RuleSettings, RulesSettings, Settings
from vfs.kernel.rules import Effect
from vfs.kernel.sandbox import Sandbox
from vfs.kernel.trust import TrustLevel
from vfs_tools.functions import SandboxToolset

LEVELS = ["untrusted", "session", "workspace", "full"]
ZONES = {
    "session": "/session/working",
    "workspace": "/workspace/data",
    "repo": "/repo/dir",
    "staged": "/staged/c1",
    "workers": "/workers/dir",
}
# By zone, the levels at which a right is granted (seed 001, Zone Permissions by Trust Level).
ALL, FROM_SESSION, FROM_WORKSPACE, FULL = LEVELS, LEVELS[1:], LEVELS[2:], LEVELS[3:]
GRANTED = {
    "session": {"read": ALL, "write": ALL, "list": ALL, "delete": ALL},
    "workspace": dict.fromkeys(("read", "write", "list", "delete"), FROM_SESSION),
    "repo": {"read": FROM_WORKSPACE, "list": FROM_WORKSPACE, "write": FULL, "delete": FULL},
    "staged": dict.fromkeys(("read", "write", "list", "delete"), FROM_SESSION),
    "workers": {"read": ALL, "list": ALL, "write": FULL, "delete": FULL},
}
CALLS: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    # tool, arguments below the zone's directory D, the rights it takes
    ("read_file", {"path": "D/old.txt"}, ("read",)),
    ("read_bytes", {"path": "D/old.txt"}, ("read",)),
    ("file_info", {"path": "D/old.txt"}, ("list",)),
    ("list_files", {"path": "D"}, ("list",)),
    ("glob", {"pattern": "D/**"}, ("list",)),
    ("search", {"pattern": "text", "path": "D", "literal": True}, ("list", "read")),
    ("edit_file", {"path": "D/old.txt", "old_text": "text", "new_text": "word"}, ("read", "write")),
    ("write_file", {"path": "D/new/file.txt", "content": "x"}, ("write",)),
    ("make_dir", {"path": "D/a/b"}, ("write",)),
    ("move", {"source": "D/old.txt", "target": "D/moved.txt"}, ("delete", "write")),
    ("delete", {"path": "D/old.txt"}, ("delete",)),
]


def prepare(world: World, level: str) -> Sandbox:
    """Return a sandbox at `level` whose zones all hold a file `old.txt`."""
    sandbox = world.sandbox("full", repo={"dir/old.txt": "text"}, workers={"dir/old.txt": "text"})
    for zone in ("session", "workspace", "staged"):
        sandbox.write(f"{ZONES[zone]}/old.txt", "text")
    sandbox.demote(TrustLevel(level), who="test", reason="test")
    return sandbox


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("zone", list(ZONES))
def test_every_tool_gets_what_the_matrix_grants(world: World, level: str, zone: str) -> None:
    for name, template, rights in CALLS:
        if zone == "staged" and level == "untrusted" and name in ("write_file", "make_dir"):
            continue  # may add, see below
        sandbox = prepare(world, level)
        tools = SandboxToolset(sandbox)
        args = {
            key: value.replace("D", ZONES[zone]) if isinstance(value, str) else value
            for key, value in template.items()
        }
        granted = all(level in GRANTED[zone][right] for right in rights)
        forecast = tools.needs_approval(name, args)
        result = tools.execute(name, args).to_dict()
        assert result["success"] is granted, (name, result)
        assert (forecast.status != "blocked") is granted, (name, forecast)
        if not granted:
            assert str(result["error"]).startswith("Permission denied: ")
            assert result["hint"]
            assert result["code"] == "PERMISSION_DENIED"
            last = rows(sandbox)[-1]
            assert (last.allowed, last.face) == (False, "tool")


def test_untrusted_may_add_to_the_staged_zone_and_not_overwrite(world: World) -> None:
    tools = world.toolset("untrusted")
    first = {"path": "/staged/c1/new.md", "content": "a"}
    assert tools.execute("write_file", first).success
    again = tools.execute("write_file", {**first, "content": "b"}).to_dict()
    assert (again["success"], again["code"]) == (False, "PERMISSION_DENIED")
    assert tools.execute("make_dir", {"path": "/staged/c1/dir"}).success


def test_untrusted_may_stage_for_commit(world: World) -> None:
    tools = world.toolset("untrusted")
    args = {"files": [{"path": "a.md", "content": "A"}], "message": "m"}
    assert tools.execute("stage_for_commit", args).success
    assert tools.execute("list_staged", {}).to_dict()["code"] == "PERMISSION_DENIED"
    assert tools.needs_approval("list_staged", {}).status == "blocked"


def test_everything_a_tool_does_is_recorded_under_the_face_tool(world: World) -> None:
    sandbox = world.sandbox("workspace", repo={"a.py": "x\n", "b.py": "x\n"})
    tools = SandboxToolset(sandbox)
    tools.execute("write_file", {"path": "n.md", "content": "n"})
    tools.execute("read_file", {"path": "n.md"})
    tools.execute("list_files", {"path": "."})
    tools.execute("search", {"pattern": "x", "path": "/repo"})
    tools.execute("delete", {"path": "n.md"})
    tools.execute("read_file", {"path": "/session/../../etc/passwd"})
    seen = [(row.operation, row.path, row.allowed) for row in rows(sandbox)]
    assert {row.face for row in rows(sandbox)} == {"tool"}
    assert seen == [
        ("write", "/session/working/n.md", True),
        ("read", "/session/working/n.md", True),
        ("list", "/session/working", True),
        ("list", "/repo", True),
        ("read", "/repo/a.py", True),
        ("read", "/repo/b.py", True),
        ("delete", "/session/working/n.md", True),
        ("read", "/session/../../etc/passwd", False),
    ]


def test_the_face_can_be_another_protocols(world: World) -> None:
    sandbox = world.sandbox()
    SandboxToolset(sandbox, face="mcp").execute("list_files", {"path": "."})
    assert [row.face for row in rows(sandbox)] == ["mcp"]


def test_the_same_toolset_follows_a_demotion(world: World) -> None:
    sandbox = world.sandbox("workspace", repo={"a": "x"})
    tools = SandboxToolset(sandbox)
    assert tools.execute("read_file", {"path": "/repo/a"}).success
    sandbox.demote("session", who="test", reason="test")
    assert not tools.execute("read_file", {"path": "/repo/a"}).success
    assert tools.needs_approval("read_file", {"path": "/repo/a"}).status == "blocked"


def test_a_session_that_ended_is_refused_for_every_tool(world: World) -> None:
    sandbox = world.sandbox()
    tools = SandboxToolset(sandbox)
    sandbox.kernel.end(sandbox.session.id)
    assert tools.execute("list_files", {"path": "."}).to_dict()["code"] == "INVALID_SESSION"
    assert tools.needs_approval("list_files", {"path": "."}).status == "blocked"


def test_reading_another_sessions_file_is_a_violation(world: World) -> None:
    sandbox = world.sandbox("full")
    other = sandbox.kernel.start()
    path = f"/session/{other.id}/working/x"
    tools = SandboxToolset(sandbox)
    result = tools.execute("read_file", {"path": path}).to_dict()
    assert (result["code"], result["hint"]) == (
        "SECURITY_VIOLATION",
        "This file is outside your accessible zones.",
    )
    assert rows(sandbox)[-1].operation == "security_violation"
    assert tools.needs_approval("read_file", {"path": path}).status == "blocked"


def with_rule(effect: Effect) -> Settings:
    rule = RuleSettings(name="owner", effect=effect, paths=("/workspace/data/private",))
    return Settings(rules=RulesSettings(own=(rule,)))


def test_a_rule_that_asks_needs_an_approval_and_is_refused_where_nobody_answers(world: World) -> None:
    tools = world.toolset(settings=with_rule(Effect.ASK))
    path = "/workspace/data/private/x"
    assert tools.needs_approval("write_file", {"path": path}).status == "needs_approval"
    result = tools.execute("write_file", {"path": path, "content": "x"}).to_dict()
    assert (result["code"], result["hint"]) == (
        "APPROVAL_REQUIRED",
        "ask the person who runs this session",
    )


def test_what_a_rule_hides_is_in_no_listing_glob_or_search(world: World) -> None:
    sandbox = world.sandbox(
        "workspace", repo={".env": "SECRET=1", "a.txt": "SECRET=2", "sub/.env.local": "SECRET"}
    )
    tools = SandboxToolset(sandbox)
    assert tools.execute("list_files", {"path": "/repo"}).to_dict()["files"] == ["a.txt", "sub"]
    assert tools.execute("glob", {"pattern": "/repo/**"}).to_dict()["files"] == ["/repo/a.txt"]
    found = tools.execute("search", {"pattern": "SECRET", "path": "/repo"}).to_dict()
    assert [match["path"] for match in found["matches"]] == ["/repo/a.txt"]  # type: ignore[union-attr,index,call-overload]  # plain JSON
    assert tools.execute("read_file", {"path": "/repo/.env"}).to_dict()["code"] == "NOT_FOUND"
