"""How a command says that it failed: message, path, hint and exit code, the same from every command."""

import json
import os
import re
import sys
from typing import Final, NamedTuple

import click

from vfs.kernel.errors import SandboxError
from vfs.kernel.paths import printable
from vfs_tools.cli import output

__all__ = ["BROKEN_PIPE", "CHAIN_BROKEN", "INTERRUPTED", "UNEXPECTED", "USAGE", "report"]

USAGE: Final = 2
"""The command line itself is wrong."""
FILE_SYSTEM: Final = 3
"""As `FileSystemError`: a file of the host cannot be read or written."""
CHAIN_BROKEN: Final = 20
"""`vfs audit verify` found a row that does not hold."""
UNEXPECTED: Final = 70
"""A fault of this program (EX_SOFTWARE)."""
INTERRUPTED: Final = 130
"""Ended by Ctrl-C."""
BROKEN_PIPE: Final = 141
"""Who read the output has closed it."""


class Told(NamedTuple):
    """A failure as it is shown."""

    exit_code: int
    code: str
    message: str
    path: str | None = None
    hint: str | None = None


def report(error: BaseException, *, as_json: bool) -> int:
    """Tell of `error` on standard error and return the exit code; never with a traceback of its own accord.

    With `VFS_DEBUG=1` in the environment the traceback is shown before.
    """
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else UNEXPECTED
    if isinstance(error, BrokenPipeError):
        output.abandon()
        return BROKEN_PIPE
    if os.environ.get("VFS_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    told = _explain(error)
    _write(_as_json(told) if as_json else _as_text(told))
    return told.exit_code


def _explain(error: BaseException) -> Told:
    if isinstance(error, SandboxError):
        return Told(error.exit_code, error.code, error.message, error.path, error.hint)
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return Told(INTERRUPTED, "INTERRUPTED", "interrupted")
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "vfs"
        return Told(USAGE, "USAGE", _lower(error.format_message()), None, f"see `{command} --help`")
    if isinstance(error, OSError) and error.errno is not None:
        name = error.filename if isinstance(error.filename, str) else None
        told = _lower(error.strerror or "input/output error") + (f": `{name}`" if name else "")
        return Told(FILE_SYSTEM, "FILE_SYSTEM", told)
    kind, text = type(error).__name__, str(error).partition("\n")[0]
    return Told(
        UNEXPECTED,
        "UNEXPECTED",
        f"unexpected {kind}: {text}" if text else f"unexpected {kind}",
        None,
        "this is a fault of vfs; `VFS_DEBUG=1` shows where it happened",
    )


def _as_text(told: Told) -> str:
    lines = [f"vfs: {told.message}"]
    if told.path and told.path not in told.message and printable(told.path) not in told.message:
        lines.append(f"path: {told.path}")
    if told.hint:
        lines.append(f"hint: {told.hint}")
    return "\n".join(map(printable, lines))


def _as_json(told: Told) -> str:
    shown = {"code": told.code, "message": told.message, "path": told.path, "hint": told.hint}
    return json.dumps({"error": {**shown, "exit_code": told.exit_code}})


def _write(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        return  # nobody is left to be told; the exit code still says it


def _lower(text: str) -> str:
    """Return click's or the system's sentence in this project's form."""
    text = re.sub(r"'([^']*)'", r"`\1`", text.strip().removesuffix("."))
    return text[:1].lower() + text[1:]
