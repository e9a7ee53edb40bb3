"""What a benchmark says: rows of one form, medians of interleaved rounds."""

import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

Audit = Literal["on", "off"] | None


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; the ratios are speeds, so 0.5 means half as fast as the peer."""

    suite: str
    workload: str
    subject: str
    value: float
    unit: str
    audit: Audit = None
    ratio_to_native: float | None = None
    ratio_to_bindfs: float | None = None

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def machine() -> dict[str, object]:
    """What the figures were taken on."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "load": round(os.getloadavg()[0], 2),
    }


def interleave(
    subjects: Mapping[str, Callable[[int], Mapping[str, float]]], rounds: int
) -> dict[str, dict[str, float]]:
    """Run each subject once a round, in turn, and return the median seconds of each of its workloads.

    A subject is called with the round's number and returns seconds by workload; one round more than asked
    comes first and does not count.
    """
    taken: dict[str, dict[str, list[float]]] = {name: {} for name in subjects}
    for number in range(rounds + 1):
        for name, run in subjects.items():
            for workload, seconds in run(number).items():
                if number:
                    taken[name].setdefault(workload, []).append(seconds)
    return {
        name: {workload: statistics.median(values) for workload, values in by_workload.items()}
        for name, by_workload in taken.items()
    }


def compared(
    suite: str,
    medians: Mapping[str, Mapping[str, float]],
    *,
    native: str,
    bindfs: str | None = None,
    audit: Mapping[str, Audit] | None = None,
    unit: str = "s",
    scale: float = 1.0,
) -> list[Row]:
    """Turn medians into rows with their ratios to the native and the bindfs subject."""

    def ratio(peer: str | None, workload: str, seconds: float) -> float | None:
        base = medians.get(peer or "", {}).get(workload)
        return None if base is None or not seconds else round(base / seconds, 3)

    return [
        Row(
            suite, workload, subject, seconds * scale, unit, (audit or {}).get(subject),
            ratio(native, workload, seconds), ratio(bindfs, workload, seconds),
        )
        for subject, by_workload in medians.items()
        for workload, seconds in by_workload.items()
    ]  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Return the rows as text for a person."""
    lines = [
        f"{'suite':8} {'workload':34} {'subject':26} {'value':>12} {'unit':10} {'×native':>8} {'×bindfs':>8}"
    ]
    for row in rows:
        native = "" if row.ratio_to_native is None else f"{row.ratio_to_native:.2f}"
        bindfs = "" if row.ratio_to_bindfs is None else f"{row.ratio_to_bindfs:.2f}"
        subject = row.subject + (f" (audit {row.audit})" if row.audit else "")
        value = f"{row.value:,.4g}" if row.value < 1000 else f"{row.value:,.0f}"
        lines.append(
            f"{row.suite:8} {row.workload:34} {subject:26} {value:>12} {row.unit:10} {native:>8} {bindfs:>8}"
        )
    return "\n".join(lines)
