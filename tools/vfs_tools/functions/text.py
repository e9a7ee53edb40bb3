"""Text in files: what counts as text, and one page of a file of any size in bounded memory."""

import errno
from collections.abc import Iterator
from typing import IO, NamedTuple

from vfs.kernel.errors import FileSystemError, InvalidPathError
from vfs.kernel.paths import printable

__all__ = ["Page", "chunks", "decode", "number_lines", "read_page", "read_up_to"]

_FIRST_CHUNK, _LARGEST_CHUNK = 1 << 16, 1 << 20


def chunks(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the rest of a stream in pieces of up to 1 MiB; small ones first, since most files are small."""
    size = _FIRST_CHUNK
    while chunk := stream.read(size):
        yield chunk
        size = min(2 * size, _LARGEST_CHUNK)


def read_up_to(stream: IO[bytes], limit: int, *, begun: bytes = b"") -> bytes:
    """Return `begun` and what follows, or if that is more than `limit` bytes, at least `limit` + 1 of them."""
    pieces, size = [begun], len(begun)
    for chunk in chunks(stream):
        pieces.append(chunk)
        size += len(chunk)
        if size > limit:
            break
    return b"".join(pieces)


def decode(data: bytes, path: str, *, offset: int = 0) -> str:
    """Return `data`, which lies at byte `offset` of the file, as text.

    Raises FileSystemError (EILSEQ) for what is not UTF-8 or holds NUL: no model wants that as text.
    """
    bad, text = data.find(b"\0"), ""
    if bad < 0:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            bad = error.start
    if bad >= 0:
        raise FileSystemError(
            errno.EILSEQ,
            f"`{printable(path)}` is not text: byte 0x{data[bad]:02x} at offset {offset + bad}",
            path,
        )
    return text


class Page(NamedTuple):
    """Lines of a file as they are, line ends included.

    `start` is the byte offset of `data` in the file. `next_line` (from 1) is where to read on, None at the
    end; `next_column` is not 0 if that line was cut: so many of its bytes have been returned.
    """

    data: bytes
    start: int
    total_lines: int
    next_line: int | None
    next_column: int


def read_page(stream: IO[bytes], *, line: int, column: int, limit: int, max_bytes: int) -> Page:
    """Read up to `limit` lines and `max_bytes` bytes from `line` (from 1), leaving out `column` bytes of it.

    Whole lines, unless the first one alone is too long. The whole stream is read, to count its lines; memory
    is bounded by `max_bytes`. Raises InvalidPathError for a column that the line does not have.
    """
    lines_before, bytes_before = line - 1, column
    kept = bytearray()
    start = newlines = 0
    last = b"\n"
    for chunk in chunks(stream):
        piece = chunk
        if lines_before:
            begin, lines_before = _after_lines(chunk, lines_before)
            piece = chunk[begin:]
        if bytes_before and not lines_before:
            dropped, piece = piece[:bytes_before], piece[bytes_before:]
            bytes_before -= len(dropped)
            if b"\n" in dropped:
                raise InvalidPathError(f"line {line} has no column {column}", hint="leave `column` out")
        if lines_before or bytes_before:
            piece = b""
        if not kept:
            start += len(chunk) - len(piece)
        kept += piece[: max_bytes + 1 - len(kept)]
        newlines += chunk.count(b"\n")
        last = chunk[-1:]
    end, cut = _end_of_page(kept, limit, max_bytes)
    data = bytes(kept[:end])
    total = newlines + (last != b"\n")
    following = line + data.count(b"\n")
    if cut:
        rest = len(data) - (data.rfind(b"\n") + 1)
        return Page(data, start, total, following, rest + (column if following == line else 0))
    return Page(data, start, total, following if data[-1:] == b"\n" and following <= total else None, 0)


def _after_lines(chunk: bytes, lines: int) -> tuple[int, int]:
    """Return where in `chunk` the `lines`-th line ends, or its length and how many lines are wanting."""
    count = chunk.count(b"\n")
    if count < lines:
        return len(chunk), lines - count
    at = 0
    for _ in range(lines):
        at = chunk.index(b"\n", at) + 1
    return at, 0


def _end_of_page(kept: bytearray, limit: int, max_bytes: int) -> tuple[int, bool]:
    """Return how many of the bytes make the page, and whether it ends in the middle of a line."""
    end = 0
    for _ in range(limit):
        found = kept.find(b"\n", end)
        if found < 0:
            end = len(kept)
            break
        end = found + 1
    if end <= max_bytes:
        return end, False
    whole = kept.rfind(b"\n", 0, max_bytes) + 1
    if whole:
        return whole, False
    end = max_bytes
    while end > max(1, max_bytes - 3) and kept[end] & 0xC0 == 0x80:
        end -= 1  # not in the middle of a character
    return end, True


def number_lines(text: str, first: int) -> str:
    """Return `text` with the number of each line before it, as `cat -n` does."""
    lines = text.split("\n")
    tail = [lines.pop()] if lines[-1] == "" else []
    return "\n".join([f"{number:6}\t{line}" for number, line in enumerate(lines, first)] + tail)
