"""`vfs exec`: a command at work before the zones."""

from typing import Literal

import click

from vfs.kernel.trust import TrustLevel
from vfs_tools.cli.invocation import Invocation
from vfs_tools.cli.parameters import DURATION, in_session, json_option, pass_invocation

__all__ = ["execute"]


@click.command("exec", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.argument("command", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
@in_session
@click.option(
    "--net", type=click.Choice(["none", "host"]), help="The network CMD has; else that of the settings."
)
@click.option(
    "--env",
    "environment",
    metavar="NAME[=V]",
    multiple=True,
    help="Give CMD a variable, by name the caller's own.",
)
@click.option(
    "--ro", "read_only", metavar="PATH", multiple=True, help="A further host path that CMD may read."
)
@click.option("--timeout", metavar="S", type=DURATION, help="End CMD after so long.")
@click.option(
    "--provider",
    metavar="NAME",
    type=click.Choice(["bubblewrap", "local"]),
    help="bubblewrap, or local: no jail.",
)
@click.option("--cwd", metavar="PATH", help="The directory CMD starts in, as it sees it.")
@click.option("--quiet", is_flag=True, help="No summary.")
@click.option("--summary-json", metavar="FILE", type=click.Path(), help="Write the summary to FILE as JSON.")
@json_option
@pass_invocation
def execute(
    invocation: Invocation,
    command: tuple[str, ...],
    session_id: str | None,
    trust: TrustLevel | None,
    net: Literal["none", "host"] | None,
    environment: tuple[str, ...],
    read_only: tuple[str, ...],
    timeout: float | None,
    provider: str | None,
    cwd: str | None,
    quiet: bool,  # noqa: FBT001 (click passes by name)
    summary_json: str | None,
    as_json: bool,  # noqa: FBT001 (as above)
) -> None:
    """Run CMD with the zones at /session, /workspace, /repo, /staged and /workers, and end as it ends.

    What CMD changed, was refused and left behind is told on standard error when it has ended; with `--json`,
    as JSON.
    """
    raise NotImplementedError
