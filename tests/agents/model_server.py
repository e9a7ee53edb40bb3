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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from .apis import APIS, sse
from .script import Say, Step, ToolCall, ToolResult

__all__ = ["Request", "Say", "ScriptedModel", "Step", "ToolCall", "ToolResult"]

_OVER = "the script is over"
_ASIDE = "a scripted conversation"


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
            # An agent soon gives up on a 400; on a server's error it would go on trying for minutes.
            self.server.failures.append(error)
            self._refuse(400, f"the scripted model failed: {error!r}")

    def _answer(self, body: dict[str, Any]) -> None:
        api = APIS.get(urlsplit(self.path).path)
        tools, results = api.read(body) if api else ((), ())
        request = self._record(body, tools, results)
        if api is None:
            self._refuse(404, f"the scripted model does not serve `{self.path}`")
            return
        step, key = self.server.model.step(request), uuid.uuid4().hex
        if body.get("stream"):
            self._send(200, "text/event-stream", "".join(map(sse, api.events(step, key))))
        else:
            self._send(200, "application/json", json.dumps(api.whole(step, key)))

    def do_GET(self) -> None:
        self._record({}, (), ())
        self._refuse(404, f"the scripted model does not serve `{self.path}`")

    def do_HEAD(self) -> None:
        self.do_GET()

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
