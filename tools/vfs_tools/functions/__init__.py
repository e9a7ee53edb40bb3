"""Tool functions for models that call tools (seed 001, Filesystem Tools).

    toolset = SandboxToolset(sandbox)
    response = client.messages.create(…, tools=anthropic_tools(toolset))
    answers = [run_anthropic(toolset, block) for block in response.content if block.type == "tool_use"]

Every call goes through the sandbox, under the face `tool` on the audit log.
"""

from vfs_tools.functions.formats import (
    anthropic_tools,
    arun_anthropic,
    arun_openai,
    openai_tools,
    run_anthropic,
    run_openai,
)
from vfs_tools.functions.limits import ToolLimits
from vfs_tools.functions.results import ApprovalResult, Refusal, Result
from vfs_tools.functions.tool import Tool
from vfs_tools.functions.toolset import SandboxToolset, create_filesystem_tools

__all__ = [
    "ApprovalResult",
    "Refusal",
    "Result",
    "SandboxToolset",
    "Tool",
    "ToolLimits",
    "anthropic_tools",
    "arun_anthropic",
    "arun_openai",
    "create_filesystem_tools",
    "openai_tools",
    "run_anthropic",
    "run_openai",
]
