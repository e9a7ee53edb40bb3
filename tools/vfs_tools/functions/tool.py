"""One tool: a name, a description for the model, typed parameters, and what happens when it is called."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from vfs.kernel.errors import (
    ApprovalRequiredError,
    PermissionError,
    SandboxError,
)
from vfs.kernel.sandbox import Sandbox
from vfs_tools.functions.arguments import Arguments, json_schema, problems
from vfs_tools.functions.limits import ToolLimits
from vfs_tools.functions.results import ApprovalResult, Refusal, Result

__all__ = ["Tool", "invalid_arguments", "refusal"]

A = TypeVar("A", bound=Arguments)

OUTSIDE = "This file is outside your accessible zones."
"""The seed's hint, word for word, on a read that is refused."""

_HINTS = {
    "PERMISSION_DENIED": "work in /session/working, or ask the person who runs this session for more trust",
    "NOT_FOUND": "see what is there with `list_files`, or find it with `glob`",
    "INVALID_PATH": "paths start with /session, /workspace, /repo, /staged or /workers; relative ones are taken"
    " from /session/working",
    "FILE_EXISTS": "choose another name, or replace what is there on purpose",
    "QUOTA_EXCEEDED": "delete files that are no longer needed",
    "CONFLICT": "look at it again before you go on",
    "AUDIT_UNAVAILABLE": "nothing can be done until the audit log works again; tell the person who runs this session",
    "BACKEND_UNAVAILABLE": "try again later, or work in another zone",
    "INVALID_SESSION": "this session is over; tell the person who runs it",
    "EISDIR": "it is a directory: use `list_files`",
    "ENOTDIR": "a name in the middle of the path is a file, not a directory",
    "ENOTEMPTY": "set `recursive` to remove a directory with all in it",
    "EILSEQ": "read it with `read_bytes`",
    "ELOOP": "a link on the way leads in a circle",
    "ENOSPC": "the disk is full; delete files that are no longer needed",
}
_LAST_HINT = "this cannot be mended by trying again; tell the person who runs this session"


def refusal(error: SandboxError, *, reading: bool = False) -> Refusal:
    """Return an error as a model is told it (seed 001): what was refused is marked `Permission denied`.

    `reading` says that the tool reads a file; then a refusal carries the seed's own hint.
    """
    hint = error.hint or _HINTS.get(error.code, _LAST_HINT)
    if not isinstance(error, PermissionError):
        return Refusal(error.message, hint, error.code)
    if reading and not isinstance(error, ApprovalRequiredError):
        hint = OUTSIDE
    return Refusal(f"Permission denied: {error.message}", hint, error.code)


def invalid_arguments(message: str, hint: str = "see the tool's parameters and call it again") -> Refusal:
    """Return the refusal of arguments that are not what the tool takes."""
    return Refusal(message, hint, "INVALID_ARGUMENTS")


class Tool(ABC, Generic[A]):
    """A tool of one sandbox (seed 001, createFilesystemTools). Thread-safe.

    `execute` returns a result for everything the sandbox refuses and for arguments that do not fit; any other
    exception is a bug and propagates.
    """

    name: str
    description: str
    parameters: type[A]
    reads = False
    """Whether the tool's purpose is the content of a file, for the seed's hint."""

    def __init__(self, sandbox: Sandbox, limits: ToolLimits) -> None:
        self.sandbox = sandbox
        self.limits = limits

    def schema(self, *, strict: bool = False) -> dict[str, Any]:
        """Return the JSON Schema of the parameters; `strict` as OpenAI's strict mode wants it."""
        return json_schema(self.parameters, strict=strict)

    def execute(self, args: Mapping[str, Any]) -> Result:
        """Call the tool and return its result, or a refusal."""
        try:
            parsed = self.parameters.model_validate(args)
        except ValidationError as error:
            return invalid_arguments(f"invalid arguments for `{self.name}`: {problems(error)}")
        try:
            return self.run(parsed)
        except SandboxError as error:
            return refusal(error, reading=self.reads)

    @abstractmethod
    def run(self, args: A) -> Result:
        """Do what the tool does. Raises the errors of the sandbox."""

    @abstractmethod
    def needs_approval(self, args: Mapping[str, Any]) -> ApprovalResult:
        """Tell whether the call may be made; reads only the paths among the arguments."""

    def get_approval_description(self, args: Mapping[str, Any]) -> str:  # noqa: ARG002 (most say no more)
        """Return what a person is shown who has to approve the call."""
        return f"Execute {self.name}"
