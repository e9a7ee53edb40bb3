"""Which lines of a text a pattern matches; run as a program, it does so in a process that can be killed.

Python's `re` may take for ever on a short pattern and a short line, and cannot be interrupted meanwhile, so
patterns that come from a model are matched in a process of their own. It must not import more than this:

    python -I -S matcher.py

On its standard input it is given one line of JSON, `{"pattern", "ignore_case"}`, and answers with one line,
`{}` or `{"error"}`. Then follow texts, each as a line of JSON, `{"size", "first", "limit"}`, and so many
bytes; the answer to each is one line, `{"lines": [indexes]}`.
"""

import json
import re
import sys
from typing import BinaryIO

__all__ = ["compile_pattern", "matching_lines", "split_lines"]


def split_lines(text: str) -> list[str]:
    """Return the lines of a text without their ends."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        del lines[-1]
    return lines


def compile_pattern(pattern: str, *, ignore_case: bool) -> re.Pattern[str]:
    """Return the compiled pattern. Raises ValueError saying what is wrong with it."""
    try:
        return re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from None


def matching_lines(regex: re.Pattern[str], lines: list[str], *, first: int, limit: int) -> list[int]:
    """Return the indexes, from `first` on, of the first `limit` lines that `regex` is found in."""
    found = []
    for index in range(first, len(lines)):
        if regex.search(lines[index]):
            found.append(index)
            if len(found) == limit:
                break
    return found


def _serve(stdin: BinaryIO, stdout: BinaryIO) -> None:
    def answer(value: object) -> None:
        stdout.write(json.dumps(value).encode() + b"\n")
        stdout.flush()

    request = json.loads(stdin.readline())
    try:
        regex = compile_pattern(request["pattern"], ignore_case=request["ignore_case"])
    except ValueError as error:
        answer({"error": str(error)})
        return
    answer({})
    while header := stdin.readline():
        request = json.loads(header)
        lines = split_lines(stdin.read(request["size"]).decode())
        answer({"lines": matching_lines(regex, lines, first=request["first"], limit=request["limit"])})


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
