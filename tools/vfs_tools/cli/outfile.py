"""A file of the host that is there whole, or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import TextIO

__all__ = ["whole_file"]


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[TextIO]:
    """Give a text file that becomes `path` when the block ends, and vanishes if it is broken off.

    A device or pipe is written to as it is. Raises OSError as `open` does. The file is the owner's alone.
    """
    if os.path.lexists(path) and not os.path.isfile(path):
        with open(path, "w", encoding="utf-8", newline="") as file:
            yield file
        return
    directory, name = os.path.split(os.path.realpath(path))
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name[:200]}.", suffix=".part", dir=directory)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, os.path.join(directory, name))
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
