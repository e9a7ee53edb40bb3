"""The toolset in the forms of model providers: tool definitions out, calls in, results back.

Calls are taken as plain mappings, as JSON brings them, or as the objects of the providers' own libraries,
which have the same names as attributes. What is wrong with a call becomes a result that the model can read.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

from vfs_tools.functions.results import Result
from vfs_tools.functions.tool import invalid_arguments
from vfs_tools.functions.toolset import SandboxToolset

__all__ = [
    "anthropic_tools",
    "arun_anthropic",
    "arun_openai",
    "openai_tools",
    "run_anthropic",
    "run_openai",
]


def anthropic_tools(toolset: SandboxToolset) -> list[dict[str, Any]]:
    """Return the tools for Anthropic's Messages API."""
    return [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema()}
        for tool in toolset.get_tools()
    ]


def openai_tools(
    toolset: SandboxToolset, api: Literal["chat", "responses"] = "chat", *, strict: bool = True
) -> list[dict[str, Any]]:
    """Return the tools for OpenAI's Chat Completions or Responses API.

    With `strict` the schemas obey strict mode: every parameter is required, an optional one may be null.
    """
    functions = [
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.schema(strict=strict),
            "strict": strict,
        }
        for tool in toolset.get_tools()
    ]
    match api:
        case "chat":
            return [{"type": "function", "function": function} for function in functions]
        case "responses":
            return [{"type": "function", **function} for function in functions]
        case _:
            raise ValueError(f"`{api}` is not an API of OpenAI's; `chat` and `responses` are")


def run_anthropic(toolset: SandboxToolset, block: object) -> dict[str, Any]:
    """Execute a `tool_use` block and return the `tool_result` block that answers it."""
    call = _Call(_get(block, "name"), _get(block, "input"))
    return _tool_result(block, call.refusal or toolset.execute(call.name, call.args))


async def arun_anthropic(toolset: SandboxToolset, block: object) -> dict[str, Any]:
    """Do as `run_anthropic` in a worker thread."""
    call = _Call(_get(block, "name"), _get(block, "input"))
    return _tool_result(block, call.refusal or await toolset.aexecute(call.name, call.args))


def run_openai(toolset: SandboxToolset, call: object) -> dict[str, Any]:
    """Execute a tool call of either OpenAI API and return the message or item that answers it.

    Chat Completions: an entry of `tool_calls` gives a `tool` message. Responses: a `function_call` item gives
    a `function_call_output` item.
    """
    found = _openai_call(call)
    return _openai_answer(call, found.refusal or toolset.execute(found.name, found.args))


async def arun_openai(toolset: SandboxToolset, call: object) -> dict[str, Any]:
    """Do as `run_openai` in a worker thread."""
    found = _openai_call(call)
    return _openai_answer(call, found.refusal or await toolset.aexecute(found.name, found.args))


class _Call:
    """A tool's name and arguments, or the refusal of what are none."""

    def __init__(self, name: object, args: object) -> None:
        self.name = str(name)
        self.args: Mapping[str, Any] = {}
        self.refusal: Result | None = None
        if isinstance(args, (str, bytes)):
            try:
                args = json.loads(args) if args.strip() else {}
            except ValueError as error:
                self.refusal = invalid_arguments(
                    f"the arguments of `{self.name}` are not JSON: {error}",
                    "call it again with a JSON object",
                )
                return
            except RecursionError:
                args = None
        if isinstance(args, Mapping):
            self.args = args
        else:
            self.refusal = invalid_arguments(
                f"the arguments of `{self.name}` are not a JSON object", "call it again with a JSON object"
            )


def _get(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _openai_call(call: object) -> _Call:
    function = _get(call, "function") if _get(call, "type") == "function" else call
    return _Call(_get(function, "name"), _get(function, "arguments"))


def _openai_answer(call: object, result: Result) -> dict[str, Any]:
    if _get(call, "type") == "function":
        return {"role": "tool", "tool_call_id": _get(call, "id"), "content": _json(result)}
    return {"type": "function_call_output", "call_id": _get(call, "call_id"), "output": _json(result)}


def _tool_result(block: object, result: Result) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "tool_use_id": _get(block, "id"),
        "content": _json(result),
        "is_error": not result.success,
    }


def _json(result: Result) -> str:
    return json.dumps(result.to_dict(), ensure_ascii=False)
