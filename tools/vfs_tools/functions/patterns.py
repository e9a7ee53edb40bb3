"""What a search looks for: a literal, matched here, or a regular expression, matched where it can be killed."""

import contextlib
import json
import os
import re
import selectors
import subprocess
import sys
import time
from types import TracebackType
from typing import Any, Protocol, Self

from vfs_tools.functions import matcher
from vfs_tools.functions.matcher import matching_lines, split_lines

__all__ = ["InvalidPatternError", "Literal", "Pattern", "PatternTooSlowError", "Regex"]


class InvalidPatternError(ValueError):
    """The regular expression is none; the text says why."""


class PatternTooSlowError(Exception):
    """The regular expression took longer than it was given."""


class Pattern(Protocol):
    """Something that is found in lines; a context manager."""

    def find(self, data: bytes, *, first: int, limit: int) -> list[int]:
        """Return the indexes, from `first` on, of the first `limit` matching lines of a UTF-8 text."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Literal:
    """A text that is looked for as it is."""

    def __init__(self, text: str, *, ignore_case: bool) -> None:
        self._needle = None if ignore_case else text.encode()
        self._regex = re.compile(re.escape(text), re.IGNORECASE if ignore_case else 0)

    def find(self, data: bytes, *, first: int, limit: int) -> list[int]:
        """Return the matching lines."""
        if self._needle is not None and self._needle not in data:
            return []
        return matching_lines(self._regex, split_lines(data.decode()), first=first, limit=limit)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Regex:
    """A regular expression of Python's `re`, matched by a child process that lives as long as the block.

    `seconds` is what it gets for one file. Raises InvalidPatternError at the beginning of the block and
    PatternTooSlowError from `find`; the child is gone after either. Not thread-safe: one search, one block.
    """

    def __init__(self, pattern: str, *, ignore_case: bool, seconds: float) -> None:
        self._request = {"pattern": pattern, "ignore_case": ignore_case}
        self._seconds = seconds
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-W", "ignore", matcher.__file__],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
        try:
            # Starting up takes its time on a busy machine, and is no fault of the pattern's.
            answer = self._ask(self._request, b"", seconds=self._seconds + 30)
            if "error" in answer:
                raise InvalidPatternError(answer["error"])
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def find(self, data: bytes, *, first: int, limit: int) -> list[int]:
        """Return the matching lines."""
        request = {"size": len(data), "first": first, "limit": limit}
        return list(self._ask(request, data, seconds=self._seconds)["lines"])

    def _ask(self, request: dict[str, Any], data: bytes, *, seconds: float) -> dict[str, Any]:
        child = self._child
        if child is None or child.stdin is None or child.stdout is None:
            raise RuntimeError("a regular expression is used in a `with` block")
        # The child reads a request to its end before it matches anything, so writing does not wait for long.
        child.stdin.write(json.dumps(request).encode() + b"\n" + data)
        child.stdin.flush()
        answer, deadline = b"", time.monotonic() + seconds
        with selectors.DefaultSelector() as ready:
            ready.register(child.stdout, selectors.EVENT_READ)
            while not answer.endswith(b"\n"):
                if not ready.select(max(0.0, deadline - time.monotonic())):
                    self._end()
                    raise PatternTooSlowError(f"took more than {seconds:g} seconds")
                piece = os.read(child.stdout.fileno(), 65_536)
                if not piece:
                    raise RuntimeError(f"the matching process ended with code {child.wait()}")
                answer += piece
        return dict(json.loads(answer))

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        child.wait()
