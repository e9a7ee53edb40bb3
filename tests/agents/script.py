"""What a script is made of, and what comes back of it."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Say", "Step", "ToolCall", "ToolResult"]


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
