"""vfs: a sandbox kernel for AI agents.

    import vfs

    with vfs.open_sandbox("path/to/project", trust_level="workspace") as sandbox:
        sandbox.write("notes.md", "what I found")          # /session/working/notes.md
        readme = sandbox.read("/repo/README.md")

One virtual tree of five zones, four trust levels, every access through one door and on the audit log. The
names below are the public API; they are loaded when first used, so that `import vfs` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vfs.kernel.audit import AuditEntry as AuditEntry
    from vfs.kernel.audit import AuditFilter as AuditFilter
    from vfs.kernel.audit import AuditLog as AuditLog
    from vfs.kernel.kernel import Kernel as Kernel
    from vfs.kernel.sandbox import FileStat as FileStat
    from vfs.kernel.sandbox import Sandbox as Sandbox
    from vfs.kernel.sessions import Session as Session
    from vfs.kernel.sessions import SourceContext as SourceContext
    from vfs.kernel.staging import StagedCommit as StagedCommit
    from vfs.kernel.staging import StagedFile as StagedFile
    from vfs.kernel.staging import StageRequest as StageRequest
    from vfs.kernel.trust import Operation as Operation
    from vfs.kernel.trust import TrustLevel as TrustLevel
    from vfs.kernel.zones import Zone as Zone
    from vfs.project import memory_sandbox as memory_sandbox
    from vfs.project import open_project as open_project
    from vfs.project import open_sandbox as open_sandbox

__version__ = "0.1.0"

_HOME = {
    "AuditEntry": "vfs.kernel.audit",
    "AuditFilter": "vfs.kernel.audit",
    "AuditLog": "vfs.kernel.audit",
    "FileStat": "vfs.kernel.sandbox",
    "Kernel": "vfs.kernel.kernel",
    "Operation": "vfs.kernel.trust",
    "Sandbox": "vfs.kernel.sandbox",
    "Session": "vfs.kernel.sessions",
    "SourceContext": "vfs.kernel.sessions",
    "StageRequest": "vfs.kernel.staging",
    "StagedCommit": "vfs.kernel.staging",
    "StagedFile": "vfs.kernel.staging",
    "TrustLevel": "vfs.kernel.trust",
    "Zone": "vfs.kernel.zones",
    "memory_sandbox": "vfs.project",
    "open_project": "vfs.project",
    "open_sandbox": "vfs.project",
}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604 (the names are strings, taken from the table)


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used (PEP 562)."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module `vfs` has no attribute `{name}`")


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
