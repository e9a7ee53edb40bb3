"""`vfs ls`, `vfs stat` and `vfs tree`: looking at the zones as a session sees them."""

import stat as modes
from typing import TYPE_CHECKING, Any

import click

from vfs.kernel.errors import SandboxError
from vfs.kernel.paths import ROOT, parse, printable
from vfs.kernel.ports import DirEntry, Stat
from vfs.kernel.trust import Operation, TrustLevel
from vfs_tools.cli import output
from vfs_tools.cli.invocation import Invocation
from vfs_tools.cli.parameters import in_session, json_option, pass_invocation

if TYPE_CHECKING:
    from vfs.kernel.files import Files
    from vfs.kernel.sandbox import Sandbox

__all__ = ["ls", "stat", "tree"]

_KINDS = {modes.S_IFDIR: "directory", modes.S_IFLNK: "link", modes.S_IFREG: "file"}


@click.command()
@click.argument("path", default="/")
@click.option("-l", "--long", is_flag=True, help="Mode, size and time of each entry.")
@in_session
@json_option
@pass_invocation
def ls(
    invocation: Invocation,
    path: str,
    long: bool,  # noqa: FBT001 (click passes by name)
    session_id: str | None,
    trust: TrustLevel | None,
    as_json: bool,  # noqa: FBT001 (as above)
) -> None:
    """List a directory.

    PATH is virtual: `/repo/src`, or relative to `/session/working`. What a rule hides from the session is not
    shown.
    """
    with invocation.sandbox(session_id, trust) as sandbox:
        files, where = sandbox.files, _absolute(sandbox, path)
        found = files.stat(where)
        if modes.S_ISDIR(found.mode):
            entries = sorted(files.scan(where), key=lambda entry: entry.name)
        else:
            entries = [DirEntry(parse(where).name, found.ino, modes.S_IFMT(found.mode))]
            where = str(parse(where).parent)
        looks = {
            entry.name: _glance(files, _below(where, entry.name)) for entry in entries if long or as_json
        }
        links = {
            entry.name: _target(files, _below(where, entry.name)) for entry in entries if _is_link(entry.type)
        }
    if as_json:
        shown = [_entry_json(entry, looks[entry.name], links.get(entry.name)) for entry in entries]
        output.document({"path": where, "entries": shown})
    elif long:
        output.table(
            ("mode", "size>", "modified", "name"),
            [_long(entry, looks[entry.name], links.get(entry.name)) for entry in entries],
            empty=f"`{printable(where)}` is empty",
        )
    else:
        for entry in entries:
            output.text(_name(entry))


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@in_session
@json_option
@pass_invocation
def stat(
    invocation: Invocation,
    paths: tuple[str, ...],
    session_id: str | None,
    trust: TrustLevel | None,
    as_json: bool,  # noqa: FBT001 (click passes by name)
) -> None:
    """Show what is known of each PATH, and what the session may do there.

    A link is followed within its zone. With `--json` there is one line for each path.
    """
    with invocation.sandbox(session_id, trust) as sandbox:
        for number, path in enumerate(paths):
            told = _tell(sandbox, path)
            if as_json:
                output.line(told)
            else:
                if number:
                    output.text()
                output.fields((name.replace("_", " "), _human(name, value)) for name, value in told.items())


@click.command()
@click.argument("path", default="/")
@click.option("-L", "--level", metavar="N", type=click.IntRange(min=1), help="Go down N levels, no further.")
@in_session
@json_option
@pass_invocation
def tree(
    invocation: Invocation,
    path: str,
    level: int | None,
    session_id: str | None,
    trust: TrustLevel | None,
    as_json: bool,  # noqa: FBT001 (click passes by name)
) -> None:
    """Show a directory and what lies below.

    A directory that may not be listed is named with the reason; links are not followed. With `--json` there is
    one line for each entry.
    """
    with invocation.sandbox(session_id, trust) as sandbox:
        where = _absolute(sandbox, path)
        counts = _Tree(sandbox.files, level, as_json=as_json).show(where)
    if not as_json:
        directories, others = counts
        output.text(
            f"\n{_plural(directories, 'directory', 'directories')}, {_plural(others, 'file', 'files')}"
        )


class _Tree:
    """Shows a tree as it is walked, with one path from the root in memory and no more."""

    def __init__(self, files: "Files", limit: int | None, *, as_json: bool) -> None:
        self._files = files
        self._limit = limit
        self._as_json = as_json
        self._directories = 0
        self._others = 0

    def show(self, top: str) -> tuple[int, int]:
        """Show all below the directory `top`; return how many directories and how many others there are.

        Raises SandboxError if `top` itself may not be listed; of those below it is remarked.
        """
        entries = self._files.scan(top)
        if not self._as_json:
            output.text(output.painted(printable(top), "cyan"))
        self._show(top, entries, "", 1)
        return self._directories, self._others

    def _descend(self, directory: str, indent: str, depth: int) -> None:
        try:
            entries = self._files.scan(directory)
        except SandboxError as error:
            if self._as_json:
                output.line({"path": directory, "error": {"code": error.code, "message": error.message}})
            else:
                output.text(f"{indent}└── {output.painted(f'[{printable(error.message)}]', 'red')}")
            return
        self._show(directory, entries, indent, depth)

    def _show(self, directory: str, found: list[DirEntry], indent: str, depth: int) -> None:
        entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            last = entry is entries[-1]
            path = _below(directory, entry.name)
            is_directory = modes.S_ISDIR(entry.type)
            if self._as_json:
                output.line({"path": path, "type": _kind(entry.type)})
            else:
                output.text(f"{indent}{'└── ' if last else '├── '}{_name(entry)}")
            self._directories += is_directory
            self._others += not is_directory
            if is_directory and (self._limit is None or depth < self._limit):
                self._descend(path, indent + ("    " if last else "│   "), depth + 1)


def _absolute(sandbox: "Sandbox", path: str) -> str:
    """Return the path that is meant, links followed; what is no path is left for the kernel to refuse."""
    return sandbox.files.resolve(
        path if path[:1] == "/" else f"{sandbox.session_path}/{path}" if path else ""
    )


def _below(directory: str, name: str) -> str:
    where = parse(directory)
    return f"/{name}" if where == ROOT else f"{where}/{name}"


def _glance(files: "Files", path: str) -> Stat | None:
    """Return the metadata, or None where the session may see no more than the name."""
    try:
        return files.stat(path)
    except SandboxError:
        return None


def _target(files: "Files", path: str) -> str | None:
    try:
        return files.read_link(path)
    except SandboxError:
        return None


def _is_link(kind: int) -> bool:
    return kind == modes.S_IFLNK


def _kind(mode: int) -> str:
    return _KINDS.get(modes.S_IFMT(mode), "other")


def _name(entry: DirEntry) -> str:
    name = printable(entry.name)
    if modes.S_ISDIR(entry.type):
        return output.painted(name, "cyan") + "/"
    return output.painted(name, "magenta") + "@" if _is_link(entry.type) else name


def _long(entry: DirEntry, found: Stat | None, target: str | None) -> tuple[str, ...]:
    name = entry.name + ("/" if modes.S_ISDIR(entry.type) else "") + (f" -> {target}" if target else "")
    if found is None:
        return (modes.filemode(entry.type)[0] + "?" * 9, "-", "-", name)
    return (modes.filemode(found.mode), output.size(found.size), _time(found.mtime_ns), name)


def _entry_json(entry: DirEntry, found: Stat | None, target: str | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": entry.name, "type": _kind(entry.type)}
    if found is not None:
        shown |= {
            "size": found.size,
            "mode": oct(modes.S_IMODE(found.mode)),
            "modified_at": _iso(found.mtime_ns),
        }
    return {**shown, "target": target} if _is_link(entry.type) else shown


def _tell(sandbox: "Sandbox", path: str) -> dict[str, Any]:
    where = _absolute(sandbox, path)
    found, place = sandbox.files.stat(where), parse(where)
    may: dict[str, bool] = {}
    if place.zone is not None:
        may = {str(right): sandbox.check_permission(right, where).allowed for right in Operation}
    return {
        "path": where,
        "zone": place.zone.value if place.zone else None,
        "type": _kind(found.mode),
        "size": found.size,
        "mode": oct(modes.S_IMODE(found.mode)),
        "links": found.nlink,
        "created_at": _iso(found.created_ns),
        "modified_at": _iso(found.mtime_ns),
        "accessed_at": _iso(found.atime_ns),
        "trust_level": str(sandbox.session.trust_level),
        "permitted": [right for right, allowed in may.items() if allowed],
    }


def _human(name: str, value: Any) -> str:
    if name == "size":
        return f"{output.size(value)} ({value} bytes)" if value >= 1024 else output.size(value)
    if isinstance(value, list):
        return ", ".join(value) or "nothing"
    return "-" if value is None else str(value)


def _iso(nanoseconds: int) -> str:
    from vfs.kernel.audit.entry import from_nanoseconds

    return from_nanoseconds(nanoseconds).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _time(nanoseconds: int) -> str:
    from vfs.kernel.audit.entry import from_nanoseconds

    return output.moment(from_nanoseconds(nanoseconds))


def _plural(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
