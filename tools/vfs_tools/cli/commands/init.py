"""`vfs init`: making a directory a project."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from vfs_tools.cli import output
from vfs_tools.cli.confirm import confirm
from vfs_tools.cli.invocation import Invocation
from vfs_tools.cli.parameters import json_option, pass_invocation

if TYPE_CHECKING:
    from vfs.layout import Layout, PutAside

__all__ = ["TEMPLATE", "init"]

TEMPLATE: Final = """\
# Settings of this project for vfs. Every key is optional; what is commented out shows the default
# or an example.

[zones]
# Where a zone lives, if not under the project:
# workspace = "mem://"

[session]
# trust = "session"           # untrusted, session, workspace or full
# ttl = "14d"                 # a session unused for so long is over; without it never

[audit]
# level = "access"            # or "all": allowed metadata look-ups too
# durability = "os"           # or "disk": survives a power cut, and is slower

[quota]
# session = "1GiB"            # bytes per zone; without it no limit

[rules]
# lift = ["env-files"]        # shipped rules that shall not hold here

# [[rules.own]]
# name = "no-secrets"
# effect = "hide"             # hide, deny, read-only or ask
# paths = ["/repo/secrets"]
# level = "workspace"         # binds this trust level and those below

[exec]
# provider = "bubblewrap"     # or "local": no jail
# network = "none"            # or "host"
# read_only = ["/opt/tools"]  # further host paths that commands may read
# environment = ["LANG", "CI=1"]
# timeout = "1h"
"""


@click.command()
@click.option("--force", is_flag=True, help="Write vfs.toml anew; the old one is kept as vfs.toml.old.")
@click.option("--new-key", is_flag=True, help="The signing key is lost: begin a new chain with a new key.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@pass_invocation
def init(
    invocation: Invocation,
    force: bool,  # noqa: FBT001 (click passes by name)
    new_key: bool,  # noqa: FBT001 (as above)
    yes: bool,  # noqa: FBT001 (as above)
    as_json: bool,  # noqa: FBT001 (as above)
) -> None:
    """Make the directory a project: `.sandbox` for state and log, a key, and a vfs.toml with all settings.

    What is there already stays as it is. The directory is `--project`, or the nearest one upwards with a
    `.sandbox`, a `vfs.toml` or a `.git`, or the current one.
    """
    from vfs.layout import Layout, vfs_home

    directory = invocation.directory
    settings = directory / "vfs.toml"
    made = [] if (directory / ".sandbox").exists() else [str(directory / ".sandbox")]
    aside = _replace_key(Layout(directory), yes=yes) if new_key else None
    if force or not settings.exists():
        _write(settings)
        made.append(str(settings))
    with invocation.kernel(make=True) as kernel:
        if aside is not None:
            kernel.log.log(
                "rekey",
                session_id="",
                trust_level="full",
                allowed=True,
                reason="the signing key was lost",
                metadata={"old_key": aside.key_id, "log": aside.log.name if aside.log else None},
                face="cli",
            )
        chain = kernel.log.chain
    home = vfs_home()
    if as_json:
        shown = {"project": str(directory), "made": made, "chain": chain, "keys": str(home)}
        output.document({**shown, "put_aside": _aside_json(aside)})
        return
    for path in made:
        output.text(f"made {path}")
    if aside is not None:
        output.text(f"put the old chain aside: {aside.log}, its public key: {aside.key}")
    if not made and aside is None:
        output.text(f"{directory} is a project already; nothing to do")
    output.text(f"signing key and signed heads: {home}  (keep a copy)")
    output.text("\nnext:  vfs exec --trust workspace -- CMD\n       vfs audit log\n       vfs doctor")


def _replace_key(layout: "Layout", *, yes: bool) -> "PutAside":
    confirm("put the audit log of the lost key aside, and begin a new one with a new key?", yes=yes)
    return layout.put_chain_aside()


def _write(settings: Path) -> None:
    if settings.exists():
        os.replace(settings, settings.with_name("vfs.toml.old"))
    settings.write_text(TEMPLATE, encoding="utf-8")


def _aside_json(aside: "PutAside | None") -> dict[str, str | None] | None:
    if aside is None:
        return None
    return {
        "key_id": aside.key_id,
        "key": str(aside.key),
        "log": str(aside.log) if aside.log else None,
        "heads": str(aside.heads) if aside.heads else None,
    }
