"""The three languages that agents speak with models: how requests are read and steps are said."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .script import Say, Step, ToolCall, ToolResult

__all__ = ["APIS", "Api", "sse"]

_NOTES = ("<system-reminder>", "<environment_context>")
"""How text begins that an agent itself puts into the user's mouth, at times in the middle of its work."""

Event = tuple[str | None, dict[str, Any] | str]
"""A server-sent event: its name, where the language names events, and its data."""

Reading = tuple[tuple[str, ...], tuple[ToolResult, ...]]
"""What a request says: the tools it offers, and the tool results since the user's last words."""


@dataclass(frozen=True)
class Api:
    """One language: how a request is read, and how a step is said at once or as events.

    The second argument of `whole` and `events` is a key that no other answer has.
    """

    read: Callable[[dict[str, Any]], Reading]
    whole: Callable[[Step, str], dict[str, Any]]
    events: Callable[[Step, str], Iterator[Event]]


def sse(event: Event) -> str:
    """Return `event`, a name or None and its data, as a server-sent event."""
    name, data = event
    text = data if isinstance(data, str) else json.dumps(data)
    return f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n"


def _text(content: Any) -> str:
    """Return the words in a string, or in a list of blocks of any of the APIs."""
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content or ())


def _is_from_user(content: Any) -> bool:
    """Whether any of the words under the user's name are not a note of the agent's own."""
    blocks = [content] if isinstance(content, str) else [_text([block]) for block in content or ()]
    return any(text and not text.lstrip().startswith(_NOTES) for text in blocks)


def _arguments(call: ToolCall) -> Mapping[str, object]:
    if isinstance(call.arguments, str):
        raise TypeError(f"only the responses API has free-form tools: `{call.name}`")
    return call.arguments


# messages


def _read_messages(body: dict[str, Any]) -> Reading:
    results: list[ToolResult] = []
    for message in body["messages"]:
        content = message["content"]
        found = [
            ToolResult(block["tool_use_id"], _text(block.get("content")), bool(block.get("is_error")))
            for block in (() if isinstance(content, str) else content)
            if block["type"] == "tool_result"
        ]
        if message["role"] == "user" and not found and _is_from_user(content):
            results.clear()
        results += found
    return tuple(tool["name"] for tool in body.get("tools") or ()), tuple(results)


def _message(step: Step, key: str) -> dict[str, Any]:
    if isinstance(step, Say):
        block: dict[str, Any] = {"type": "text", "text": step.text}
    else:
        block = {"type": "tool_use", "id": f"toolu_{key}", "name": step.name, "input": _arguments(step)}
    return {
        "id": f"msg_{key}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [block],
        "stop_reason": "end_turn" if isinstance(step, Say) else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _message_events(step: Step, key: str) -> Iterator[Event]:
    whole = _message(step, key)
    (block,) = whole["content"]
    if isinstance(step, Say):
        empty, delta = block | {"text": ""}, {"type": "text_delta", "text": step.text}
    else:
        empty = block | {"input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(_arguments(step))}
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events: tuple[dict[str, Any], ...] = (
        {"type": "message_start", "message": whole | {"content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    )
    for event in events:
        yield event["type"], event


def _token_count(_step: Step, _key: str) -> dict[str, Any]:
    return {"input_tokens": 1}


# responses


def _read_responses(body: dict[str, Any]) -> Reading:
    results: list[ToolResult] = []
    for item in () if isinstance(body["input"], str) else body["input"]:
        if item.get("role") == "user":
            if _is_from_user(item["content"]):
                results.clear()
        elif item["type"] in ("function_call_output", "custom_tool_call_output"):
            results.append(ToolResult(item["call_id"], _text(item["output"])))
    return tuple(tool.get("name", tool["type"]) for tool in body.get("tools") or ()), tuple(results)


def _response_item(step: Step, key: str) -> dict[str, Any]:
    if isinstance(step, Say):
        text = {"type": "output_text", "text": step.text, "annotations": []}
        return {"type": "message", "id": f"msg_{key}", "role": "assistant", "content": [text]}
    call = {"call_id": f"call_{key}", "name": step.name, "status": "completed"}
    if isinstance(step.arguments, str):
        return {"type": "custom_tool_call", "id": f"ctc_{key}", "input": step.arguments} | call
    return {"type": "function_call", "id": f"fc_{key}", "arguments": json.dumps(step.arguments)} | call


def _response(step: Step, key: str) -> dict[str, Any]:
    usage = {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2,
    }
    output = [_response_item(step, key)]
    return {
        "id": f"resp_{key}",
        "object": "response",
        "status": "completed",
        "output": output,
        "usage": usage,
    }


def _response_events(step: Step, key: str) -> Iterator[Event]:
    whole = _response(step, key)
    (item,) = whole["output"]
    started = whole | {"status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"type": "response.created", "response": started}
    yield (
        "response.output_item.done",
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    )
    yield "response.completed", {"type": "response.completed", "response": whole}


# chat completions


def _read_chat(body: dict[str, Any]) -> Reading:
    results: list[ToolResult] = []
    for message in body["messages"]:
        if message["role"] == "user" and _is_from_user(message["content"]):
            results.clear()
        elif message["role"] == "tool":
            results.append(ToolResult(message["tool_call_id"], _text(message["content"])))
    return tuple(tool["function"]["name"] for tool in body.get("tools") or ()), tuple(results)


def _chat(step: Step, key: str, *, streamed: bool = False) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if isinstance(step, Say):
        message["content"] = step.text
    else:
        function = {"name": step.name, "arguments": json.dumps(_arguments(step))}
        message["tool_calls"] = [{"index": 0, "id": f"call_{key}", "type": "function", "function": function}]
    choice = {
        "index": 0,
        "delta" if streamed else "message": message,
        "finish_reason": "stop" if isinstance(step, Say) else "tool_calls",
    }
    return {
        "id": f"chatcmpl-{key}",
        "object": "chat.completion.chunk" if streamed else "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [choice],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _chat_events(step: Step, key: str) -> Iterator[Event]:
    yield None, _chat(step, key, streamed=True)
    yield None, "[DONE]"


APIS: Mapping[str, Api] = {
    "/v1/messages": Api(_read_messages, _message, _message_events),
    "/v1/messages/count_tokens": Api(_read_messages, _token_count, _message_events),
    "/v1/responses": Api(_read_responses, _response, _response_events),
    "/v1/chat/completions": Api(_read_chat, _chat, _chat_events),
}
