"""What happened while a command ran, told from the audit log alone."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from vfs.exec.changes import net_changes
from vfs.exec.ports import HOME
from vfs.kernel.audit import AuditEntry
from vfs.kernel.paths import printable
from vfs.kernel.rules import DEFAULT_RULES, PROTECTED, Rule
from vfs.kernel.trust import MATRIX, Operation, TrustLevel
from vfs.kernel.zones import Zone

__all__ = ["Refusal", "Summary", "ZoneChanges", "render", "summarize"]

_SHOWN = 4
_SHIPPED = frozenset(rule.name for rule in DEFAULT_RULES)


@dataclass(frozen=True, slots=True)
class ZoneChanges:
    """The files of one zone that are not as they were: paths within the zone."""

    zone: str
    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Accesses that were refused for one reason.

    `place` is the path, or the directory that all of them lie in; `hint` is what would allow them, None if
    nothing would.
    """

    operation: str
    place: str
    reason: str
    rule: str
    count: int
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """How a command ended and what it did. `seconds` is how long it ran."""

    session_id: str
    trust_level: str
    argv: tuple[str, ...]
    provider: str
    isolated: bool
    network: str
    exit_code: int
    seconds: float
    timed_out: bool = False
    changes: tuple[ZoneChanges, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    staged: tuple[str, ...] = ()
    outputs: str | None = None
    resume: str = field(default="")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, ready for `json.dumps`."""
        return asdict(self)


def summarize(
    entries: Sequence[AuditEntry],
    *,
    session_id: str,
    trust_level: TrustLevel,
    argv: tuple[str, ...],
    provider: str,
    isolated: bool,
    network: str,
    exit_code: int,
    seconds: float,
    timed_out: bool = False,
    outputs: Path | None = None,
    rules: Iterable[Rule] = (),
) -> Summary:
    """Return the summary of a session's `entries` since the command began, oldest first.

    `rules` are those in force, to say what would lift a refusal.
    """
    changed = net_changes(entries)
    in_zone: dict[str, dict[str, list[str]]] = {}
    for path, state in changed.items():
        if path.startswith(f"{HOME}/"):
            continue  # caches, histories and settings of programs
        zone, _, rest = path.lstrip("/").partition("/")
        in_zone.setdefault(zone, {}).setdefault(state, []).append(rest)
    order = [zone.value for zone in Zone]
    return Summary(
        session_id=session_id,
        trust_level=str(trust_level),
        argv=argv,
        provider=provider,
        isolated=isolated,
        network=network,
        exit_code=exit_code,
        seconds=seconds,
        timed_out=timed_out,
        changes=tuple(
            ZoneChanges(zone, **{state: tuple(sorted(paths)) for state, paths in in_zone[zone].items()})
            for zone in sorted(in_zone, key=order.index)
        ),
        refusals=_refusals(entries, trust_level, {rule.name: rule for rule in rules}),
        staged=_staged(changed),
        outputs=str(outputs) if outputs is not None else None,
        resume=f"vfs exec --session {session_id} -- …",
    )


def _staged(changed: Mapping[str, str]) -> tuple[str, ...]:
    parts = [path.split("/") for path, state in changed.items() if state != "deleted"]
    return tuple(dict.fromkeys(part[2] for part in parts if part[1] == Zone.STAGED and len(part) > 3))


def _refusals(
    entries: Iterable[AuditEntry], level: TrustLevel, rules: Mapping[str, Rule]
) -> tuple[Refusal, ...]:
    groups: dict[tuple[str, str, str], list[AuditEntry]] = {}
    for entry in entries:
        if not entry.allowed:
            groups.setdefault((entry.operation, str(entry.zone), entry.rule or ""), []).append(entry)
    return tuple(
        Refusal(
            operation=operation,
            place=_place([entry.path or "/" for entry in group]),
            reason=group[0].reason or "not permitted",
            rule=rule,
            count=len(group),
            hint=_hint(group[0], level, rules.get(rule)),
        )
        for (operation, _, rule), group in groups.items()
    )


def _place(paths: Sequence[str]) -> str:
    """Return the path that all are, or the directory that all lie in."""
    parts = [path.split("/") for path in dict.fromkeys(paths)]
    if len(parts) == 1:
        return paths[0]
    common = []
    for names in zip(*parts, strict=False):
        if len(set(names)) > 1:
            break
        common.append(names[0])
    return "/".join(common) + "/"


def _hint(entry: AuditEntry, level: TrustLevel, rule: Rule | None) -> str | None:
    """Say what would allow an access that was refused."""
    if entry.rule == "matrix" and entry.zone is not None and entry.operation in set(Operation):
        enough = [
            other
            for other in TrustLevel
            if other.rank > level.rank and MATRIX[other][entry.zone].grants(Operation(entry.operation))
        ]
        if not enough:
            return None
        if entry.zone is Zone.REPO and entry.operation == Operation.WRITE:
            return f"files under /staged/ID wait for a review; trust level `{enough[0]}` writes at once"
        return (
            f"trust level `{enough[0]}` allows it: `vfs session promote {entry.session_id} --to {enough[0]}`"
        )
    if rule is None or rule in PROTECTED:
        return None
    if rule.name in _SHIPPED:
        return f'`lift = ["{rule.name}"]` under `[rules]` in vfs.toml, or trust level `full`'
    return f"the rule `{rule.name}` in vfs.toml decides"


def render(summary: Summary, *, colour: bool = False) -> str:
    """Return the summary as a few lines for a person, ending with a newline."""
    lines = [_head(summary, colour)]
    rows = [("changed", f"/{change.zone}: {_counts(change)}") for change in summary.changes]
    for refusal in summary.refusals:
        times = f" ({refusal.count} times)" if refusal.count > 1 else ""
        rows.append(("refused", f"{refusal.operation} {printable(refusal.place)}{times}: {refusal.reason}"))
        if refusal.hint:
            rows.append(("", f"→ {refusal.hint}"))
    if summary.staged:
        rows.append(
            ("staged", ", ".join(printable(name) for name in summary.staged) + ": waits for a review")
        )
    if summary.outputs is not None:
        rows.append(("outputs", summary.outputs))
    rows.append(("resume", summary.resume))
    before = ""
    for label, text in rows:
        shown = label if label != before else ""
        before = label or before
        mark = "31" if label == "refused" else "2"
        lines.append(f"  {_paint(f'{shown:<8}', mark, colour)} {text}")
    return "\n".join(lines) + "\n"


def _head(summary: Summary, colour: bool) -> str:  # noqa: FBT001 (as in `render`)
    command = printable(shlex.join(summary.argv))
    if len(command) > 60:
        command = command[:59] + "…"
    how = "took too long and was ended" if summary.timed_out else f"ended with exit code {summary.exit_code}"
    jail = summary.provider if summary.isolated else f"{summary.provider}: not isolated"
    text = f"vfs: `{command}` {how} after {summary.seconds:.1f} s"
    about = f"session {summary.session_id}, trust {summary.trust_level}, {jail}, network {summary.network}"
    return f"{_paint(text, '1', colour)} ({about})"


def _counts(change: ZoneChanges) -> str:
    counted = [
        f"{len(paths)} {name}"
        for name, paths in (
            ("created", change.created),
            ("updated", change.updated),
            ("deleted", change.deleted),
        )
        if paths
    ]
    names = [printable(path) for path in (*change.created, *change.updated, *change.deleted)]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(counted)} ({', '.join(names[:_SHOWN])}{more})"


def _paint(text: str, code: str, colour: bool) -> str:  # noqa: FBT001 (as in `render`)
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text
