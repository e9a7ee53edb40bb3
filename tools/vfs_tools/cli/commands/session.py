"""`vfs session`: who is at work, how far each is trusted, and changing that."""

import sys
from typing import TYPE_CHECKING, Any

import click

from vfs.kernel.paths import printable
from vfs.kernel.trust import MATRIX, TrustLevel
from vfs_tools.cli import output
from vfs_tools.cli.confirm import confirm
from vfs_tools.cli.invocation import Invocation
from vfs_tools.cli.lazy import LazyCommand, LazyGroup
from vfs_tools.cli.parameters import DURATION, SESSION_ID, TRUST, json_option, pass_invocation

if TYPE_CHECKING:
    from vfs.kernel.kernel import Kernel
    from vfs.kernel.sessions import Session

__all__ = ["COMMANDS", "demote", "end", "list_sessions", "promote", "session", "show"]

COMMANDS = {
    "list": LazyCommand(f"{__name__}:list_sessions", "List the sessions that have not ended."),
    "show": LazyCommand(f"{__name__}:show", "Show one session, and what it did."),
    "promote": LazyCommand(f"{__name__}:promote", "Raise a session's trust."),
    "demote": LazyCommand(f"{__name__}:demote", "Lower a session's trust."),
    "end": LazyCommand(f"{__name__}:end", "End a session; its files stay until `vfs gc`."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def session() -> None:
    """Show sessions, and change their trust."""


@click.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that have ended.")
@json_option
@pass_invocation
def list_sessions(
    invocation: Invocation,
    everything: bool,  # noqa: FBT001 (click passes by name)
    as_json: bool,  # noqa: FBT001 (as above)
) -> None:
    """List the sessions that have not ended, newest first; of one workspace if `vfs --workspace` names it."""
    with invocation.kernel() as kernel:
        found = kernel.sessions.list(invocation.workspace)
    if not everything:
        found = [one for one in found if one.status != "ended"]
    if as_json:
        output.document([_as_json(one) for one in found])
        return
    output.table(
        ("session", "trust", "status", "workspace", "created", "expires"),
        [
            (
                one.id, one.trust_level, one.status, one.workspace_id,
                output.moment(one.created_at), output.moment(one.expires_at, "never"),
            )
            for one in found
        ],
        empty="no session is open; `vfs exec -- CMD` starts one",
    )  # fmt: skip


@click.command()
@click.argument("session_id", metavar="ID", type=SESSION_ID)
@json_option
@pass_invocation
def show(
    invocation: Invocation,
    session_id: str,
    as_json: bool,  # noqa: FBT001 (click passes by name)
) -> None:
    """Show one session: its trust, since when and by whom, when it ends, and what it did."""
    with invocation.kernel() as kernel:
        found = kernel.sessions.get(session_id)
        accesses, refusals = _count(kernel, session_id)
    if as_json:
        output.document({**_as_json(found), "accesses": accesses, "refusals": refusals})
        return
    by = f", by {found.trust_by}" if found.trust_by else ""
    output.fields(
        [
            ("session", found.id),
            ("status", found.status),
            ("trust", f"{found.trust_level}, since {output.moment(found.trust_since)}{by}"),
            ("may", _rights(found.trust_level)),
            ("workspace", found.workspace_id),
            ("source", found.source_context.type + _of(found.source_context.origin)),
            ("created", output.moment(found.created_at)),
            ("expires", output.moment(found.expires_at, "never")),
            ("ended", output.moment(found.ended_at)),
            ("accesses", f"{accesses}, {refusals} of them refused"),
        ]
    )
    if refusals:
        output.text(f"\nsee them: vfs audit log --session {found.id} --denied")


@click.command()
@click.argument("session_id", metavar="ID", type=SESSION_ID)
@click.option("--to", "level", metavar="LEVEL", type=TRUST, help="The trust level it is to have.")
@click.option("--reason", metavar="TEXT", help="Why; it goes on the audit log.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--print-token", is_flag=True, help="Only write the token, for a program to redeem.")
@click.option("--seconds", metavar="N", type=DURATION, help="How long the token is good for; else 5 minutes.")
@click.option(
    "--token", metavar="TOKEN", help="Redeem this token, or the one on standard input if it is `-`."
)
@json_option
@pass_invocation
def promote(
    invocation: Invocation,
    session_id: str,
    level: TrustLevel | None,
    reason: str | None,
    yes: bool,  # noqa: FBT001 (click passes by name)
    print_token: bool,  # noqa: FBT001 (as above)
    seconds: float | None,
    token: str | None,
    as_json: bool,  # noqa: FBT001 (as above)
) -> None:
    """Raise the trust of session ID.

    This signs a token that counts once and redeems it. With `--print-token` it is written instead, to be given
    to `sandbox.promote(token)`; with `--token` one that was made before is redeemed.
    """
    if token is not None and (level is not None or print_token):
        raise click.UsageError("`--token` says the level itself, and cannot be printed")
    if token is None and (level is None or not reason):
        raise click.UsageError("say with `--to` which level, and with `--reason` why")
    with invocation.kernel() as kernel:
        before = kernel.sessions.get(session_id)
        if token is None:
            assert level is not None  # noqa: S101 (checked above; for the type checker)
            token = _issue(kernel, before, level, str(reason), seconds, yes=yes or print_token)
            if print_token:
                _print_token(token, before, level, as_json=as_json)
                return
        elif token == "-":  # noqa: S105 (a word for standard input)
            token = sys.stdin.readline().strip()
        after = kernel.promote(session_id, token, face="cli")
    _report(before, after, as_json=as_json)


def _issue(
    kernel: "Kernel", before: "Session", level: TrustLevel, reason: str, seconds: float | None, *, yes: bool
) -> str:
    from vfs.kernel.errors import ConflictError, SessionError
    from vfs.kernel.kernel import person
    from vfs.kernel.promotion import TOKEN_SECONDS

    if before.status != "active":
        raise SessionError(f"session `{before.id}` is {before.status}", hint="start another one")
    if level.rank <= before.trust_level.rank:
        raise ConflictError(
            f"session `{before.id}` has trust level `{before.trust_level}`, which is not below `{level}`",
            hint="`vfs session demote` lowers it",
        )
    confirm(
        f"raise {before.id} from `{before.trust_level}` to `{level}`?\nit then may: {_rights(level)}", yes=yes
    )
    return kernel.promotions.issue(
        before.id, level, who=person(), reason=reason, seconds=seconds or TOKEN_SECONDS
    )


def _print_token(token: str, before: "Session", level: TrustLevel, *, as_json: bool) -> None:
    if as_json:
        output.document({"session_id": before.id, "trust_level": str(level), "token": token})
    else:
        output.text(token)


@click.command()
@click.argument("session_id", metavar="ID", type=SESSION_ID)
@click.option(
    "--to", "level", metavar="LEVEL", type=TRUST, required=True, help="The trust level it is to have."
)
@click.option("--reason", metavar="TEXT", required=True, help="Why; it goes on the audit log.")
@json_option
@pass_invocation
def demote(
    invocation: Invocation,
    session_id: str,
    level: TrustLevel,
    reason: str,
    as_json: bool,  # noqa: FBT001 (click passes by name)
) -> None:
    """Lower the trust of session ID, on live mounts and open files too; that needs no token."""
    from vfs.kernel.kernel import person

    with invocation.kernel() as kernel:
        before = kernel.sessions.get(session_id)
        after = kernel.demote(session_id, level, who=person(), reason=reason, face="cli")
    _report(before, after, as_json=as_json)


@click.command()
@click.argument("session_id", metavar="ID", type=SESSION_ID)
@json_option
@pass_invocation
def end(
    invocation: Invocation,
    session_id: str,
    as_json: bool,  # noqa: FBT001 (click passes by name)
) -> None:
    """End session ID: from now on it may do nothing. Its files stay until `vfs gc`."""
    with invocation.kernel() as kernel:
        ended = kernel.end(session_id)
    if as_json:
        output.document(_as_json(ended))
    else:
        output.text(f"{ended.id} has ended; `vfs gc` removes its files")


def _report(before: "Session", after: "Session", *, as_json: bool) -> None:
    if as_json:
        output.document({**_as_json(after), "trust_before": str(before.trust_level)})
    else:
        by = f", by {printable(after.trust_by)}" if after.trust_by else ""
        output.text(f"{after.id}: {before.trust_level} -> {after.trust_level}{by}")


def _count(kernel: "Kernel", session_id: str) -> tuple[int, int]:
    """Return how many entries the session has on the log, and how many of them were refused."""
    from vfs.kernel.audit import AuditFilter

    accesses = refusals = 0
    for entry in kernel.log.iter_entries(AuditFilter(session_id=session_id)):
        accesses += 1
        refusals += not entry.allowed
    return accesses, refusals


def _rights(level: TrustLevel) -> str:
    """Return what a level permits, in the words of the matrix."""
    told = []
    for zone, config in MATRIX[level].items():
        rights = [
            name
            for name, granted in (
                ("list", config.listable),
                ("read", config.readable),
                ("write" if not config.create_only else "add", config.writable or config.create_only),
                ("delete", config.deletable),
            )
            if granted
        ]
        if rights:
            told.append(f"{zone.value} ({' '.join(rights)})")
    return ", ".join(told)


def _of(origin: str | None) -> str:
    return f" ({origin})" if origin else ""


def _as_json(one: "Session") -> dict[str, Any]:
    return {
        "id": one.id,
        "workspace_id": one.workspace_id,
        "status": one.status,
        "trust_level": str(one.trust_level),
        "trust_since": one.trust_since.isoformat(),
        "trust_by": one.trust_by,
        "created_at": one.created_at.isoformat(),
        "expires_at": one.expires_at.isoformat() if one.expires_at else None,
        "ended_at": one.ended_at.isoformat() if one.ended_at else None,
        "source": {"type": one.source_context.type, "origin": one.source_context.origin},
    }
