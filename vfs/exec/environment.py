"""The environment of a command: little of the caller's, so that no key leaks into it unasked."""

import os
import pwd
from collections.abc import Iterable, Mapping

from vfs.kernel.errors import ConfigError

__all__ = ["build_environment", "chosen"]

_PASSED = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "NO_COLOR")
_OF_THE_TERMINAL = ("TERM", "COLORTERM")


def build_environment(
    host: Mapping[str, str], added: Mapping[str, str], *, session_id: str, terminal: bool
) -> dict[str, str]:
    """Return the variables of a command; a provider adds HOME and PATH.

    Of the `host`'s there are language and time zone, and with a `terminal` its kind. `added` prevails.
    """
    user = _user()
    found = {"LANG": "C.UTF-8", "USER": user, "LOGNAME": user, "VFS_SESSION": session_id}
    names = (*_PASSED, *_OF_THE_TERMINAL) if terminal else _PASSED
    found |= {name: host[name] for name in names if name in host}
    if not terminal:
        found["TERM"] = "dumb"
    return {**found, **added}


def chosen(wanted: Iterable[str], host: Mapping[str, str], *, optional: bool = False) -> dict[str, str]:
    """Return what `NAME` (the host's value) and `NAME=VALUE` ask for.

    Raises ConfigError for a NAME that the host does not have, unless they are `optional`.
    """
    found = {}
    for text in wanted:
        name, given, value = text.partition("=")
        if given:
            found[name] = value
        elif name in host:
            found[name] = host[name]
        elif not optional:
            raise ConfigError(
                f"the environment variable `{name}` is not set", hint=f"set it, or write `{name}=value`"
            )
    return found


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
