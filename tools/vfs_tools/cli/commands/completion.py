"""`vfs completion`: what makes a shell complete commands, options and ids."""

import click

from vfs.kernel.errors import ConfigError
from vfs_tools.cli import output
from vfs_tools.cli.parameters import json_option

__all__ = ["completion"]

_WHERE = {
    "bash": 'eval "$(vfs completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(vfs completion zsh)" in ~/.zshrc',
    "fish": "vfs completion fish > ~/.config/fish/completions/vfs.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(_WHERE)))
@json_option
def completion(shell: str, as_json: bool) -> None:  # noqa: FBT001 (click passes by name)
    """Write the completion script of SHELL: bash, zsh or fish.

    For bash, put `eval "$(vfs completion bash)"` into ~/.bashrc; for zsh the same into ~/.zshrc; for fish, write
    it to ~/.config/fish/completions/vfs.fish.
    """
    from click.shell_completion import get_completion_class

    from vfs_tools.cli.app import COMPLETE_VARIABLE, cli

    kind = get_completion_class(shell)
    if kind is None:
        raise ConfigError(f"there is no completion for `{shell}`")
    script = kind(cli, {}, "vfs", COMPLETE_VARIABLE).source()
    if as_json:
        output.document({"shell": shell, "install": _WHERE[shell], "script": script})
    else:
        output.text(script.rstrip("\n"))
