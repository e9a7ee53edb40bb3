"""What the audit log costs: recording, verifying, exporting, finding.

Each function returns rows of the one table that all benchmarks fill. `ratio_to_native` is to the same work
without the log, where there is such a thing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from vfs.kernel.audit import Actor, AuditFilter, AuditLog, Recorder, verify
from vfs.kernel.keys import SigningKey, VerifyKey
from vfs.kernel.zones import Zone

Row = dict[str, Any]

ROWS = 1_000_000


def row(workload: str, value: float, unit: str, ratio: float | None = None) -> Row:
    return {
        "suite": "audit",
        "workload": workload,
        "subject": "vfs",
        "audit": "os",
        "value": round(value, 3),
        "unit": unit,
        "ratio_to_native": None if ratio is None else round(ratio, 2),
        "ratio_to_bindfs": None,
    }


def open_log(directory: Path, **options: Any) -> AuditLog:
    key = directory / "key"
    signer = SigningKey.load(key) if key.exists() else SigningKey.create(key)
    return AuditLog.open(directory / "audit", signer=signer, heads=directory / "heads", **options)


def bound(log: AuditLog, session: int = 0) -> Recorder:
    return log.bind(session_id=f"session-{session:04d}-ab12cd34", trust_level="session", face="fuse")


def median_us(act: Callable[[], object], count: int) -> float:
    clock = time.perf_counter_ns
    times = []
    for _ in range(count):
        start = clock()
        act()
        times.append(clock() - start)
    return sorted(times)[count // 2] / 1000


def append(directory: Path, count: int = 50_000) -> list[Row]:
    """One row per recorded read, against the read itself."""
    file = directory / "file"
    file.write_bytes(b"x" * 1000)

    def read() -> None:
        descriptor = os.open(file, os.O_RDONLY)
        os.read(descriptor, 4096)
        os.close(descriptor)

    actor = Actor(4711, 1000, "claude")
    with open_log(directory) as log:
        recorder = bound(log)

        def record() -> None:
            recorder.entry(
                "read", "open", "/repo/src/kernel/door.py", Zone.REPO, True,
                actor=actor, outcome="ok", bytes_read=1000,
            )  # fmt: skip

        def record_mutation() -> None:
            sequence = recorder.entry("write", "write", "/repo/a", Zone.REPO, True, actor=actor, pending=True)
            recorder.outcome(sequence, "ok", 0, 1000)

        def both() -> None:
            record()
            read()

        native = median_us(read, count)
        start = time.perf_counter()
        cost = median_us(record, count)
        mean = (time.perf_counter() - start) / count * 1e6
        mutation = median_us(record_mutation, count // 2)
        recorded = median_us(both, count)
    with open_log(directory, durability="disk") as log:
        recorder = bound(log)
        disk = median_us(record, 200)
    return [
        row("plain read", native, "µs"),
        row("append, median", cost, "µs", cost / native),
        row("append, mean with ingest and heads", mean, "µs", mean / native),
        row("recorded read", recorded, "µs", recorded / native),
        row("append of a mutation and its outcome", mutation, "µs"),
        {**row("append", disk, "µs"), "audit": "disk"},
    ]


def fill(directory: Path, rows: int) -> list[Row]:
    """A log of 200 sessions with the usual mix of operations."""
    start = time.perf_counter()
    with open_log(directory) as log:
        recorders = [bound(log, session) for session in range(200)]
        zones = list(Zone)
        number = 1
        while number < rows:
            recorder = recorders[number * 7919 % 200]
            zone = zones[number % 5]
            path = f"/{zone}/src/package{number % 97}/module{number % 1009}.py"
            kind = number % 20
            if kind < 2:
                number = 1 + recorder.outcome(
                    recorder.entry("write", "write", path, zone, True, pending=True), "ok", 0, 512
                )
            elif kind == 19 and number % 3 == 0:
                number = 1 + recorder.entry(
                    "delete", "unlink", path, zone, False, reason="denied by the matrix"
                )
            else:
                name = "list" if kind < 6 else "read"
                number = 1 + recorder.entry(name, name, path, zone, True, outcome="ok", bytes_read=4096)
        recorders[0].entry("promote", "promote", None, None, True, reason="asked for")
        log.stats()
    return [row("fill and ingest", rows / (time.perf_counter() - start), "rows/s")]


def find(directory: Path) -> list[Row]:
    """The slowest of five runs of each filter."""
    results = []
    with open_log(directory) as log:
        (middle,) = log.get_entries(AuditFilter(after=log.stats().rows // 2, limit=1))
        moment = middle.timestamp
        session = "session-0042-ab12cd34"
        filters = {
            "newest 100": AuditFilter(newest_first=True, limit=100),
            "session": AuditFilter(session_id=session, limit=100),
            "session and operation": AuditFilter(session_id=session, operation="delete", limit=100),
            "operation": AuditFilter(operation="write", newest_first=True, limit=100),
            "rare operation": AuditFilter(operation="promote"),
            "zone and trust": AuditFilter(zone=Zone.STAGED, trust_level="session", limit=100),
            "nothing matches": AuditFilter(trust_level="full", zone=Zone.REPO, operation="stage"),
            "denied": AuditFilter(allowed=False, newest_first=True, limit=100),
            "time range": AuditFilter(start_time=moment, end_time=moment + timedelta(seconds=1), limit=100),
            "all of them": AuditFilter(
                session_id=session, operation="read", zone=Zone.REPO, trust_level="session", allowed=True,
                start_time=moment - timedelta(seconds=5), end_time=moment, limit=100,
            ),
            "path": AuditFilter(path="/repo/src/package7/*.py", limit=100),
        }  # fmt: skip
        log.get_entries(AuditFilter(limit=1))
        for name, wanted in filters.items():
            times = []
            for _ in range(5):
                start = time.perf_counter()
                log.get_entries(wanted)
                times.append(time.perf_counter() - start)
            results.append(row(f"query: {name}", max(times) * 1000, "ms"))
        start = time.perf_counter()
        log.stats()
        results.append(row("stats", (time.perf_counter() - start) * 1000, "ms"))
    return results


def check(directory: Path) -> list[Row]:
    key = VerifyKey.load(directory / "key.pub")
    start = time.perf_counter()
    report = verify(directory / "audit", key, directory / "heads")
    assert report.ok, report
    return [row("verify", report.rows / (time.perf_counter() - start), "rows/s")]


def export(directory: Path) -> list[Row]:
    """Each format in a process of its own, for its peak memory."""
    results = []
    for form in ("json", "jsonl", "csv"):
        command = [sys.executable, __file__, "--export", form, str(directory)]
        answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        results.append(row(f"export {form}", answer["rate"], "rows/s"))
        results.append(row(f"export {form}, memory above the start", answer["growth"] / 1024, "MiB"))
    return results


def peak_kib() -> int:
    # Not getrusage, whose figure a process inherits from the one that started it.
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])


def export_in_this_process(directory: Path, form: Any) -> None:
    with open_log(directory) as log, open(os.devnull, "w", encoding="utf-8") as out:
        log.get_entries(AuditFilter(limit=1))
        before = peak_kib()
        start = time.perf_counter()
        count = log.export(format=form, out=out)
        rate = count / (time.perf_counter() - start)
        growth = peak_kib() - before
    print(json.dumps({"rate": rate, "growth": growth}))


def run(directory: Path, rows: int = ROWS) -> list[Row]:
    """Every measurement, in a directory whose disk is to be measured."""
    (directory / "append").mkdir()
    (directory / "big").mkdir()
    results = append(directory / "append")
    for measure in (lambda place: fill(place, rows), find, check, export):
        results += measure(directory / "big")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description="measure the audit log")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows in the log that is searched and checked")
    parser.add_argument("--export", help=argparse.SUPPRESS)
    parser.add_argument(
        "directory", nargs="?", type=Path, help="where to work (default: a temporary directory)"
    )
    options = parser.parse_args()
    if options.export:
        export_in_this_process(options.directory, options.export)
        return
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        for result in run(Path(directory), options.rows):
            ratio = "" if result["ratio_to_native"] is None else f"  ({result['ratio_to_native']} × native)"
            print(
                f"{result['workload']:<44}{result['audit']:>5}{result['value']:>14,.3f} {result['unit']}{ratio}"
            )


if __name__ == "__main__":
    main()
