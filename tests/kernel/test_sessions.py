"""Sessions, trust and what ends them."""

import threading
import time

import pytest

from tests.kernel.worlds import DiskWorld, World
from vfs.config import Settings
from vfs.kernel.audit import AuditFilter
from vfs.kernel.errors import ConfigError, PermissionError, SessionError, TokenError
from vfs.kernel.sandbox import Sandbox
from vfs.kernel.sessions import SourceContext, is_session_id, new_session_id
from vfs.kernel.trust import TrustLevel
from vfs.project import memory_sandbox, open_project, open_sandbox


@pytest.mark.parametrize(
    "text", ["", ".", "..", "a/b", "inputs", "working", "x" * 65, "-a", "a b", "é", "a\n"]
)
def test_what_is_no_session_id_is_refused(disk: DiskWorld, text: str) -> None:
    assert not is_session_id(text)
    kernel = disk.sandbox().kernel
    with pytest.raises(SessionError, match=r"is not a session id|no session"):
        kernel.start(session_id=text) if text else kernel.sessions.get(text)


def test_generated_ids_are_ids_and_differ() -> None:
    made = {new_session_id() for _ in range(100)}
    assert len(made) == 100
    assert all(is_session_id(one) for one in made)


def test_web_content_starts_untrusted() -> None:
    with memory_sandbox() as sandbox:
        kernel = sandbox.kernel
        assert kernel.start(source=SourceContext("web_content", "https://x")).trust_level == "untrusted"
        assert kernel.start().trust_level == "session"
        context = sandbox.kernel.start(source=SourceContext("web_content", "https://x")).source_context
        assert context.origin == "https://x"


def test_resuming_keeps_the_trust_and_does_not_raise_it(disk: DiskWorld) -> None:
    session = disk.sandbox("untrusted", session_id="s1").session
    with pytest.raises(ConfigError, match="has trust level `untrusted`, not `full`"):
        open_sandbox(disk.project, session_id="s1", trust_level="full")
    with open_sandbox(disk.project, session_id="s1") as again:
        assert again.session.trust_level == session.trust_level
        assert again.session.created_at == session.created_at


def test_demotion_takes_effect_on_an_open_file_in_another_kernel(disk: DiskWorld) -> None:
    sandbox = disk.sandbox("workspace")
    sandbox.write("/workspace/data/x", "0123456789")
    file = sandbox.open("/workspace/data/x", "rb", buffering=0)
    assert file.read(2) == b"01"
    with open_project(disk.project) as other:
        other.demote(sandbox.session.id, TrustLevel.UNTRUSTED, who="ada", reason="odd")
    with pytest.raises(PermissionError, match="read not permitted in workspace zone"):
        file.read(2)
    with pytest.raises(PermissionError):
        sandbox.read("/workspace/data/x")
    assert sandbox.security_context.trust_level == "untrusted"


def test_demotion_cannot_raise(world: World) -> None:
    sandbox = world.sandbox("untrusted")
    with pytest.raises(PermissionError, match="promotion"):
        sandbox.demote("full", who="agent", reason="please")
    assert sandbox.session.trust_level == "untrusted"


class TestTokens:
    def issue(self, sandbox: Sandbox, *, reason: str = "checked", seconds: float = 60) -> str:
        issue = sandbox.kernel.promotions.issue
        return issue(sandbox.session.id, TrustLevel.WORKSPACE, who="ada", reason=reason, seconds=seconds)

    def refused(self, sandbox: Sandbox, token: str, words: str) -> None:
        before = sandbox.session.trust_level
        with pytest.raises(TokenError, match=words):
            sandbox.promote(token)
        assert sandbox.session.trust_level == before
        (row, *_) = sandbox.kernel.log.get_entries(
            AuditFilter(operation="promote", session_id=sandbox.session.id, allowed=False, newest_first=True)
        )
        assert row.reason

    def test_counts_once(self, world: World) -> None:
        sandbox = world.sandbox("untrusted")
        token = self.issue(sandbox)
        sandbox.promote(token)
        assert sandbox.session.trust_level == "workspace"
        assert sandbox.session.trust_by == "ada"
        self.refused(sandbox, token, "used before")

    def test_counts_once_among_many_threads(self, world: World) -> None:
        sandbox = world.sandbox("untrusted")
        token, granted = self.issue(sandbox), []

        def use() -> None:
            try:
                sandbox.kernel.promote(sandbox.session.id, token)
            except TokenError:
                return
            granted.append(1)

        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert granted == [1]

    def test_expires(self, world: World) -> None:
        sandbox = world.sandbox("untrusted")
        self.refused(sandbox, self.issue(sandbox, seconds=-1), "expired")

    def test_is_for_one_session(self, world: World) -> None:
        first, second = world.sandbox("untrusted"), world.sandbox("untrusted")
        self.refused(second, self.issue(first), "is for session")

    def test_is_for_one_project(self, world: World) -> None:
        with memory_sandbox(trust_level="untrusted") as other:
            sandbox = world.sandbox("untrusted")
            self.refused(sandbox, self.issue(other), "does not hold|another project")

    def test_cannot_be_forged(self, world: World) -> None:
        import jwt

        sandbox = world.sandbox("untrusted")
        token = self.issue(sandbox)
        header, payload, signature = token.split(".")
        self.refused(sandbox, f"{header}.{payload}.{signature[:-4]}AAAA", "does not hold")
        claims = jwt.decode(token, options={"verify_signature": False})
        self.refused(
            sandbox, jwt.encode({**claims, "level": "full"}, "k" * 32, algorithm="HS256"), "does not hold"
        )
        self.refused(sandbox, jwt.encode(claims, "", algorithm="none"), "does not hold")
        self.refused(sandbox, "no token at all", "does not hold")

    def test_names_who_and_why(self, world: World) -> None:
        with pytest.raises(TokenError, match="who grants it and why"):
            self.issue(world.sandbox("untrusted"), reason="")


def test_an_ended_session_may_do_nothing_more(world: World) -> None:
    sandbox = world.sandbox()
    sandbox.write("x", "1")
    file = sandbox.open("x", "rb", buffering=0)
    sandbox.kernel.end(sandbox.session.id)
    for act in (lambda: sandbox.read("x"), lambda: file.read(1), lambda: sandbox.write("x", "2")):
        with pytest.raises(SessionError, match="has ended"):
            act()


def test_a_session_expires_by_its_ttl_and_lives_on_when_it_is_resumed(disk: DiskWorld) -> None:
    settings = Settings.parse({"session": {"ttl": 0.2}})
    with open_sandbox(disk.project, settings=settings, session_id="short") as sandbox:
        sandbox.write("x", "1")
        deadline = time.monotonic() + 10
        while sandbox.kernel.sessions.get("short").status == "active" and time.monotonic() < deadline:
            threading.Event().wait(0.02)
        with pytest.raises(SessionError, match="has expired"):
            sandbox.read("x")
    with open_sandbox(disk.project, settings=settings, session_id="short") as again:
        assert again.read("x") == "1"


def test_collecting_takes_what_is_over_and_never_an_undecided_staged_commit(disk: DiskWorld) -> None:
    alive, over = disk.sandbox(), disk.sandbox()
    alive.write("keep", "1")
    over.write("drop", "1")
    commit_id = over.stage([{"repo_path": "a", "content": "A"}], "message")
    kernel = alive.kernel
    over_id = over.session.id
    kernel.end(over_id)
    assert kernel.collect(dry_run=True).sessions == (over_id,)
    assert (disk.project / ".sandbox" / "sessions" / over_id).is_dir()
    assert kernel.collect().sessions == (over_id,)
    assert not (disk.project / ".sandbox" / "sessions" / over_id).exists()
    assert alive.read("keep") == "1"
    assert alive.staged_commit(commit_id).files[0].repo_path == "a"
    assert kernel.collect().sessions == ()


def test_two_sessions_of_one_id_cannot_be_made(world: World) -> None:
    kernel = world.sandbox(session_id="one").kernel
    with pytest.raises(SessionError, match="already"):
        kernel.start(session_id="one")
