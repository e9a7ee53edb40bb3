"""`vfs doctor`: what this machine offers, what each lack disables, and what mends it."""

from dataclasses import asdict

import click

from vfs_tools.cli import output
from vfs_tools.cli.parameters import json_option

__all__ = ["doctor"]


@click.command()
@json_option
def doctor(as_json: bool) -> None:  # noqa: FBT001 (click passes by name)
    """Say what this machine offers and lacks, and the command that mends each lack.

    Ends with 1 if something is missing; a warning is no lack.
    """
    from vfs.doctor import examine

    checks = examine()
    missing = [check for check in checks if check.status == "missing"]
    if as_json:
        output.document({"ok": not missing, "checks": [asdict(check) for check in checks]})
    else:
        output.table(
            ("check", "status", "found"),
            [(check.name, check.status, check.detail) for check in checks],
            empty="nothing was looked at",
        )
        for check in checks:
            if check.status != "ok":
                output.text()
                output.fields(
                    [(check.name, check.status), ("disables", check.disables), ("mend it", check.remedy)]
                )
    if missing:
        raise click.exceptions.Exit(1)
