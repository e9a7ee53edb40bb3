"""The scripted model and the drivers, shown by real agents that do what the script says.

The agents run in a plain jail that sees the system read-only and can write under `tmp_path` alone.
"""

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from .drivers import AgentDriver, AgentMissingError, Claude, Codex, Outcome
from .model_server import Say, ScriptedModel, Step, ToolCall, ToolResult

SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc")


@dataclass(frozen=True)
class Jail:
    """Three directories: `home`, `project`, where the agent starts, and `tmp`."""

    root: Path

    @property
    def project(self) -> Path:
        return self.root / "project"

    def run(
        self, agent: AgentDriver, url: str, prompt: str = "do it", conversation: str | None = None
    ) -> Outcome:
        places = {"home": "/home/agent", "project": "/project", "tmp": "/tmp"}
        for name in places:
            (self.root / name).mkdir(exist_ok=True)
        agent.prepare_home(self.root / "home", url)
        env = {"HOME": "/home/agent", "PATH": "/usr/bin:/bin", **agent.env(url)}
        seen = [place for place in SYSTEM if Path(place).exists()]
        seen += [str(directory) for directory in agent.directories]
        command = [
            *("bwrap", "--unshare-all", "--share-net", "--die-with-parent", "--new-session", "--clearenv"),
            *("--proc", "/proc", "--dev", "/dev"),
            *(word for name, at in places.items() for word in ("--bind", str(self.root / name), at)),
            # After /tmp: the agents may be installed below it.
            *(word for place in seen for word in ("--ro-bind", place, place)),
            *(word for name, value in env.items() for word in ("--setenv", name, value)),
            *("--remount-ro", "/", "--chdir", "/project", "--"),
            *agent.command(prompt, conversation=conversation),
        ]
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
        )
        outcome = agent.outcome(ended.stdout)
        assert outcome.is_error == (ended.returncode != 0), ended
        return outcome


@pytest.fixture
def jail(tmp_path: Path) -> Jail:
    if shutil.which("bwrap") is None:
        pytest.skip("`bwrap` is not installed: install bubblewrap")
    return Jail(tmp_path)


def test_an_agent_follows_the_script(agent: AgentDriver, jail: Jail) -> None:
    steps: list[Step] = [
        agent.shell("echo made by a command > made; echo seen by the model"),
        agent.write("/project/deep/notes.txt", "one\ntwo\n"),
        agent.read("/project/deep/notes.txt"),
        agent.edit("/project/deep/notes.txt", "two", "three"),
        agent.shell("echo said in failing >&2; exit 3"),
        agent.read("/project/missing"),
        agent.write("/usr/refused", "no\n"),
        Say("all of it is done"),
    ]
    with ScriptedModel(steps) as model:
        outcome = jail.run(agent, model.url)

    assert (outcome.text, outcome.is_error) == ("all of it is done", False)
    assert (jail.project / "made").read_text() == "made by a command\n"
    assert (jail.project / "deep/notes.txt").read_text() == "one\nthree\n"
    results = model.tool_results
    assert [agent.failed(result) for result in results] == [False, False, False, False, True, True, True]
    assert "seen by the model" in results[0].text
    assert "one" in results[2].text
    assert "said in failing" in results[4].text
    asked = [request for request in model.requests if request.tools]
    assert [len(request.tool_results) for request in asked] == list(range(8))
    assert {request.path for request in model.requests} <= {"/v1/messages?beta=true", "/v1/responses"}


def test_a_resumed_agent_goes_on_with_another_model(agent: AgentDriver, jail: Jail) -> None:
    with ScriptedModel([agent.shell("echo first >> log"), Say("once")]) as model:
        first = jail.run(agent, model.url, "do it once")
    with ScriptedModel([agent.shell("echo second >> log"), Say("twice")]) as model:
        second = jail.run(agent, model.url, "do it twice", first.conversation)

    assert (first.text, second.text) == ("once", "twice")
    assert first.conversation == second.conversation is not None
    assert (jail.project / "log").read_text() == "first\nsecond\n"
    assert "do it once" in json.dumps(model.requests[-1].body)
    assert len(model.tool_results) == 1


def test_an_agent_whose_model_is_refused_reports_an_error(agent: AgentDriver, jail: Jail) -> None:
    refused = {"claude": "/elsewhere/v1/messages", "codex": "/elsewhere/v1/responses"}
    with ScriptedModel([Say("unheard")]) as model:
        outcome = jail.run(agent, f"{model.url}/elsewhere")
    assert outcome.is_error
    assert outcome.text
    assert {request.path.partition("?")[0] for request in model.requests} == {refused[agent.program]}


@pytest.mark.parametrize("driver", [Claude(Path("/x/claude")), Codex(Path("/x/codex"))])
def test_a_run_that_was_cut_off_is_an_error(driver: AgentDriver) -> None:
    assert driver.outcome("warning: x\n") == Outcome("warning: x\n", is_error=True, conversation=None)


def test_a_missing_agent_is_named_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AgentMissingError, match="`claude` is not installed: run scripts/install-agents"):
        Claude.find(tmp_path)


def test_codex_without_node_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "codex.js"
    script.touch(mode=0o755)
    (tmp_path / "codex").symlink_to(script)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AgentMissingError, match=r"`node`.* is not installed"):
        Codex.find(tmp_path)


def ask(model: ScriptedModel, path: str, body: Mapping[str, Any]) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", model.port, timeout=10)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


USER = {"role": "user", "content": "do it"}
NOTE = {"role": "user", "content": "<system-reminder>be brief</system-reminder>"}
CHAT_TOOLS = [{"type": "function", "function": {"name": "run"}}]
CHAT_RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "ran"}


def test_chat_completions_say_the_same_streamed_and_whole() -> None:
    body = {"messages": [USER], "tools": CHAT_TOOLS}
    with ScriptedModel([ToolCall("run", {"what": "make"})]) as model:
        _, streamed = ask(model, "/v1/chat/completions", {**body, "stream": True})
        _, whole = ask(model, "/v1/chat/completions", body)
    first, end = (line.removeprefix("data: ") for line in streamed.split("\n\n") if line)
    assert end == "[DONE]"
    called = [
        json.loads(first)["choices"][0]["delta"]["tool_calls"][0],
        json.loads(whole)["choices"][0]["message"]["tool_calls"][0],
    ]
    assert [json.loads(call["function"]["arguments"]) for call in called] == [{"what": "make"}] * 2
    assert called[0]["id"] != called[1]["id"]


def test_steps_are_counted_from_the_last_words_of_the_user() -> None:
    steps = [Say("first"), Say("second")]
    with ScriptedModel(steps) as model:

        def said(*messages: Mapping[str, str]) -> object:
            _, text = ask(model, "/v1/chat/completions", {"messages": messages, "tools": CHAT_TOOLS})
            return json.loads(text)["choices"][0]["message"]["content"]

        assert said(USER) == "first"
        assert said(USER, CHAT_RESULT) == "second"
        assert said(USER, CHAT_RESULT, NOTE) == "second"
        assert said(USER, CHAT_RESULT, USER) == "first"
        assert said(USER, CHAT_RESULT, CHAT_RESULT) == "the script is over"
    assert model.tool_results == (ToolResult("call_1", "ran"),)


def test_a_request_without_tools_does_not_use_up_the_script() -> None:
    with ScriptedModel([ToolCall("run", {})]) as model:
        _, text = ask(model, "/v1/messages", {"messages": [USER]})
    assert [block["type"] for block in json.loads(text)["content"]] == ["text"]


def test_tokens_are_counted() -> None:
    with ScriptedModel([]) as model:
        assert ask(model, "/v1/messages/count_tokens", {"messages": [USER]}) == (200, '{"input_tokens": 1}')


def test_an_address_that_is_none_of_the_three_is_refused_and_recorded() -> None:
    with ScriptedModel([]) as model:
        status, text = ask(model, "/v1/other", {})
    assert (status, model.requests[0].path) == (404, "/v1/other")
    assert "`/v1/other`" in text


def test_a_failure_inside_the_server_reaches_the_agent_and_the_test() -> None:
    model = ScriptedModel([ToolCall("patch", "free-form")])
    status, text = ask(model, "/v1/chat/completions", {"messages": [USER], "tools": CHAT_TOOLS})
    assert status == 400
    assert "only the responses API has free-form tools" in text
    with pytest.raises(ExceptionGroup, match="the scripted model failed"):
        model.close()


def test_closing_hangs_up_on_a_client_that_keeps_its_connection() -> None:
    model = ScriptedModel([])
    connection = HTTPConnection("127.0.0.1", model.port, timeout=10)
    connection.request("GET", "/")
    assert connection.getresponse().read()
    model.close()
    assert connection.sock.recv(1) == b""
    connection.close()
