"""Glob patterns over paths, matched name by name, so that a walk can leave out what cannot match.

`**` stands for any number of names; `*`, `?` and `[…]` for characters within one; `{a,b}` for either. Case
counts. No pattern takes more than linear time in the length of a name: `fnmatch.translate` makes each `*`
atomic, and the names are matched as a small automaton.
"""

import fnmatch
import re
from collections.abc import Iterator

from vfs.kernel.errors import InvalidPathError
from vfs.kernel.paths import printable

__all__ = ["Glob", "States", "split_base"]

States = frozenset[tuple[int, int]]
"""How far each alternative of a pattern has matched; empty: nothing below can match."""

_MOST_ALTERNATIVES = 64
_SPECIAL = re.compile(r"[*?\[{]")


class Glob:
    """A pattern over relative paths. Immutable.

    Raises InvalidPathError for a pattern that is empty, climbs with `..`, or whose braces make more than 64
    alternatives.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._alternatives = [
            [None if name == "**" else re.compile(fnmatch.translate(name)) for name in _names(alternative)]
            for alternative in _expand(pattern)
        ]

    def start(self) -> States:
        """Return the states in front of the first name."""
        return self._close({(which, 0) for which in range(len(self._alternatives))})

    def step(self, states: States, name: str) -> States:
        """Return the states after one more name."""
        reached: set[tuple[int, int]] = set()
        for which, at in states:
            names = self._alternatives[which]
            if at == len(names):
                continue
            expected = names[at]
            if expected is None:
                reached.add((which, at))
            elif expected.match(name):
                reached.add((which, at + 1))
        return self._close(reached)

    def accepts(self, states: States) -> bool:
        """Tell whether the names so far match the whole pattern."""
        return any(at == len(self._alternatives[which]) for which, at in states)

    def names(self, name: str) -> bool:
        """Tell whether the pattern names `name` literally, e.g. a hidden directory that is left out else."""
        return name in self.pattern.split("/")

    def _close(self, states: set[tuple[int, int]]) -> States:
        """Add what is reached without a name: `**` may stand for none."""
        waiting = list(states)
        while waiting:
            which, at = waiting.pop()
            names = self._alternatives[which]
            if at < len(names) and names[at] is None and (which, at + 1) not in states:
                states.add((which, at + 1))
                waiting.append((which, at + 1))
        return frozenset(states)


def split_base(pattern: str) -> tuple[str, str]:
    """Return the directory that a pattern names literally at its beginning, and the rest of the pattern."""
    names = pattern.split("/")
    plain = 0
    while plain < len(names) - 1 and not _SPECIAL.search(names[plain]):
        plain += 1
    base = "/".join(names[:plain])
    return base or ("/" if pattern[:1] == "/" else ""), "/".join(names[plain:])


def _names(pattern: str) -> list[str]:
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if not names or ".." in names:
        raise InvalidPathError(
            f"`{printable(pattern)}` is not a pattern for paths below a directory",
            pattern,
            hint="for example `**/*.py`",
        )
    return names


def _expand(pattern: str) -> list[str]:
    """Return the alternatives that braces stand for; braces that do not pair, or hold no comma, are literal."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        if len(waiting) + len(done) > _MOST_ALTERNATIVES:
            raise InvalidPathError(
                f"the braces in `{printable(pattern)}` stand for more than {_MOST_ALTERNATIVES} patterns",
                pattern,
                hint="use fewer braces",
            )
        one = waiting.pop()
        found = re.search(r"\{([^{}]*,[^{}]*)\}", one)
        if found is None:
            done.append(one)
        else:
            waiting += list(_alternatives(one, found))
    return sorted(done)


def _alternatives(pattern: str, found: re.Match[str]) -> Iterator[str]:
    for choice in found[1].split(","):
        yield pattern[: found.start()] + choice + pattern[found.end() :]
