"""All tools of one sandbox, called by name: what an agent loop, or a server for one, holds on to.

Nothing here knows a protocol; `formats` speaks those of model providers.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from vfs.kernel.sandbox import Sandbox
from vfs_tools.functions.approval import PRE_APPROVED
from vfs_tools.functions.limits import ToolLimits
from vfs_tools.functions.listing import GlobTool, ListFiles
from vfs_tools.functions.reading import FileInfoTool, ReadBytes, ReadFile
from vfs_tools.functions.results import ApprovalResult, Refusal, Result
from vfs_tools.functions.searching import Search
from vfs_tools.functions.staging import ListStaged, StageForCommit
from vfs_tools.functions.tool import Tool
from vfs_tools.functions.writing import Delete, EditFile, MakeDir, Move, WriteFile

__all__ = ["SandboxToolset", "create_filesystem_tools"]

_TOOLS: tuple[type[Tool[Any]], ...] = (
    # The seed's four first, then what agents have come to expect.
    ReadFile, WriteFile, ListFiles, StageForCommit,
    EditFile, Search, GlobTool, ReadBytes, FileInfoTool, MakeDir, Move, Delete, ListStaged,
)  # fmt: skip


def create_filesystem_tools(
    sandbox: Sandbox, *, limits: ToolLimits | None = None, face: str = "tool"
) -> list[Tool[Any]]:
    """Return the tools of a sandbox (seed 001, createFilesystemTools).

    What they do is recorded under `face`. They follow the session: after a promotion or demotion the same
    tools are judged by the new trust level.
    """
    seen = sandbox.through(face)
    return [tool(seen, limits or ToolLimits()) for tool in _TOOLS]


class SandboxToolset:
    """The tools of a sandbox by name (seed 001, SandboxToolset). Thread-safe."""

    def __init__(self, sandbox: Sandbox, *, limits: ToolLimits | None = None, face: str = "tool") -> None:
        tools = create_filesystem_tools(sandbox, limits=limits, face=face)
        self._tools: Mapping[str, Tool[Any]] = MappingProxyType({tool.name: tool for tool in tools})

    def get_tools(self) -> list[Tool[Any]]:
        """Return the tools, always the same and in the same order."""
        return list(self._tools.values())

    def needs_approval(self, name: str, args: Mapping[str, Any]) -> ApprovalResult:
        """Tell whether a call may be made; an unknown name is pre-approved (seed 001): it can do nothing."""
        tool = self._tools.get(name)
        return PRE_APPROVED if tool is None else tool.needs_approval(args)

    def get_approval_description(self, name: str, args: Mapping[str, Any]) -> str:
        """Return what a person is shown who has to approve the call."""
        tool = self._tools.get(name)
        return f"Execute {name}" if tool is None else tool.get_approval_description(args)

    def execute(self, name: str, args: Mapping[str, Any]) -> Result:
        """Call a tool and return its result, or a refusal; asks no approval, that is the caller's part."""
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(f"`{known}`" for known in self._tools)
            return Refusal(f"there is no tool `{name}`", f"the tools are {known}", "UNKNOWN_TOOL")
        return tool.execute(args)

    async def aexecute(self, name: str, args: Mapping[str, Any]) -> Result:
        """Do as `execute` in a worker thread; needs a running asyncio loop.

        A call that is cancelled is no longer waited for, but what it does is done to its end.
        """
        import asyncio

        return await asyncio.to_thread(self.execute, name, args)
