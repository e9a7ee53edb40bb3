"""What can be wrong with a command, beside what `vfs.kernel.errors` has.

SandboxError
├── NotFoundError
│   └── CommandNotFoundError         COMMAND_NOT_FOUND        exit code 127, as in a shell
└── PermissionError
└── CommandNotExecutableError    COMMAND_NOT_EXECUTABLE   exit code 126, as in a shell
"""

from vfs.kernel.errors import NotFoundError, PermissionError

__all__ = ["CommandNotExecutableError", "CommandNotFoundError"]


class CommandNotFoundError(NotFoundError):
    """There is no such program where the command runs; the hint says where the host has one."""

    code = "COMMAND_NOT_FOUND"
    exit_code = 127


class CommandNotExecutableError(PermissionError):
    """The program is there and cannot be executed."""

    code = "COMMAND_NOT_EXECUTABLE"
    exit_code = 126
