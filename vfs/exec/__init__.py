"""Where commands run: providers, the jail, and one command's life from the mount to the summary (seed 000).

- `SandboxService` runs commands in a session, `run` one command with this process's streams and signals;
- `provider` returns a provider by name; `vfs.exec.ports` says what one is.

The names are loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vfs.exec.foreground import Report as Report
    from vfs.exec.foreground import run as run
    from vfs.exec.providers import provider as provider
    from vfs.exec.service import ExecOptions as ExecOptions
    from vfs.exec.service import ExecResult as ExecResult
    from vfs.exec.service import SandboxService as SandboxService
    from vfs.exec.summary import Summary as Summary
    from vfs.exec.summary import render as render

_HOME = {
    "ExecOptions": "vfs.exec.service",
    "ExecResult": "vfs.exec.service",
    "Report": "vfs.exec.foreground",
    "SandboxService": "vfs.exec.service",
    "Summary": "vfs.exec.summary",
    "provider": "vfs.exec.providers",
    "render": "vfs.exec.summary",
    "run": "vfs.exec.foreground",
}

__all__ = [*_HOME]  # noqa: PLE0604 (the names are strings, taken from the table)


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used (PEP 562)."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module `vfs.exec` has no attribute `{name}`")
