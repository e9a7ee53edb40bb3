"""Run the suites, print one table and write `benchmarks/results.json`.

python -m benchmarks [--short] [--suite NAME]... [--output FILE]
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks import api, audit, mount, startup
from benchmarks.rows import Row, machine, table


def _audit(*, short: bool) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="vfs-bench-") as directory:
        return [Row(**row) for row in audit.run(Path(directory), 50_000 if short else audit.ROWS)]


SUITES: dict[str, Callable[..., list[Row]]] = {
    "api": api.run,
    "audit": _audit,
    "mount": mount.run,
    "startup": startup.run,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--short", action="store_true", help="fewer rounds and rows, to see that it runs")
    parser.add_argument(
        "--suite", action="append", choices=sorted(SUITES), help="only this one; may be repeated"
    )
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("results.json"))
    arguments = parser.parse_args()
    rows: list[Row] = []
    described = machine()
    for name in arguments.suite or SUITES:
        print(f"… {name}", file=sys.stderr, flush=True)
        rows += SUITES[name](short=arguments.short)
    print(table(rows))
    if not arguments.short:
        _write(arguments.output, described, rows)
        print(f"\nwritten to {arguments.output}", file=sys.stderr)
    return 0


def _write(output: Path, described: dict[str, object], rows: list[Row]) -> None:
    """Write the rows; those of suites that were not run now stay as they were."""
    fresh = {row.suite for row in rows}
    kept = json.loads(output.read_text())["rows"] if output.exists() else []
    document = {
        "machine": described,
        "rows": [*(row for row in kept if row["suite"] not in fresh), *(row.to_dict() for row in rows)],
    }
    output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
