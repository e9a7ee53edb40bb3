"""Path rules: what narrows the trust matrix for certain paths, and never widens it.

A rule has glob patterns over virtual paths, an effect, and the highest trust level it binds. In a pattern,
`**` stands for any number of names, `*`, `?` and `[…]` for characters within one; a pattern covers what it
names and everything below. Matching ignores case, because on some file systems `.GIT/Hooks`
is the same place.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from vfs.kernel.errors import ConfigError
from vfs.kernel.trust import Operation, TrustLevel
from vfs.kernel.zones import ZONES, Zone

__all__ = ["DEFAULT_RULES", "PROTECTED", "Effect", "Rule", "compile_rules"]


class Effect(StrEnum):
    """What a rule does to the paths it covers, strongest first."""

    HIDE = "hide"
    """The path does not exist for the session, and nothing can be made there."""
    DENY = "deny"
    """It can be seen in a listing, and nothing else."""
    READ_ONLY = "read-only"
    ASK = "ask"
    """An approver decides each read, write and delete."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the owner's.

    `level` is the highest trust level it binds: `workspace` binds untrusted, session and workspace; `full`
    binds everyone. `unless` are patterns taken out again. Raises ConfigError for a pattern without a zone.
    """

    name: str
    effect: Effect
    patterns: tuple[str, ...]
    level: TrustLevel = TrustLevel.FULL
    unless: tuple[str, ...] = ()
    below: bool = True
    """Whether what lies below a named path is covered too."""

    def __post_init__(self) -> None:
        for pattern in (*self.patterns, *self.unless):
            first = pattern.split("/")[1:2]
            if not pattern.startswith("/") or not first or (first[0] not in ZONES and first[0] != "**"):
                raise ConfigError(
                    f"rule `{self.name}`: the pattern `{pattern}` names no zone",
                    hint="patterns start with /session, /workspace, /repo, /staged, /workers or /**",
                )

    def binds(self, level: TrustLevel) -> bool:
        """Tell whether a session of that trust level is bound by the rule."""
        return level.rank <= self.level.rank

    def reaches(self, zone: Zone) -> bool:
        """Tell whether the rule can cover anything in `zone`."""
        return any(pattern.split("/")[1] in (zone, "**") for pattern in self.patterns)

    def covers(self, path: str) -> bool:
        """Tell whether the virtual `path`, or a directory above it, is named by the rule."""
        return bool(_regex(self.patterns, below=self.below).match(path)) and not (
            self.unless and _regex(self.unless).match(path)
        )

    def standing(self, path: str) -> frozenset[tuple[int, int]]:
        """Return how far each pattern has come at the directory `path`: what it may yet cover below.

        Two directories with the same standing have the same paths covered below them, so that moving one to
        the other's place carries nothing out from under the rule, nor into it.
        """
        names = path.split("/")[1:]
        reached: set[tuple[int, int]] = set()
        for number, pattern in enumerate((*self.patterns, *self.unless)):
            reached |= {(number, state) for state in _reached(_parts(pattern), names)}
        return frozenset(reached)


@lru_cache(maxsize=256)
def _parts(pattern: str) -> tuple[re.Pattern[str] | None, ...]:
    """Return what each name of a path is to match; None for `**`, any number of names."""
    return tuple(
        None if name == "**" else re.compile(_translate_name(name), re.IGNORECASE | re.DOTALL)
        for name in pattern.split("/")[1:]
    )


def _reached(parts: Sequence[re.Pattern[str] | None], names: Sequence[str]) -> set[int]:
    """Return how many parts may have been matched by all of `names`; all of them stays so further down."""
    states = _past_any(parts, {0})
    for name in names:
        after = set()
        for state in states:
            if state == len(parts) or parts[state] is None:
                after.add(state)
            elif (part := parts[state]) is not None and part.fullmatch(name):
                after.add(state + 1)
        states = _past_any(parts, after)
    return states


def _past_any(parts: Sequence[re.Pattern[str] | None], states: set[int]) -> set[int]:
    """Add the states behind a `**`, which may stand for no name at all."""
    for state in sorted(states):
        behind = state
        while behind < len(parts) and parts[behind] is None:
            behind += 1
            states = states | {behind}
    return states


@lru_cache(maxsize=256)
def covering(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return one regular expression for what any of the patterns covers.

    Patterns that begin alike up to their last `**` share that beginning, so that many rules over `/repo/**`
    cost little more than one.
    """
    tails: dict[str, list[str]] = {}
    for pattern in patterns:
        head, found, tail = pattern.rpartition("/**/")
        tails.setdefault(head + "/**" if found else "", []).append("/" + tail if found else pattern)
    bodies = [
        _translate(head) + "(?:" + "|".join(_translate(tail) for tail in found) + ")"
        for head, found in tails.items()
    ]
    return re.compile(f"(?:{'|'.join(bodies)})(?:/|$)" if bodies else r"(?!)", re.IGNORECASE | re.DOTALL)


@lru_cache(maxsize=256)
def _regex(patterns: tuple[str, ...], *, below: bool = True) -> re.Pattern[str]:
    body = "|".join(_translate(pattern) for pattern in patterns)
    return re.compile(f"(?:{body}){'(?:/|$)' if below else '$'}", re.IGNORECASE | re.DOTALL)


def _translate(pattern: str) -> str:
    """Return the regular expression of one pattern, anchored at the start only."""
    out = []
    for name in pattern.split("/")[1:]:
        if name == "**":
            out.append("(?:/[^/]+)*")
        else:
            out.append("/" + _translate_name(name))
    return "".join(out)


def _translate_name(name: str) -> str:
    out, at = [], 0
    while at < len(name):
        char = name[at]
        at += 1
        if char == "*":
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and (end := name.find("]", at + 1)) > 0:
            chosen = name[at:end].replace("\\", r"\\")
            out.append(f"[^{chosen[1:]}]" if chosen[0] in "!^" else f"[{chosen}]")
            at = end + 1
        else:
            out.append(re.escape(char))
    return "".join(out)


PROTECTED: tuple[Rule, ...] = (
    Rule("protected:sandbox", Effect.HIDE, ("/repo/**/.sandbox",)),
    Rule("protected:git-hooks", Effect.READ_ONLY, ("/repo/**/.git/hooks", "/repo/**/.git/modules/**/hooks")),
    # Git takes its config, and the commands in it, from where these lead.
    Rule(
        "protected:git-config",
        Effect.READ_ONLY,
        tuple(
            f"/repo/**/.git/{place}{name}"
            for place in ("", "modules/**/", "worktrees/**/")
            for name in ("config", "config.worktree", "commondir", "gitdir")
        ),
    ),
    # A `.git` that is a file or a link leads to another directory; one can be made only where none is watched.
    Rule("protected:git", Effect.READ_ONLY, ("/repo/**/.git",), below=False),
    Rule("protected:settings", Effect.READ_ONLY, ("/repo/vfs.toml",)),
)
"""What no setting lifts: the sandbox's own state, its settings, and what would run on the host."""

_BELOW_FULL = TrustLevel.WORKSPACE

DEFAULT_RULES: tuple[Rule, ...] = (
    Rule(
        "env-files",
        Effect.HIDE,
        ("/repo/**/.env", "/repo/**/.env.*", "/repo/**/.envrc"),
        _BELOW_FULL,
        unless=("/repo/**/.env.example", "/repo/**/.env.sample", "/repo/**/.env.template"),
    ),
    Rule(
        "private-keys",
        Effect.HIDE,
        ("/repo/**/*.pem", "/repo/**/*.key", "/repo/**/*.p12", "/repo/**/*.pfx", "/repo/**/*.jks",
         "/repo/**/*.keystore", "/repo/**/*.ppk", "/repo/**/id_rsa", "/repo/**/id_dsa", "/repo/**/id_ecdsa",
         "/repo/**/id_ed25519", "/repo/**/.ssh", "/repo/**/.gnupg"),
        _BELOW_FULL,
    ),
    Rule(
        "package-credentials",
        Effect.HIDE,
        ("/repo/**/.npmrc", "/repo/**/.yarnrc.yml", "/repo/**/.pypirc", "/repo/**/.netrc", "/repo/**/_netrc",
         "/repo/**/.git-credentials", "/repo/**/.docker/config.json", "/repo/**/.cargo/credentials.toml"),
        _BELOW_FULL,
    ),
    Rule(
        "cloud-credentials",
        Effect.HIDE,
        ("/repo/**/.aws", "/repo/**/.azure", "/repo/**/.config/gcloud", "/repo/**/.kube/config",
         "/repo/**/application_default_credentials.json", "/repo/**/service-account*.json",
         "/repo/**/.terraformrc", "/repo/**/terraform.tfstate", "/repo/**/terraform.tfstate.backup"),
        _BELOW_FULL,
    ),
)  # fmt: skip
"""What usually holds credentials, hidden below full trust; the owner can lift each by its name."""


def compile_rules(own: Sequence[Rule] = (), lifted: Iterable[str] = ()) -> tuple[Rule, ...]:
    """Return the rules in force, strongest effect first: protected, shipped less `lifted`, the owner's own.

    Raises ConfigError when `lifted` names no shipped rule, or two rules have one name.
    """
    lifted = set(lifted)
    unknown = lifted - {rule.name for rule in DEFAULT_RULES}
    if unknown:
        raise ConfigError(
            f"no shipped rule is called `{min(unknown)}`",
            hint="rules that can be lifted: " + ", ".join(rule.name for rule in DEFAULT_RULES),
        )
    rules = [*PROTECTED, *(rule for rule in DEFAULT_RULES if rule.name not in lifted), *own]
    names = [rule.name for rule in rules]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"two rules are called `{twice}`", hint="give each rule its own name")
    order = list(Effect)
    return tuple(sorted(rules, key=lambda rule: order.index(rule.effect)))


FORBIDS: dict[Effect, frozenset[Operation]] = {
    Effect.HIDE: frozenset(Operation),
    Effect.DENY: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE}),
    Effect.READ_ONLY: frozenset({Operation.WRITE, Operation.DELETE}),
    Effect.ASK: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE}),
}
"""The operations each effect takes away (ASK: unless an approver says yes)."""
