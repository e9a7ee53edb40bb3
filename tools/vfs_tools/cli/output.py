"""What commands write: text for people, JSON for programs.

Names and texts that come from elsewhere are shown with `printable`, so that no file name can steer a terminal.
Colour and tables drawn with lines are for terminals; into a pipe goes plain text in columns that is never cut.
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

import click

from vfs.kernel.paths import printable

__all__ = [
    "JSON_KEY",
    "abandon",
    "document",
    "fields",
    "finish",
    "has_colour",
    "line",
    "moment",
    "note",
    "painted",
    "prepare",
    "size",
    "table",
    "text",
]

JSON_KEY: Final = "vfs.json"
"""Where the `--json` of any command is noted, so that its failure is told in the same way."""

Colour = Literal["red", "green", "yellow", "cyan", "magenta", "bright_black"]

_COLOURS: Final[dict[str, Colour]] = {
    "ok": "green", "active": "green", "allowed": "green", "pending": "yellow", "warn": "yellow",
    "expired": "yellow", "denied": "red", "missing": "red", "violation": "red", "ended": "bright_black",
}  # fmt: skip
"""Words of state, and how a terminal shows them."""


def prepare() -> None:
    """Make the streams take any text: what the terminal's encoding lacks is escaped."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def finish() -> None:
    """Bring everything out, so that a reader who has gone is noticed here and not at the interpreter's end."""
    sys.stdout.flush()


def abandon() -> None:
    """Let go of a standard output that nobody reads any more."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, sys.stdout.fileno())
    os.close(descriptor)


def has_colour(stream: TextIO) -> bool:
    """Tell whether `stream` is a terminal that may be coloured (see https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(words: str, colour: Colour, stream: TextIO | None = None) -> str:
    """Return `words` in that colour, if standard output takes colours."""
    return click.style(words, fg=colour) if has_colour(stream or sys.stdout) else words


def document(value: Any) -> None:
    r"""Write one JSON document. Lone surrogates of names that are not UTF-8 stay, as `\udcXX`."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def line(value: Any) -> None:
    """Write one line of JSON, at once: what follows a stream waits for it."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def text(words: str = "") -> None:
    """Write a line for people; the caller has made the parts printable."""
    sys.stdout.write(words + "\n")


def note(words: str) -> None:
    """Write a remark on standard error, where no pipe takes it for data."""
    sys.stderr.write(f"vfs: {words}\n")


def moment(value: datetime | None, missing: str = "-") -> str:
    """Return a time in UTC, to the second, as the audit log counts it."""
    return missing if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def size(count: int) -> str:
    """Return a number of bytes with its unit, e.g. `12 B`, `4.0 KiB`."""
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} PiB"


def fields(pairs: Iterable[tuple[str, object]]) -> None:
    """Write names and values, one pair a line."""
    shown = [(name, printable(str(value))) for name, value in pairs]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        text(f"{painted(name.ljust(width), 'bright_black')}  {_state(value)}")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Write a table; `empty` is said, on standard error, if it has no row.

    A column whose name ends in `>` is aligned right.
    """
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    if not cells:
        note(empty)
    elif sys.stdout.isatty():
        _draw(columns, cells)
    else:
        _columns([[column.rstrip(">").upper() for column in columns], *cells], columns)


def _columns(rows: list[list[str]], columns: Sequence[str]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        parts = [
            cell.rjust(width) if column.endswith(">") else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        ]
        text("  ".join(parts).rstrip())


def _draw(columns: Sequence[str], cells: list[list[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for column in columns:
        drawn.add_column(
            column.rstrip(">"), justify="right" if column.endswith(">") else "left", overflow="fold"
        )
    for row in cells:
        drawn.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
    Console(highlight=False, no_color=not has_colour(sys.stdout)).print(drawn)


def _state(word: str) -> str:
    return painted(word, _COLOURS[word]) if word in _COLOURS else word
