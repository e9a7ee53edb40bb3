"""How to start each real agent, what it calls its tools, and how to read what it prints.

| agent | reads outside HOME | writes outside HOME and the working directory |
|---|---|---|
| Claude Code | its one executable, `/etc` | `/tmp`, which has to be there and writable |
| Codex | its packages, node, `/etc` | nothing |

Both need bash, and the usual commands beside it, on PATH. Neither asks anything of any host but the model's
when started with `env` and `prepare_home` from here. Start them with standard input at /dev/null.
"""

import json
import os
import shlex
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from .model_server import ToolCall, ToolResult

__all__ = ["AgentDriver", "AgentMissingError", "Claude", "Codex", "Outcome"]

PROJECT = Path(__file__).resolve().parents[2]


class AgentMissingError(Exception):
    """An agent, or what it runs on, is not installed; the message is what is missing and what installs it."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended: the agent's last words, whether it failed, and the conversation to resume.

    An agent that ended without saying how has failed, and `text` is then all it printed.
    """

    text: str
    is_error: bool
    conversation: str | None


@dataclass(frozen=True)
class AgentDriver(ABC):
    """One installed agent.

    `executable` is the real file, with no link on the way. Paths given to the tool calls are those that the
    agent sees; absolute ones work with every agent.
    """

    executable: Path

    program: ClassVar[str]
    """The command's name on PATH."""

    @classmethod
    def find(cls, project: Path = PROJECT) -> Self:
        """Return the driver of the agent in `project`/.agents, else of the one on PATH.

        Raises AgentMissingError where there is neither.
        """
        places = os.pathsep.join([str(project / ".agents/node_modules/.bin"), os.environ.get("PATH", "")])
        found = shutil.which(cls.program, path=places)
        if found is None:
            raise AgentMissingError(f"`{cls.program}` is not installed: run scripts/install-agents")
        return cls(Path(found).resolve())

    @property
    @abstractmethod
    def directories(self) -> tuple[Path, ...]:
        """The directories that have to be readable, at the same path, for the executable to run."""

    @abstractmethod
    def command(self, prompt: str, *, conversation: str | None = None) -> list[str]:
        """Return the arguments, program first, of a run that answers `prompt` and ends.

        With `conversation`, from the Outcome of an earlier run with the same HOME and working directory, it
        goes on from there.
        """

    @abstractmethod
    def env(self, url: str) -> dict[str, str]:
        """Return the variables that lead to the model at `url`; HOME and PATH are the caller's."""

    @abstractmethod
    def prepare_home(self, home: Path, url: str) -> None:
        """Write the files which the agent has to find in its HOME, an existing directory, to use `url`."""

    @abstractmethod
    def shell(self, command: str) -> ToolCall:
        """Run `command` with bash in the working directory."""

    @abstractmethod
    def read(self, path: str) -> ToolCall:
        """Read the text file at `path`; the result has its lines in it, and more."""

    @abstractmethod
    def write(self, path: str, text: str) -> ToolCall:
        """Create or replace the file at `path`, and directories above it; `text` has to be whole lines."""

    @abstractmethod
    def edit(self, path: str, old: str, new: str) -> ToolCall:
        """Replace the line `old`, which there is once in the file at `path`, by the line `new`."""

    @abstractmethod
    def failed(self, result: ToolResult) -> bool:
        """Whether `result` tells the model that the tool, or the command it ran, failed."""

    @abstractmethod
    def outcome(self, output: str) -> Outcome:
        """Read what a run printed on standard output."""


class Claude(AgentDriver):
    """Claude Code, a single executable."""

    program = "claude"

    @property
    def directories(self) -> tuple[Path, ...]:
        return (self.executable.parent,)

    def command(self, prompt: str, *, conversation: str | None = None) -> list[str]:
        resume = ["--resume", conversation] if conversation else []
        options = ["--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"]
        return [str(self.executable), "-p", prompt, *resume, *options]

    def env(self, url: str) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            # What goes wrong with a scripted model goes wrong again.
            "CLAUDE_CODE_MAX_RETRIES": "0",
            # Without it, it refuses to skip permissions when it is root.
            "IS_SANDBOX": "1",
        }

    def prepare_home(self, home: Path, url: str) -> None:
        """Do nothing: an empty HOME will do."""

    def shell(self, command: str) -> ToolCall:
        return ToolCall("Bash", {"command": command, "description": "a step of the script"})

    def read(self, path: str) -> ToolCall:
        return ToolCall("Read", {"file_path": path})

    def write(self, path: str, text: str) -> ToolCall:
        return ToolCall("Write", {"file_path": path, "content": _whole_lines(text)})

    def edit(self, path: str, old: str, new: str) -> ToolCall:
        return ToolCall("Edit", {"file_path": path, "old_string": old, "new_string": new})

    def failed(self, result: ToolResult) -> bool:
        return result.is_error

    def outcome(self, output: str) -> Outcome:
        for event in _events(output):
            if event.get("type") == "result":
                # The text is missing where it stopped for another reason than having finished.
                return Outcome(event.get("result", ""), event["is_error"], event["session_id"])
        return Outcome(output, is_error=True, conversation=None)


class Codex(AgentDriver):
    """Codex: a node script that starts an executable from a package beside its own."""

    program = "codex"

    # The one model of its catalogue that is handed plain tools; the newer ones write programs that call them.
    _model = "gpt-5.5"

    @classmethod
    def find(cls, project: Path = PROJECT) -> Self:
        driver = super().find(project)
        if driver._is_script and shutil.which("node") is None:
            raise AgentMissingError("`node`, which `codex` runs on, is not installed: install Node.js")
        return driver

    @property
    def _is_script(self) -> bool:
        return self.executable.suffix == ".js"

    @property
    def directories(self) -> tuple[Path, ...]:
        if not self._is_script:
            return (self.executable.parent,)
        packages = self.executable.parents[3]  # node_modules/@openai/codex/bin/codex.js
        return (packages, _node().parents[1])

    def command(self, prompt: str, *, conversation: str | None = None) -> list[str]:
        program = [str(_node()), str(self.executable)] if self._is_script else [str(self.executable)]
        resume = ["resume", conversation] if conversation else []
        options = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return [*program, "exec", *options, *resume, prompt]

    def env(self, url: str) -> dict[str, str]:
        return {"SCRIPTED_API_KEY": "scripted"}

    def prepare_home(self, home: Path, url: str) -> None:
        """Write `.codex/config.toml`. HOME must not be under /tmp where it runs: Codex is wary of that."""
        (home / ".codex").mkdir(exist_ok=True)
        (home / ".codex/config.toml").write_text(
            f"""\
model = "{self._model}"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[features]
plugins = false
unbounded_connection_retries = false

[analytics]
enabled = false
"""
        )

    def shell(self, command: str) -> ToolCall:
        # What is not done after this time, at most 30 s, goes on in the background; the default is 10 s.
        return ToolCall("exec_command", {"cmd": command, "yield_time_ms": 30_000})

    def read(self, path: str) -> ToolCall:
        return self.shell(f"cat -- {shlex.quote(path)}")

    def write(self, path: str, text: str) -> ToolCall:
        added = "".join(f"+{line}" for line in _whole_lines(text).splitlines(keepends=True))
        return self._patch(f"*** Add File: {path}\n{added}")

    def edit(self, path: str, old: str, new: str) -> ToolCall:
        return self._patch(f"*** Update File: {path}\n@@\n-{old}\n+{new}\n")

    def _patch(self, change: str) -> ToolCall:
        return ToolCall("apply_patch", f"*** Begin Patch\n{change}*** End Patch\n")

    def failed(self, result: ToolResult) -> bool:
        succeeded = ("Process exited with code 0", "Exit code: 0")
        head = result.text.partition("\nOutput:\n")[0].splitlines()
        return not any(line in succeeded for line in head)

    def outcome(self, output: str) -> Outcome:
        text, conversation = "", None
        for event in _events(output):
            match event:
                case {"type": "thread.started", "thread_id": conversation}:
                    pass
                case {"type": "item.completed", "item": {"type": "agent_message", "text": text}}:
                    pass
                case {"type": "turn.failed", "error": {"message": message}}:
                    return Outcome(message, is_error=True, conversation=conversation)
                case {"type": "turn.completed"}:
                    return Outcome(text, is_error=False, conversation=conversation)
        return Outcome(output, is_error=True, conversation=conversation)


def _events(output: str) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects among the lines of `output`; warnings may stand between them."""
    for line in output.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def _whole_lines(text: str) -> str:
    if not text.endswith("\n"):
        raise ValueError(f"the text to write has to end with a newline: `{text}`")
    return text


def _node() -> Path:
    found = shutil.which("node")
    if found is None:
        raise AgentMissingError("`node` is not installed: install Node.js")
    return Path(found).resolve()
