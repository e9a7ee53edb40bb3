"""Groups of commands that are imported when they are used, not when they are listed."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

__all__ = ["LazyCommand", "LazyGroup"]


class LazyCommand(NamedTuple):
    """Where a command lives, as `module:attribute`, and what it does in one line."""

    place: str
    summary: str

    def load(self) -> click.Command:
        """Import and return it."""
        module, _, attribute = self.place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


class LazyGroup(click.Group):
    """A group that knows its commands by name and summary, and imports one when it is called."""

    def __init__(self, *args: Any, lazy: Mapping[str, LazyCommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = dict(lazy)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        """Return the names, in the order in which they are told."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (as above)
        """Import and return a command, or None."""
        found = self.lazy.get(cmd_name)
        return found.load() if found else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that `args` call; a name that is none is told with its like."""
        if args and args[0] not in self.lazy and not args[0].startswith("-"):
            near = get_close_matches(args[0], self.lazy, n=1)
            meant = f"; did you mean `{near[0]}`" if near else ""
            ctx.fail(f"there is no command `{ctx.command_path} {args[0]}`{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 (click's signature)
        """Write the names and summaries."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self.lazy.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command without importing any."""
        names = [
            CompletionItem(name, help=command.summary)
            for name, command in self.lazy.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)
