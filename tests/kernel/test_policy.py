"""The verdict: seed 001's table, word for word, and what narrows it."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfs.kernel.errors import ConfigError
from vfs.kernel.paths import VirtualPath, parse
from vfs.kernel.policy import Policy
from vfs.kernel.rules import DEFAULT_RULES, PROTECTED, Effect, Rule, compile_rules, covering
from vfs.kernel.trust import MATRIX, Operation, TrustLevel
from vfs.kernel.zones import Zone

SEED_TABLE = """
          SESSION WORKSPACE REPO STAGED WORKERS
UNTRUSTED
  read      y        n       n     n       y
  write     y        n       n     *       n
  list      y        n       n     n       y
  delete    y        n       n     n       n
SESSION
  read      y        y       n     y       y
  write     y        y       n     y       n
  list      y        y       n     y       y
  delete    y        y       n     y       n
WORKSPACE
  read      y        y       y     y       y
  write     y        y       n     y       n
  list      y        y       y     y       y
  delete    y        y       n     y       n
FULL
  read      y        y       y     y       y
  write     y        y       y     y       y
  list      y        y       y     y       y
  delete    y        y       y     y       y
"""


def seed_cells() -> list[tuple[TrustLevel, Operation, Zone, str]]:
    lines = SEED_TABLE.strip().splitlines()
    zones = [Zone(name.lower()) for name in lines[0].split()]
    cells, level = [], TrustLevel.UNTRUSTED
    for line in lines[1:]:
        words = line.split()
        if len(words) == 1:
            level = TrustLevel(words[0].lower())
        else:
            cells += [(level, Operation(words[0]), z, c) for z, c in zip(zones, words[1:], strict=True)]
    return cells


@pytest.mark.parametrize(("level", "operation", "zone", "cell"), seed_cells())
def test_the_matrix_is_the_seeds(level: TrustLevel, operation: Operation, zone: Zone, cell: str) -> None:
    decision = Policy().decide(level, operation, parse(f"/{zone}/some/file"))
    assert decision.allowed == (cell in "y*")
    assert decision.create_only == (cell == "*")
    assert MATRIX[level][zone].grants(operation) == decision.allowed
    if cell == "n":
        assert decision.reason == f"{operation} not permitted in {zone} zone"
        assert decision.hint is not None


def test_there_are_eighty_cells() -> None:
    assert len(seed_cells()) == 80


def test_only_untrusted_staging_waits_for_approval() -> None:
    waiting = [(level, z) for level in TrustLevel for z in Zone if MATRIX[level][z].requires_approval]
    assert waiting == [(TrustLevel.UNTRUSTED, Zone.STAGED)]


levels = st.sampled_from(TrustLevel)
operations = st.sampled_from(Operation)
zones = st.sampled_from(Zone)
names = st.sampled_from(
    ["a", ".git", "hooks", "config", ".env", ".sandbox", "src", ".aws", "x.pem", "vfs.toml"]
)
some_paths = st.builds(lambda z, n: parse("/" + "/".join([z, *n])), zones, st.lists(names, max_size=4))
rules = st.builds(
    lambda effect, zone, parts, level: Rule("own", effect, ("/" + "/".join([zone, *parts]),), level),
    st.sampled_from(Effect),
    zones,
    st.lists(st.sampled_from(["a", "**", "*", ".git", "src", "[a-z]*"]), min_size=1, max_size=3),
    levels,
)


@given(levels, operations, some_paths, rules)
def test_a_rule_never_widens_the_matrix(
    level: TrustLevel, operation: Operation, path: VirtualPath, rule: Rule
) -> None:
    bare, narrowed = Policy(()), Policy(compile_rules([rule]))
    if not bare.decide(level, operation, path).allowed:
        assert not narrowed.decide(level, operation, path).allowed
        assert not narrowed.decide(level, operation, path).ask


@given(operations, some_paths)
def test_more_trust_never_means_less(operation: Operation, path: VirtualPath) -> None:
    policy = Policy()
    verdicts = [policy.decide(level, operation, path).allowed for level in TrustLevel]
    assert verdicts == sorted(verdicts)


@pytest.mark.parametrize("level", TrustLevel)
@pytest.mark.parametrize(
    "path", ["/repo/.sandbox", "/repo/.sandbox/state.db", "/repo/.SandBox/audit/audit.db"]
)
@pytest.mark.parametrize("operation", Operation)
def test_the_sandboxs_own_state_does_not_exist(level: TrustLevel, path: str, operation: Operation) -> None:
    decision = Policy().decide(level, operation, parse(path))
    assert not decision.allowed
    assert decision.hidden or not MATRIX[level][Zone.REPO].grants(operation)


@pytest.mark.parametrize(
    "path",
    ["/repo/.git/hooks/pre-commit", "/repo/.git/hooks", "/repo/.git/config", "/repo/sub/.git/hooks/x",
     "/repo/.GIT/Hooks/pre-push", "/repo/vfs.toml", "/repo/.git/modules/a/b/hooks/x", "/repo/.git/modules/a/config"],
)  # fmt: skip
def test_what_would_run_on_the_host_cannot_be_written_at_any_level(path: str) -> None:
    for level in TrustLevel:
        assert not Policy().decide(level, Operation.WRITE, parse(path)).allowed
        assert not Policy().decide(level, Operation.DELETE, parse(path)).allowed
    assert Policy().decide(TrustLevel.FULL, Operation.READ, parse(path)).allowed


@pytest.mark.parametrize(
    "path",
    ["/repo/.env", "/repo/a/b/.env.production", "/repo/server.pem", "/repo/.ssh/id_ed25519", "/repo/.npmrc",
     "/repo/home/.netrc", "/repo/.aws/credentials", "/repo/.config/gcloud/x.json", "/repo/k/.kube/config"],
)  # fmt: skip
def test_credentials_are_hidden_below_full_trust(path: str) -> None:
    assert Policy().decide(TrustLevel.WORKSPACE, Operation.READ, parse(path)).hidden
    assert Policy().decide(TrustLevel.FULL, Operation.READ, parse(path)).allowed


@pytest.mark.parametrize(
    "path", ["/repo/.env.example", "/repo/environment.py", "/repo/src/keys.py", "/repo/pem.md"]
)
def test_what_only_looks_like_credentials_is_not_hidden(path: str) -> None:
    assert Policy().decide(TrustLevel.WORKSPACE, Operation.READ, parse(path)).allowed


def test_each_shipped_rule_can_be_lifted_and_no_protected_one() -> None:
    for rule in DEFAULT_RULES:
        assert rule.name not in [r.name for r in compile_rules(lifted=[rule.name])]
    for rule in PROTECTED:
        with pytest.raises(ConfigError, match="no shipped rule"):
            compile_rules(lifted=[rule.name])


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two rules are called `env-files`"):
        compile_rules([Rule("env-files", Effect.DENY, ("/repo/x",))])


def test_a_pattern_without_a_zone_is_refused() -> None:
    with pytest.raises(ConfigError, match="names no zone"):
        Rule("bad", Effect.DENY, ("secrets/**",))


@dataclass(frozen=True, slots=True)
class _FailingRule(Rule):
    def covers(self, path: str) -> bool:
        raise ZeroDivisionError("boom")


@given(levels, operations, some_paths)
def test_a_rule_that_fails_denies(level: TrustLevel, operation: Operation, path: VirtualPath) -> None:
    policy = Policy((_FailingRule("broken", Effect.DENY, ("/**",)),))
    decision = policy.decide(level, operation, path)
    if path.zone is None:
        return
    if operation is Operation.LIST or not MATRIX[level][path.zone].grants(operation):
        return  # DENY leaves listing alone, and the matrix decides first
    assert not decision.allowed
    if path.rest or operation is not Operation.DELETE:
        assert "broken" in (decision.rule + (decision.reason or ""))


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("/repo/secrets", "/repo/secrets/a/b", True),
        ("/repo/secrets", "/repo/secretsx", False),
        ("/repo/**/x", "/repo/x", True),
        ("/repo/**/x", "/repo/a/b/x/y", True),
        ("/repo/*/x", "/repo/a/b/x", False),
        ("/repo/*.py", "/repo/a.py", True),
        ("/repo/*.py", "/repo/d/a.py", False),
        ("/repo/[!a]?", "/repo/bc", True),
        ("/repo/[!a]?", "/repo/ac", False),
        ("/repo/a[", "/repo/a[", True),
        ("/**/tmp", "/session/a/tmp/b", True),
        ("/repo/a\nb", "/repo/a\nb", True),
        ("/repo/*", "/repo/a\nb", True),
    ],
)
def test_patterns(pattern: str, path: str, *, covered: bool) -> None:
    assert Rule("r", Effect.HIDE, (pattern,)).covers(path) == covered


@pytest.mark.parametrize(
    ("pattern", "old", "new", "dodges"),
    [
        ("/repo/**/.git/hooks", "/repo/.git", "/repo/git", True),
        ("/repo/**/.git/hooks", "/repo/a", "/repo/b/.git", True),
        ("/repo/**/.git/hooks", "/repo/a", "/repo/b/c", False),
        ("/repo/**/.git/modules/**/config", "/repo/.git/modules/sub", "/repo/tmp", True),
        ("/repo/**/.git/modules/**/config", "/repo/.git/modules/a", "/repo/.git/modules/b/c", False),
        ("/workspace/data/**/private.txt", "/workspace/data/x", "/workspace/cache/x", True),
        ("/workspace/data/**/private.txt", "/workspace/data/x", "/workspace/data/y/z", False),
        ("/workspace/data/secrets/*.txt", "/workspace/data/secrets", "/workspace/data/open", True),
        ("/workspace/data/secrets/*.txt", "/workspace/data/a", "/workspace/data/b", False),
        ("/workspace/*/*/key", "/workspace/data/a", "/workspace/data/b/c", True),
        ("/repo/**/.env", "/repo/a", "/repo/b", False),
    ],
)
def test_moving_a_directory_must_not_dodge_a_rule(pattern: str, old: str, new: str, *, dodges: bool) -> None:
    policy = Policy((Rule("r", Effect.READ_ONLY, (pattern,)),))
    assert policy.moves(TrustLevel.FULL, parse(old), parse(new)).allowed is not dodges


tails = st.lists(names, max_size=3).map("/".join)
directories = st.lists(names, min_size=1, max_size=3).map(lambda parts: "/repo/" + "/".join(parts))
patterns = st.lists(st.sampled_from(["a", "**", "*", ".git", "src", "hooks"]), min_size=1, max_size=4).map(
    lambda parts: "/repo/" + "/".join(parts)
)


@given(patterns, directories, directories, tails)
def test_what_may_be_moved_is_covered_alike_at_both_places(
    pattern: str, old: str, new: str, tail: str
) -> None:
    rule = Rule("r", Effect.HIDE, (pattern,))
    if rule.standing(old) == rule.standing(new):
        assert rule.covers(f"{old}/{tail}") == rule.covers(f"{new}/{tail}")


@given(patterns, directories)
def test_one_pattern_for_all_covers_what_the_rules_cover(pattern: str, path: str) -> None:
    other = "/repo/**/x.pem"
    both = covering((pattern, other))
    rules = [Rule("r", Effect.HIDE, (pattern,)), Rule("s", Effect.HIDE, (other,))]
    assert bool(both.match(path)) == any(rule.covers(path) for rule in rules)
