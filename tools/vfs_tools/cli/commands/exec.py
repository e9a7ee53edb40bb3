"""`vfs exec`: a command at work before the zones."""

import json
import sys
from typing import TYPE_CHECKING, Literal

import click

from vfs.kernel.trust import TrustLevel
from vfs_tools.cli import output
from vfs_tools.cli.invocation import Invocation
from vfs_tools.cli.outfile import whole_file
from vfs_tools.cli.parameters import DURATION, in_session, json_option, pass_invocation

if TYPE_CHECKING:
    from vfs.exec import Summary

__all__ = ["execute"]


@click.command("exec", context_settings={"allow_interspersed_args": False})
@click.argument("command", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
@in_session
@click.option(
    "--net", metavar="NET", type=click.Choice(["none", "host"]),
    help="The network CMD has, none or host; else that of the settings.",
)  # fmt: skip
@click.option(
    "--env", "environment", metavar="NAME[=V]", multiple=True,
    help="Give CMD a variable; without V, with the value it has here.",
)  # fmt: skip
@click.option(
    "--ro", "read_only", metavar="PATH", multiple=True, help="A further path of the host that CMD may read."
)
@click.option("--timeout", metavar="S", type=DURATION, help="End CMD after so long: `90`, `30m`.")
@click.option("--provider", metavar="NAME", help="What confines CMD: bubblewrap, or local for nothing.")
@click.option("--cwd", metavar="PATH", help="The directory CMD starts in, as it sees it; else /repo.")
@click.option("--quiet", is_flag=True, help="No summary on standard error.")
@click.option("--summary-json", metavar="FILE", help="Write the summary to FILE as JSON.")
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

    It sees nothing else of the host but its programs, and writes nowhere else. What it changed, what it was
    refused and how to go on is told on standard error when it has ended; with `--json`, as JSON. A session that
    is named and not there yet is started under that name.
    """
    from vfs.exec import ExecOptions, run

    options = ExecOptions(
        trust_level=trust,
        session_id=session_id,
        workspace_id=invocation.workspace_id,
        provider=provider,
        network=net,
        env=environment,
        read_only=read_only,
        timeout=timeout,
        cwd=cwd,
        settings=invocation.settings,
    )
    report = run(invocation.directory, command, options)
    if summary_json is not None:
        with whole_file(summary_json) as file:
            file.write(json.dumps(report.summary.to_dict(), indent=2) + "\n")
    if not quiet:
        _tell(report.summary, as_json=as_json)
    raise click.exceptions.Exit(report.exit_code)


def _tell(summary: "Summary", *, as_json: bool) -> None:
    from vfs.exec import render

    if as_json:
        sys.stderr.write(json.dumps(summary.to_dict()) + "\n")
    else:
        sys.stderr.write(render(summary, colour=output.has_colour(sys.stderr)))
