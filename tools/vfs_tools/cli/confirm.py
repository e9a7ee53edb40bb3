"""Asking a person before something that cannot be taken back."""

import sys

import click

from vfs.kernel.paths import printable

__all__ = ["confirm"]


def confirm(question: str, *, yes: bool) -> None:
    """Return once a person at the terminal has agreed, or at once with `yes`.

    Raises UsageError where there is no terminal to ask at, and Exit(1) if the answer is no.
    """
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError("there is no terminal to ask at; `--yes` does it without asking")
    shown = "\n".join(printable(line) for line in question.splitlines())
    if not click.confirm(shown, err=True):
        sys.stderr.write("vfs: nothing was changed\n")
        raise click.exceptions.Exit(1)
