"""Exact replacement in a text: pure, so that its edge cases can be tested without a file."""

import difflib
import re
from dataclasses import dataclass

__all__ = ["Ambiguous", "Edit", "NoMatch", "replace"]

_SHOWN = 5
_LINE_SHOWN = 160
_SEEN = 400
"""Characters of a line that are compared."""
_COMPARED = 20_000
"""Lines that are looked at to find one that is close; more would take long."""


@dataclass(frozen=True, slots=True)
class Edit:
    """The new text, how many places changed, and the lines (from 1) where the first of them now begin."""

    text: str
    replacements: int
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NoMatch:
    """The old text is not there; `near` are lines that come close, with their numbers."""

    near: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """The old text is there `count` times; `near` are the first of these places."""

    count: int
    near: tuple[tuple[int, str], ...]


def replace(text: str, old: str, new: str, *, every: bool) -> Edit | NoMatch | Ambiguous:
    r"""Replace `old` in `text` with `new`; once, or with `every` as often as it is there.

    In a text whose lines all end in CRLF, `old` and `new` may be written with either line end, and what is
    put in has CRLF. Any other text is taken as it is, character for character.
    """
    if _all_crlf(text):
        old, new = _to_crlf(old), _to_crlf(new)
    places = _places(text, old)
    if not places:
        return NoMatch(_close_lines(text, old))
    if len(places) > 1 and not every:
        shown = [_line_number(text, place) for place in places[:_SHOWN]]
        lines = text.split("\n")
        return Ambiguous(len(places), tuple((number, _shorten(lines[number - 1])) for number in shown))
    growth = len(new) - len(old)
    result = text.replace(old, new)
    begins = tuple(
        _line_number(result, place + growth * index) for index, place in enumerate(places[: _SHOWN * 2])
    )
    return Edit(result, len(places), begins)


def _places(text: str, old: str) -> list[int]:
    """Return where `old` is, without overlaps, as str.replace counts."""
    found, at = [], text.find(old)
    while at >= 0:
        found.append(at)
        at = text.find(old, at + len(old))
    return found


def _all_crlf(text: str) -> bool:
    count = text.count("\n")
    return count > 0 and text.count("\r\n") == count


def _to_crlf(text: str) -> str:
    return re.sub(r"(?<!\r)\n", "\r\n", text)


def _line_number(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _close_lines(text: str, old: str) -> tuple[tuple[int, str], ...]:
    """Return the lines that most resemble the first line of `old` that says anything.

    Lines that differ in white space alone come first: that is the usual reason for no match.
    """
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")
    if not wanted:
        return ()
    lines = text.split("\n", _COMPARED)[:_COMPARED]
    squeezed = "".join(wanted.split())
    same = [n for n, line in enumerate(lines, 1) if squeezed in "".join(line[:_SEEN].split())]
    if not same:
        numbered = {line.strip()[:_SEEN]: n for n, line in reversed(list(enumerate(lines, 1)))}
        candidates = [line for line in numbered if _comparable(line, wanted)]
        close = difflib.get_close_matches(wanted[:_SEEN], candidates[:2_000], n=3, cutoff=0.6)
        same = sorted(numbered[line] for line in close)
    return tuple((number, _shorten(lines[number - 1])) for number in same[:_SHOWN])


def _comparable(line: str, wanted: str) -> bool:
    """Tell cheaply whether `line` could be close to `wanted`: their lengths are alike."""
    return 0.4 * len(wanted) <= len(line) <= 2.5 * len(wanted)


def _shorten(line: str) -> str:
    line = line.rstrip("\r")
    return line if len(line) <= _LINE_SHOWN else f"{line[:_LINE_SHOWN]}…"
