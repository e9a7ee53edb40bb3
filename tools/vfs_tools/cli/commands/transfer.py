"""`vfs cat`, `vfs put` and `vfs rm`: bytes out of the zones, into them, and away."""

import base64
import os
import sys
from typing import IO, TYPE_CHECKING, Any, Final

import click

from vfs.kernel.paths import parse, printable
from vfs.kernel.trust import TrustLevel
from vfs.kernel.zones import Zone
from vfs_tools.cli import output
from vfs_tools.cli.invocation import Invocation
from vfs_tools.cli.parameters import in_session, json_option, pass_invocation

if TYPE_CHECKING:
    from vfs.kernel.sandbox import Sandbox

__all__ = ["cat", "put", "rm"]

CHUNK: Final = 1 << 20
"""Bytes that are read and written at a time."""
WHOLE: Final = 8 << 20
"""A file of up to so many bytes is put all or nothing; a larger one is written as it is read."""


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@in_session
@json_option
@pass_invocation
def cat(
    invocation: Invocation,
    paths: tuple[str, ...],
    session_id: str | None,
    trust: TrustLevel | None,
    as_json: bool,  # noqa: FBT001 (click passes by name)
) -> None:
    """Write the files PATH to standard output, byte for byte.

    With `--json` there is one line for each: its path, size and content, with `encoding` `utf-8` or `base64`.
    """
    with invocation.sandbox(session_id, trust) as sandbox:
        for path in paths:
            if as_json:
                output.line(_content(sandbox.resolve(path) if path else path, sandbox.read_bytes(path)))
                continue
            with sandbox.open(path, "rb", buffering=0) as file:
                while chunk := file.read(CHUNK):
                    sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


@click.command()
@click.argument("local", metavar="LOCAL", type=click.Path())
@click.argument("path")
@in_session
@json_option
@pass_invocation
def put(
    invocation: Invocation,
    local: str,
    path: str,
    session_id: str | None,
    trust: TrustLevel | None,
    as_json: bool,  # noqa: FBT001 (click passes by name)
) -> None:
    """Copy LOCAL, a file of the host or `-` for standard input, to PATH.

    Missing directories are made. A file up to 8 MiB is put all or nothing; a larger one is written as it is
    read, and what was written stays if that is broken off.
    """
    with invocation.sandbox(session_id, trust) as sandbox:
        if local == "-":
            written = _put(sandbox, sys.stdin.buffer, path)
        else:
            with open(local, "rb") as source:
                written = _put(sandbox, source, path)
        where = sandbox.resolve(path)
        lost = session_id is None and parse(where).zone is Zone.SESSION
        session = sandbox.session.id
    if as_json:
        output.document({"path": where, "bytes": written, "session_id": session})
    else:
        output.text(f"{printable(where)}: {output.size(written)}")
    if lost:
        output.note(
            f"that session ended with this command; `--session ID` puts files into one that goes on ({session})"
        )


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("-r", "--recursive", is_flag=True, help="Remove directories with all that is in them.")
@in_session
@json_option
@pass_invocation
def rm(
    invocation: Invocation,
    paths: tuple[str, ...],
    recursive: bool,  # noqa: FBT001 (click passes by name)
    session_id: str | None,
    trust: TrustLevel | None,
    as_json: bool,  # noqa: FBT001 (as above)
) -> None:
    """Remove files, links or empty directories; a link itself, never what it leads to.

    The first that cannot be removed ends the command. With `--json` there is one line for each.
    """
    with invocation.sandbox(session_id, trust) as sandbox:
        for path in paths:
            sandbox.delete(path, recursive=recursive)
            where = sandbox.resolve(path)
            if as_json:
                output.line({"path": where, "removed": True})
            else:
                output.text(f"removed {printable(where)}")


def _content(path: str, data: bytes) -> dict[str, Any]:
    shown: dict[str, Any] = {"path": path, "size": len(data)}
    try:
        return {**shown, "encoding": "utf-8", "content": data.decode()}
    except UnicodeDecodeError:
        return {**shown, "encoding": "base64", "content": base64.b64encode(data).decode()}


def _put(sandbox: "Sandbox", source: IO[bytes], path: str) -> int:
    """Write what `source` holds to `path` in constant memory; return how many bytes."""
    head = source.read(WHOLE + 1)
    if len(head) <= WHOLE:
        sandbox.write_bytes(path, head)
        return len(head)
    parent = os.path.dirname(path)
    if parent not in ("", "/"):
        sandbox.make_dir(parent, parents=True)
    written = 0
    with sandbox.open(path, "wb", buffering=0) as target:
        chunk = head
        while chunk:
            view = memoryview(chunk)
            while view:
                count = target.write(view)
                view = view[count:]
                written += count
            chunk = source.read(CHUNK)
    return written
