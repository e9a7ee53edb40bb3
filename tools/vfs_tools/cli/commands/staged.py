"""`vfs staged`: files that wait for a person's decision."""

from typing import TYPE_CHECKING, Any

import click

from vfs.kernel.paths import printable
from vfs_tools.cli import output
from vfs_tools.cli.confirm import confirm
from vfs_tools.cli.invocation import Invocation
from vfs_tools.cli.lazy import LazyCommand, LazyGroup
from vfs_tools.cli.parameters import STAGED_ID, json_option, pass_invocation

if TYPE_CHECKING:
    from vfs.kernel.staging import StagedCommit

__all__ = ["COMMANDS", "discard", "list_staged", "show", "staged"]

COMMANDS = {
    "list": LazyCommand(f"{__name__}:list_staged", "List the staged commits."),
    "show": LazyCommand(f"{__name__}:show", "Show one, with its files."),
    "discard": LazyCommand(f"{__name__}:discard", "Remove one that nobody has decided on."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def staged() -> None:
    """Show staged commits, and discard them."""


@click.command("list")
@json_option
@pass_invocation
def list_staged(
    invocation: Invocation,
    as_json: bool,  # noqa: FBT001 (click passes by name)
) -> None:
    """List the staged commits of the workspace, oldest first."""
    with invocation.kernel() as kernel:
        found = kernel.staging(invocation.workspace_id).commits()
    if as_json:
        output.document([_as_json(one) for one in found])
        return
    output.table(
        ("staged commit", "status", "files>", "session", "created", "message"),
        [
            (
                one.id, one.status, len(one.files), one.session_id, output.moment(one.created_at),
                one.message.partition("\n")[0],
            )
            for one in found
        ],
        empty="nothing is staged",
    )  # fmt: skip


@click.command()
@click.argument("commit_id", metavar="ID", type=STAGED_ID)
@json_option
@pass_invocation
def show(
    invocation: Invocation,
    commit_id: str,
    as_json: bool,  # noqa: FBT001 (click passes by name)
) -> None:
    """Show staged commit ID: each file with operation, size and SHA-256."""
    with invocation.kernel() as kernel:
        found = kernel.staging(invocation.workspace_id).commit(commit_id)
    if as_json:
        output.document(_as_json(found))
        return
    output.fields(
        [
            ("staged commit", found.id),
            ("status", found.status),
            ("session", found.session_id),
            ("created", output.moment(found.created_at)),
        ]
    )
    for line in found.message.splitlines():
        output.text(f"    {printable(line)}")
    output.text()
    output.table(
        ("operation", "size>", "sha-256", "path"),
        [
            (file.operation, output.size(file.size), file.hash[:16] or "-", file.repo_path)
            for file in found.files
        ],
        empty="it has no files",
    )
    for problem in found.problems:
        output.note(problem)


@click.command()
@click.argument("commit_id", metavar="ID", type=STAGED_ID)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@pass_invocation
def discard(
    invocation: Invocation,
    commit_id: str,
    yes: bool,  # noqa: FBT001 (click passes by name)
    as_json: bool,  # noqa: FBT001 (as above)
) -> None:
    """Remove staged commit ID with its files, unless it was approved or committed."""
    from vfs.kernel.sandbox import Sandbox
    from vfs.kernel.trust import TrustLevel

    with invocation.kernel() as kernel:
        found = kernel.staging(invocation.workspace_id).commit(commit_id)
        confirm(f"remove staged commit {found.id} with {len(found.files)} files?", yes=yes)
        # The owner's own decision: a session of theirs, at full trust, for this alone.
        session = invocation.enter(kernel, None, TrustLevel.FULL)
        try:
            Sandbox(kernel, session, face="cli").discard_staged(commit_id)
        finally:
            kernel.end(session.id)
    if as_json:
        output.document({"id": found.id, "discarded": True})
    else:
        output.text(f"{found.id} is gone, with {len(found.files)} files")


def _as_json(one: "StagedCommit") -> dict[str, Any]:
    return {
        "id": one.id,
        "session_id": one.session_id,
        "created_at": one.created_at.isoformat(),
        "message": one.message,
        "status": one.status,
        "files": [
            {"repo_path": file.repo_path, "operation": file.operation, "size": file.size, "hash": file.hash}
            for file in one.files
        ],
        "problems": list(one.problems),
    }
