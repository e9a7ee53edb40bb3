"""The one kind of error that a backend raises."""

import os


def os_error(number: int, path: str | None = None) -> OSError:
    """Return the `OSError`, or the subclass of it, for an errno and the path it is about."""
    return OSError(number, os.strerror(number), path)
