"""The verdict: a pure function of trust level, operation and path.

`Policy.decide` looks nothing up and changes nothing, so it can be tested over the whole matrix and its
answers can be kept. A rule that errors denies.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from vfs.kernel.paths import VirtualPath, printable
from vfs.kernel.rules import FORBIDS, Effect, Rule, compile_rules, covering
from vfs.kernel.trust import MATRIX, Operation, TrustLevel, ZoneConfig
from vfs.kernel.zones import Zone

__all__ = ["Decision", "PermissionCheck", "Policy"]


class Decision(NamedTuple):
    """A verdict and why.

    `rule` names what decided: `matrix`, `root`, or a path rule. `hidden`: the session must not learn that
    the path exists. `ask`: an approver may still allow it. `create_only`: allowed only where nothing is yet.
    """

    allowed: bool
    rule: str
    reason: str | None = None
    hint: str | None = None
    hidden: bool = False
    ask: bool = False
    create_only: bool = False
    requires_approval: bool = False


class PermissionCheck(NamedTuple):
    """The answer to `check_permission` (seed 001, PermissionCheck)."""

    allowed: bool
    reason: str | None
    zone: Zone
    trust_level: TrustLevel
    requires_approval: bool = False
    hint: str | None = None


class Policy:
    """The trust matrix narrowed by a fixed set of rules. Immutable; safe from any thread."""

    def __init__(self, rules: tuple[Rule, ...] | None = None) -> None:
        self.rules = compile_rules() if rules is None else rules
        self._bearing = {
            (level, operation, zone): _bearing(self.rules, level, operation, zone)
            for level in TrustLevel
            for operation in Operation
            for zone in Zone
        }
        # The verdict is pure, and programs ask for the same few thousand paths over and over.
        self.decide = lru_cache(maxsize=16384)(self._decide)
        self.moves = lru_cache(maxsize=1024)(self._moves)

    def _decide(self, level: TrustLevel, operation: Operation, path: VirtualPath) -> Decision:
        """Return the verdict on one operation; the matrix first, then the rules, strongest effect first."""
        zone = path.zone
        if zone is None:
            return _root(operation)
        config = MATRIX[level][zone]
        if not config.grants(operation):
            return _refusal(level, operation, config)
        if not path.rest and operation is Operation.DELETE:
            return Decision(False, "root", f"the zone `/{zone}` itself cannot be removed or moved")
        rules, any_of_them = self._bearing[level, operation, zone]
        if rules:
            text = str(path)
            if any_of_them.match(text) and (verdict := _narrow(rules, operation, text)) is not None:
                return verdict
        if operation is Operation.WRITE:
            return Decision(
                True, "matrix", create_only=config.create_only, requires_approval=config.requires_approval
            )
        return _ALLOWED

    def _moves(self, level: TrustLevel, old: VirtualPath, new: VirtualPath) -> Decision:
        """Return the verdict on a directory's change of place: the same rules must hold below both."""
        for rule in self.rules:
            try:
                dodges = rule.binds(level) and rule.standing(str(old)) != rule.standing(str(new))
            except Exception as error:  # noqa: BLE001 (a rule that errors denies)
                return _broken(rule, error)
            if dodges:
                return Decision(
                    False,
                    rule.name,
                    f"moving `{printable(str(old))}` to `{printable(str(new))}` would carry paths out from under"
                    f" the rule `{rule.name}`, or into it",
                )
        return _ALLOWED

    def hides(self, level: TrustLevel, path: VirtualPath) -> bool:
        """Tell whether `path` does not exist for sessions of that level."""
        return self.decide(level, Operation.LIST, path).hidden


def _narrow(rules: tuple[Rule, ...], operation: Operation, text: str) -> Decision | None:
    for rule in rules:
        try:
            covers = rule.covers(text)
        except Exception as error:  # noqa: BLE001 (a rule that errors denies)
            return _broken(rule, error)
        if covers:
            return _by_rule(rule, operation, text)
    return None


def _bearing(
    rules: tuple[Rule, ...], level: TrustLevel, operation: Operation, zone: Zone
) -> tuple[tuple[Rule, ...], re.Pattern[str]]:
    """Return the rules that can have a say on such requests, and one pattern for what any of them covers."""
    bearing = tuple(rule for rule in rules if _may_bear(rule, level, operation, zone))
    return bearing, covering(tuple(pattern for rule in bearing for pattern in rule.patterns))


def _may_bear(rule: Rule, level: TrustLevel, operation: Operation, zone: Zone) -> bool:
    """Tell whether a rule can have a say on such requests at all; one that fails here is asked, and denies."""
    try:
        return operation in FORBIDS[rule.effect] and rule.binds(level) and rule.reaches(zone)
    except Exception:  # noqa: BLE001 (as above)
        return True


_ALLOWED = Decision(True, "matrix")


def _root(operation: Operation) -> Decision:
    if operation in (Operation.LIST, Operation.READ):
        return Decision(True, "root")
    return Decision(
        False, "root", f"{operation} not permitted at the root: it holds the five zones and nothing else"
    )


def _refusal(level: TrustLevel, operation: Operation, config: ZoneConfig) -> Decision:
    """Refuse with the seed's words, and say which level would allow it."""
    enough = [other for other in TrustLevel if MATRIX[other][config.zone].grants(operation)]
    return Decision(
        False,
        "matrix",
        f"{operation} not permitted in {config.zone} zone",
        f"trust level `{enough[0]}` allows it, this session has `{level}`" if enough else None,
    )


def _by_rule(rule: Rule, operation: Operation, text: str) -> Decision:
    shown = printable(text)
    if rule.effect is Effect.HIDE:
        # The reason is for the audit log; the session is told that nothing is there.
        return Decision(False, rule.name, f"hidden by the rule `{rule.name}`", hidden=True)
    if rule.effect is Effect.ASK:
        return Decision(
            False, rule.name, f"{operation} of `{shown}` needs an approval (rule `{rule.name}`)", ask=True
        )
    return Decision(False, rule.name, f"{operation} of `{shown}` is denied by the rule `{rule.name}`")


def _broken(rule: Rule, error: Exception) -> Decision:
    return Decision(
        False, rule.name, f"the rule `{rule.name}` failed ({error}), and a rule that fails denies"
    )
