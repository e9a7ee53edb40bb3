"""Which files a session has changed in the end, read off its audit entries in order."""

from collections.abc import Iterable

from vfs.kernel.audit import AuditEntry

__all__ = ["net_changes"]

_MAKES = frozenset({"create", "mknod", "symlink", "link"})
_FINISHED = frozenset({"ok", "pending", "interrupted"})


def net_changes(entries: Iterable[AuditEntry]) -> dict[str, str]:
    """Return `created`, `updated` or `deleted` by virtual path, in the order of first touch.

    A file that was made and removed again has not changed, one that was replaced has been updated. Directories
    as such, times and modes are left out. What was under way when its process died counts as done.
    """
    changes = _Changes()
    for entry in entries:
        if entry.allowed and entry.path is not None and entry.outcome in _FINISHED:
            changes.take(entry, entry.path)
    return changes.states


class _Changes:
    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self._before: dict[str, str | None] = {}

    def take(self, entry: AuditEntry, path: str) -> None:
        if entry.action == "rename":
            self._rename(entry, path)
        elif entry.operation == "write" and entry.action in _MAKES:
            self._appears(path)
        elif entry.operation == "write" and (entry.action == "write" or entry.first_write is not None):
            self.states.setdefault(path, "updated")
            if self.states[path] == "deleted":
                self.states[path] = "updated"
        elif entry.operation == "delete" and entry.action == "unlink":
            self._disappears(path)

    def _appears(self, path: str) -> None:
        if self.states.get(path) in ("deleted", "updated"):
            self.states[path] = "updated"
        else:
            self.states[path] = "created"

    def _disappears(self, path: str) -> None:
        if self.states.get(path) == "created":
            del self.states[path]
        else:
            self.states[path] = "deleted"

    def _rename(self, entry: AuditEntry, path: str) -> None:
        """A move is a deletion and a writing; one more deletion says that something was replaced."""
        metadata = entry.metadata or {}
        source, target = str(metadata.get("source")), str(metadata.get("target"))
        if entry.operation == "delete" and path == source:
            self._disappears(source)
            for inner in [name for name in self.states if name.startswith(f"{source}/")]:
                self.states[f"{target}/{inner[len(source) + 1 :]}"] = self.states.pop(inner)
        elif entry.operation == "write" and path == target:
            self._before[target] = self.states.get(target)
            self._appears(target)
        elif entry.operation == "delete":
            if self._before.pop(target, None) != "created":
                self.states[target] = "updated"
        else:
            self.states[path] = "updated"
