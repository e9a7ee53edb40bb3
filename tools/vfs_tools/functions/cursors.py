"""Where a listing, glob or search goes on: a place in the order of the tree, not a state kept anywhere.

A cursor is the path of the first thing not returned, relative to where the walk began, percent-encoded so
that any name survives; a search adds the line it stopped after. What was added or removed meanwhile neither
repeats nor loses anything else.
"""

import os
import re
from typing import NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from vfs.kernel.errors import InvalidPathError
from vfs.kernel.paths import printable

__all__ = ["BEGINNING", "Cursor", "parse_cursor"]


class Cursor(NamedTuple):
    """A place: the names of a path, and how many of the file's lines are done with."""

    names: tuple[str, ...] = ()
    line: int = 0

    def __str__(self) -> str:
        """Return the form that a model passes back."""
        return f"{self.line}:{quote_from_bytes(os.fsencode('/'.join(self.names)), safe='/ ,+@=~')}"


BEGINNING = Cursor()


def parse_cursor(text: str) -> Cursor:
    """Return the cursor that `text` says; empty means the beginning. Raises InvalidPathError."""
    if not text:
        return BEGINNING
    found = re.fullmatch(r"(\d{1,12}):(.+)", text, re.ASCII)
    if found is None:
        raise InvalidPathError(
            f"`{printable(text)}` is not a cursor",
            hint="pass on the `next_cursor` of the last result as it is",
        )
    return Cursor(tuple(os.fsdecode(unquote_to_bytes(found[2])).split("/")), int(found[1]))
