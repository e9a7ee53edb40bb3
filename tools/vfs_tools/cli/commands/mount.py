"""`vfs mount` and `vfs umount`: the zones of a session as a directory."""

import click

from vfs.kernel.trust import TrustLevel
from vfs.kernel.zones import Zone
from vfs_tools.cli.invocation import Invocation
from vfs_tools.cli.parameters import ZONE_URL, in_session, json_option, pass_invocation

__all__ = ["mount", "umount"]


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path())
@in_session
@click.option("--foreground", is_flag=True, help="Serve it from this process, until Ctrl-C.")
@click.option(
    "--zone", "zones", metavar="NAME=URL", type=ZONE_URL, multiple=True, help="Put a zone at another URL."
)
@json_option
@pass_invocation
def mount(
    invocation: Invocation,
    directory: str,
    session_id: str | None,
    trust: TrustLevel | None,
    foreground: bool,  # noqa: FBT001 (click passes by name)
    zones: tuple[tuple[Zone, str], ...],
    as_json: bool,  # noqa: FBT001 (as above)
) -> None:
    """Show the zones of a session at DIR, an empty directory.

    Returns once programs can use it; `vfs umount DIR` ends it.
    """
    raise NotImplementedError


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path())
@click.option("--force", is_flag=True, help="Even while programs are using it.")
@json_option
@pass_invocation
def umount(
    invocation: Invocation,
    directory: str,
    force: bool,  # noqa: FBT001 (click passes by name)
    as_json: bool,  # noqa: FBT001 (as above)
) -> None:
    """End the mount at DIR, a dead one too."""
    raise NotImplementedError
