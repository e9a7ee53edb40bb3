"""`vfs audit export`, `verify` and `prune`: the log as evidence, and its rotation."""

import contextlib
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple, TextIO, Unpack

import click

from vfs.kernel.errors import ConfigError
from vfs_tools.cli import output
from vfs_tools.cli.confirm import confirm
from vfs_tools.cli.failure import CHAIN_BROKEN
from vfs_tools.cli.filters import Chosen, chosen, filter_options
from vfs_tools.cli.invocation import Invocation
from vfs_tools.cli.outfile import whole_file
from vfs_tools.cli.parameters import DURATION, json_option, pass_invocation
from vfs_tools.cli.progress import counting

if TYPE_CHECKING:
    from vfs.kernel.audit import VerifyReport

__all__ = ["export", "prune", "verify"]


@click.command()
@filter_options
@click.option("--limit", metavar="N", type=click.IntRange(min=0), help="Only the oldest N.")
@click.option(
    "--format", "form", metavar="FORM", type=click.Choice(["json", "jsonl", "csv"]),
    default="json", show_default=True, help="json (an array), jsonl (an object a line) or csv.",
)  # fmt: skip
@click.option("-o", "--output", "out", metavar="FILE", help="Write FILE instead of standard output.")
@json_option
@pass_invocation
def export(
    invocation: Invocation,
    limit: int | None,
    form: Literal["json", "jsonl", "csv"],
    out: str | None,
    as_json: bool,  # noqa: FBT001 (click passes by name)
    **filters: Unpack[Chosen],
) -> None:
    r"""Write entries, oldest first, in constant memory.

    FILE appears when it is whole. Names that are not UTF-8 carry their bytes as `\udcXX`. With `--json`, what
    was written is told as JSON on standard error.
    """
    with invocation.kernel() as kernel, _destination(out) as file:
        everything = limit is None and all(value is None for value in filters.values())
        watched = everything and sys.stderr.isatty()
        total = kernel.log.stats().entries if watched else limit
        with counting("entries", total) as progress:
            count = kernel.log.export(chosen(limit=limit, **filters), form, out=file, progress=progress)
    if as_json:
        import json

        sys.stderr.write(json.dumps({"entries": count, "format": form, "file": out}) + "\n")
    elif out is not None:
        output.note(f"{count} entries written to `{out}`")


@contextlib.contextmanager
def _destination(path: str | None) -> Iterator[TextIO]:
    if path is None or path == "-":
        yield sys.stdout
        return
    with whole_file(path) as file:
        yield file


@click.command()
@click.option(
    "--dir", "directory", metavar="DIR", type=click.Path(), help="The log: a directory or a copy of one."
)
@click.option("--key", metavar="FILE", type=click.Path(), help="The public key, in PEM form.")
@click.option("--heads", metavar="FILE", type=click.Path(), help="The signed heads.")
@json_option
@pass_invocation
def verify(
    invocation: Invocation,
    directory: str | None,
    key: str | None,
    heads: str | None,
    as_json: bool,  # noqa: FBT001 (click passes by name)
) -> None:
    """Check that no row was changed, removed or added, and name the first that was.

    Needs the public key alone and changes nothing. Without options, the project's own log, key and signed heads
    are taken; with `--dir` a copy is checked anywhere, with the `--key` that was kept. Ends with 20 if the
    log is not as it was recorded.
    """
    from vfs.kernel.audit import verify as check
    from vfs.kernel.keys import VerifyKey

    if directory is not None:
        if key is None:
            raise click.UsageError("`--dir` needs the `--key` to check with")
        evidence = _Evidence(directory, key, heads)
    else:
        evidence = _own(invocation, key, heads)
    if not os.path.isdir(evidence.directory):
        raise ConfigError(
            f"there is no audit log in `{evidence.directory}`", hint="name its directory with `--dir`"
        )
    public = VerifyKey.load(evidence.key)
    if evidence.heads is not None and not os.path.exists(evidence.heads):
        raise ConfigError(
            f"there are no signed heads in `{evidence.heads}`", hint="name the file with `--heads`"
        )
    with counting("rows") as progress:
        report = check(evidence.directory, public, evidence.heads, progress)
    if as_json:
        output.document(report.to_dict())
    else:
        _tell(report, evidence)
    if not report.ok:
        raise click.exceptions.Exit(CHAIN_BROKEN)


class _Evidence(NamedTuple):
    """What a verification looks at."""

    directory: str
    key: str
    heads: str | None


def _own(invocation: Invocation, key: str | None, heads: str | None) -> _Evidence:
    """Return the project's log, and key and heads from where no agent reaches them, if they are there."""
    from vfs.layout import Layout

    invocation.require_project()
    layout = Layout(invocation.directory)
    kept = [path for path in (layout.private / "signing.pem.pub", layout.public_key) if path.exists()]
    signed = layout.heads
    return _Evidence(
        str(layout.audit),
        key or str(kept[0] if kept else layout.public_key),
        heads or (str(signed) if signed.exists() else None),
    )


def _tell(report: "VerifyReport", evidence: _Evidence) -> None:
    verdict = output.painted("intact", "green") if report.ok else output.painted("NOT INTACT", "red")
    output.text(f"{verdict}: {report.message}")
    output.text()
    span = f" ({report.first_sequence} to {report.last_sequence})" if report.rows else ""
    pairs = [
        ("log", evidence.directory),
        ("chain", report.chain or "-"),
        ("key", evidence.key),
        ("rows", f"{report.rows}{span}"),
        (
            "signed heads",
            f"{report.heads_checked} hold, of {evidence.heads}" if evidence.heads else "none given",
        ),
        ("not yet signed", f"{report.unsigned_rows} rows"),
    ]
    if not report.ok:
        where = "-" if report.sequence is None else str(report.sequence)
        pairs[1:1] = [("problem", report.problem or "-"), ("first bad row", where)]
    output.fields(pairs)
    if evidence.heads is None:
        output.note(
            "without signed heads a chain that was hashed anew cannot be told; name them with `--heads`"
        )


@click.command()
@click.option(
    "--older-than", metavar="TIME", type=DURATION, required=True, help="Remove what is older: `30d`, `12w`."
)
@click.option("--reason", metavar="TEXT", default="rotation", show_default=True, help="Why; it is recorded.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@pass_invocation
def prune(
    invocation: Invocation,
    older_than: float,
    reason: str,
    yes: bool,  # noqa: FBT001 (click passes by name)
    as_json: bool,  # noqa: FBT001 (as above)
) -> None:
    """Remove old rows in one signed step, which leaves the chain verifiable. Export them first."""
    from vfs.kernel.kernel import person

    try:
        moment = datetime.now(UTC) - timedelta(seconds=older_than)
    except OverflowError:
        raise click.BadParameter("so long ago there was no calendar", param_hint="--older-than") from None
    with invocation.kernel() as kernel:
        confirm(f"remove every row of the audit log older than {output.moment(moment)}?", yes=yes)
        rows = kernel.log.prune(moment, person(), reason)
    if as_json:
        output.document({"rows": rows, "older_than": moment.isoformat()})
    else:
        output.text(
            f"{rows} rows removed; those before {output.moment(moment)}" if rows else "no row is that old"
        )
