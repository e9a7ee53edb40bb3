"""The root of the command line: its options, its commands, and how it ends."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from vfs import __version__
from vfs_tools.cli import failure, output
from vfs_tools.cli.invocation import Invocation
from vfs_tools.cli.lazy import LazyCommand, LazyGroup

__all__ = ["COMPLETE_VARIABLE", "cli", "run"]

COMPLETE_VARIABLE = "_VFS_COMPLETE"
"""Set by the shell's completion script; says what is to be completed."""

_HERE = "vfs_tools.cli.commands"

COMMANDS = {
    "init": LazyCommand(f"{_HERE}.init:init", "Make this directory a project."),
    "mount": LazyCommand(f"{_HERE}.mount:mount", "Show a session's zones as a directory."),
    "umount": LazyCommand(f"{_HERE}.mount:umount", "End a mount, a dead one too."),
    "exec": LazyCommand(f"{_HERE}.exec:execute", "Run a command in the jail, before the zones."),
    "ls": LazyCommand(f"{_HERE}.look:ls", "List a directory."),
    "cat": LazyCommand(f"{_HERE}.transfer:cat", "Write files to standard output."),
    "put": LazyCommand(f"{_HERE}.transfer:put", "Copy a file of the host to a path."),
    "rm": LazyCommand(f"{_HERE}.transfer:rm", "Remove files or directories."),
    "stat": LazyCommand(f"{_HERE}.look:stat", "Show what is known of a path, and what is permitted there."),
    "tree": LazyCommand(f"{_HERE}.look:tree", "Show a directory and what lies below."),
    "session": LazyCommand(f"{_HERE}.session:session", "Show sessions, and change their trust."),
    "audit": LazyCommand(f"{_HERE}.audit:audit", "Read, export and verify the audit log."),
    "staged": LazyCommand(f"{_HERE}.staged:staged", "Show staged commits, and discard them."),
    "gc": LazyCommand(f"{_HERE}.gc:gc", "Remove what sessions that are over have left."),
    "doctor": LazyCommand(f"{_HERE}.doctor:doctor", "Say what this machine offers and lacks."),
    "completion": LazyCommand(f"{_HERE}.completion:completion", "Write the completion script of a shell."),
}


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes and every option: docs/COMMANDS.md",
)
@click.option(
    "--project",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The project; else VFS_PROJECT, else the one around the current directory.",
)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Settings instead of the project's vfs.toml.",
)
@click.option("--workspace", metavar="ID", help="The workspace within the project.")
@click.version_option(__version__, prog_name="vfs", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context, project: Path | None, config: Path | None, workspace: str | None) -> None:
    """One tree for an agent: five zones, four trust levels, one audited door."""
    context.obj = Invocation(project, config, workspace)


def run(arguments: Sequence[str]) -> int:
    """Run the command that `arguments` call and return its exit code; what fails is told on stderr."""
    if instruction := os.environ.get(COMPLETE_VARIABLE):
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "vfs", COMPLETE_VARIABLE, instruction)
    output.prepare()
    context: click.Context | None = None
    try:
        with cli.make_context("vfs", list(arguments)) as context:
            code = cli.invoke(context)
        output.finish()
    except BaseException as error:  # noqa: BLE001 (this is where every failure ends)
        return failure.report(error, as_json=_wants_json(error, context, arguments))
    return code if isinstance(code, int) else 0


def _wants_json(error: BaseException, context: click.Context | None, arguments: Sequence[str]) -> bool:
    """Tell whether `error` is to be told as JSON; a command line that cannot be parsed is asked itself."""
    if context is not None and output.JSON_KEY in context.meta:
        return True
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return isinstance(error, click.UsageError) and "--json" in own
