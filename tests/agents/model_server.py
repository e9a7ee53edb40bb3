"""A model that follows a script, spoken to in the three languages that agents speak.

    with ScriptedModel([ToolCall("Bash", {"command": "make"}), Say("built")]) as model:
        ...start an agent with its API address set to `model.url`...
    assert "built" in model.tool_results[0].text

| API | address | who speaks it |
|---|---|---|
| messages | `POST {url}/v1/messages`, `…/count_tokens` | Claude Code |
| responses | `POST {url}/v1/responses` | Codex |
| chat completions | `POST {url}/v1/chat/completions` | opencode, pi and most others |

The model keeps no state between requests: an agent sends the whole conversation every time, and the step
to answer with is the number of tool results since the last words of the user. So a resumed conversation,
a retried request and a subagent each find their place. Ids of tool calls are unique across servers, since
an agent that resumes a conversation drops an id that it has seen. A request that offers no tools is not
part of the work (an agent asks for a title or a topic) and is answered with plain words.
"""

import contextlib
import json
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

__all__ = ["Request", "Say", "ScriptedModel", "Step", "ToolCall", "ToolResult"]

_OVER = "the script is over"
_ASIDE = "a scripted conversation"
_NOTES = ("<system-reminder>", "<environment_context>")
"""How text begins that an agent itself puts into the user's mouth, at times in the middle of its work."""


@dataclass(frozen=True)
class ToolCall:
    """The model calls the agent's tool `name`.

    A mapping of `arguments` is a function call. A string is the input of a free-form tool, which only the
    responses API has.
    """

    name: str
    arguments: Mapping[str, object] | str


@dataclass(frozen=True)
class Say:
    """The model says `text` and leaves it at that, which ends an agent's turn."""

    text: str


Step = ToolCall | Say


@dataclass(frozen=True)
class ToolResult:
    """What a tool gave back, as the model saw it.

    `is_error` is the agent's own mark; only the messages API has one, elsewhere it is False and the text
    has to tell.
    """

    call_id: str
    text: str
    is_error: bool = False


@dataclass(frozen=True)
class Request:
    """One request, as it arrived.

    `tools` are the names the agent offers, `tool_results` those since the last words of the user; both are
    empty where the address is none of the three APIs. Header names are in lower case.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any] = field(default_factory=dict)
    tools: tuple[str, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()


class ScriptedModel:
    """Serves `steps` on 127.0.0.1 at a port of its own, from construction or `with` until `close`.

    Any number of agents may talk to it at once. `requests` and `tool_results` may be read from any thread
    and while it serves.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def url(self) -> str:
        """The server's root, without a trailing slash and without `/v1`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def requests(self) -> tuple[Request, ...]:
        """Every request so far, in order of arrival."""
        with self._lock:
            return tuple(self._requests)

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """Every tool result that the model was ever shown, once each, in the order it first saw them."""
        seen: dict[str, ToolResult] = {}
        for request in self.requests:
            for result in request.tool_results:
                seen.setdefault(result.call_id, result)
        return tuple(seen.values())

    def step(self, request: Request) -> Step:
        """Return the answer to `request`; past the end of the script, words that say so."""
        if not request.tools:
            return Say(_ASIDE)
        index = len(request.tool_results)
        return self.steps[index] if index < len(self.steps) else Say(_OVER)

    def record(self, request: Request) -> None:
        with self._lock:
            self._requests.append(request)

    def close(self) -> None:
        """Hang up on every client and stop; raises what went wrong inside the server, if anything did."""
        self._server.shutdown()
        self._thread.join()
        self._server.hang_up()
        self._server.server_close()
        if self._server.failures:
            raise ExceptionGroup("the scripted model failed", self._server.failures)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_Event = tuple[str | None, dict[str, Any] | str]
_Reading = tuple[tuple[str, ...], tuple[ToolResult, ...]]


@dataclass(frozen=True)
class _Api:
    """One language: how a request is read, and how a step is said at once or as events.

    `read` takes a body and returns the tools it offers and the tool results since the user's last words.
    The second argument of the others is a key that no other answer has.
    """

    read: Callable[[dict[str, Any]], _Reading]
    whole: Callable[[Step, str], dict[str, Any]]
    events: Callable[[Step, str], Iterator[_Event]]


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, model: ScriptedModel) -> None:
        self.model = model
        self.failures: list[Exception] = []
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if isinstance(error, Exception) and not isinstance(error, ConnectionError):
            self.failures.append(error)

    def hang_up(self) -> None:
        """End the connections that clients keep alive; their threads then end by themselves."""
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):  # the client was faster
                    connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        try:
            self._answer(json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}"))
        except ConnectionError:
            raise
        except Exception as error:
            # An agent gives up on a 400 at once; it would try again, for minutes, on anything else.
            self.server.failures.append(error)
            self._refuse(400, f"the scripted model failed: {error!r}")

    def _answer(self, body: dict[str, Any]) -> None:
        api = _APIS.get(urlsplit(self.path).path)
        tools, results = api.read(body) if api else ((), ())
        request = self._record(body, tools, results)
        if api is None:
            self._refuse(404, f"the scripted model does not serve `{self.path}`")
            return
        step, key = self.server.model.step(request), uuid.uuid4().hex
        if body.get("stream"):
            self._send(200, "text/event-stream", "".join(map(_sse, api.events(step, key))))
        else:
            self._send(200, "application/json", json.dumps(api.whole(step, key)))

    def do_GET(self) -> None:
        self._record({}, (), ())
        self._refuse(404, f"the scripted model does not serve `{self.path}`")

    do_HEAD = do_GET

    def _record(
        self, body: dict[str, Any], tools: tuple[str, ...], results: tuple[ToolResult, ...]
    ) -> Request:
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, body, tools, results)
        self.server.model.record(request)
        return request

    def _refuse(self, status: int, message: str) -> None:
        error = {"type": "invalid_request_error", "message": message}
        self._send(status, "application/json", json.dumps({"type": "error", "error": error}))

    def _send(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
        """Stay quiet: `ScriptedModel.requests` is the log."""


def _sse(event: tuple[str | None, dict[str, Any] | str]) -> str:
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


def _read_messages(body: dict[str, Any]) -> _Reading:
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


def _message_events(step: Step, key: str) -> Iterator[_Event]:
    whole = _message(step, key)
    (block,) = whole["content"]
    if isinstance(step, Say):
        empty, delta = block | {"text": ""}, {"type": "text_delta", "text": step.text}
    else:
        empty = block | {"input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(_arguments(step))}
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    for event in (
        {"type": "message_start", "message": whole | {"content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ):
        yield event["type"], event


def _token_count(_step: Step, _key: str) -> dict[str, Any]:
    return {"input_tokens": 1}


# responses


def _read_responses(body: dict[str, Any]) -> _Reading:
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


def _response_events(step: Step, key: str) -> Iterator[_Event]:
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


def _read_chat(body: dict[str, Any]) -> _Reading:
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


def _chat_events(step: Step, key: str) -> Iterator[_Event]:
    yield None, _chat(step, key, streamed=True)
    yield None, "[DONE]"


_APIS: Mapping[str, _Api] = {
    "/v1/messages": _Api(_read_messages, _message, _message_events),
    "/v1/messages/count_tokens": _Api(_read_messages, _token_count, _message_events),
    "/v1/responses": _Api(_read_responses, _response, _response_events),
    "/v1/chat/completions": _Api(_read_chat, _chat, _chat_events),
}
