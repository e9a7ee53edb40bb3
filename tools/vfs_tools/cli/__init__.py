"""The command `vfs`.

`main` is the entry point. Everything else is imported by what uses it: `vfs --version` imports nothing at
all, `vfs --help` no command, and a command only what it needs itself.
"""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process, and end it with the exit code of docs/COMMANDS.md."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from vfs import __version__

        sys.stdout.write(f"vfs {__version__}\n")
        return
    from vfs_tools.cli.app import run

    sys.exit(run(arguments))
