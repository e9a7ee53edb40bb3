"""Entries of the audit log as lines, for people or as JSON; each is written as it comes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vfs.kernel.paths import printable
from vfs_tools.cli import output

if TYPE_CHECKING:
    from vfs.kernel.audit import AuditEntry

__all__ = ["write_entries"]

_HEADER = ("SEQ", "TIME", "VERDICT", "ACTION", "TRUST", "SESSION", "PATH")
_WIDTHS = (7, 20, 11, 13, 9, 20)


def write_entries(entries: Iterable["AuditEntry"], *, as_json: bool, header: bool = True) -> int:
    """Write the entries as they come and return how many; people get a header above the first."""
    count = 0
    for entry in entries:
        if as_json:
            output.line(entry.to_dict())
        else:
            if header and not count:
                output.text(output.painted(_columns(_HEADER), "bright_black"))
            output.text(_line(entry))
        count += 1
    return count


def _line(entry: "AuditEntry") -> str:
    verdict, colour = _verdict(entry)
    shown = (
        str(entry.sequence),
        output.moment(entry.timestamp),
        verdict,
        printable(entry.action),
        printable(entry.trust_level) if entry.session_id else "-",
        printable(entry.session_id) or "-",
        printable(entry.path or "-"),
    )
    line = _columns(shown) + _rest(entry)
    return line.replace(f"  {verdict} ", f"  {output.painted(verdict, colour)} ", 1) if colour else line


def _columns(cells: tuple[str, ...]) -> str:
    *fixed, last = cells
    padded = [fixed[0].rjust(_WIDTHS[0])]
    padded += [cell.ljust(width) for cell, width in zip(fixed[1:], _WIDTHS[1:], strict=True)]
    return "  ".join([*padded, last])


def _verdict(entry: "AuditEntry") -> tuple[str, output.Colour | None]:
    """Return what became of it in one word."""
    if not entry.allowed:
        return ("violation", "red") if entry.operation == "security_violation" else ("denied", "red")
    outcome = printable(entry.outcome or "ok")
    return outcome, None if outcome == "ok" else "yellow"


def _rest(entry: "AuditEntry") -> str:
    told = []
    if entry.bytes_read:
        told.append(f"{output.size(entry.bytes_read)} read")
    if entry.bytes_written:
        told.append(f"{output.size(entry.bytes_written)} written")
    if entry.command:
        told.append(f"by {printable(entry.command)}[{entry.pid}]")
    if entry.reason:
        told.append(printable(entry.reason))
    if entry.metadata and not entry.session_id and "session" in entry.metadata:
        told.append(f"of {printable(str(entry.metadata['session']))}")
    if entry.operation in ("promote", "demote") and entry.metadata:
        told.append(printable(f"{entry.metadata.get('from')} -> {entry.metadata.get('to')}"))
        told.append(printable(f"{entry.metadata.get('who')}: {entry.metadata.get('reason')}"))
    return f"  ({'; '.join(told)})" if told else ""
