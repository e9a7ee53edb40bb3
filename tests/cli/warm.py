"""Runs commands, each in a process of its own, without starting an interpreter for each.

Reads one JSON object a line (arguments, directory, environment, and files for the three streams), forks, lets the
child call the command's entry point, and answers with its exit code. What is slow to import is imported before.
"""

import json
import os
import sys

import vfs.project  # noqa: F401 (so that the children find it loaded)
import vfs_tools.cli.app  # noqa: F401 (as above)


def serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os._exit(child(request))
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def child(request: dict[str, object]) -> int:
    os.chdir(str(request["directory"]))
    environment = request["environment"]
    assert isinstance(environment, dict)
    os.environ.clear()
    os.environ.update(environment)
    flags = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)
    for number, (name, flag) in enumerate(zip(("in", "out", "err"), flags, strict=True)):
        descriptor = os.open(str(request[name]), flag, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115 (for the process's life)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 (as above)
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115 (as above)
    arguments = request["arguments"]
    assert isinstance(arguments, list)
    sys.argv = ["vfs", *map(str, arguments)]
    from vfs_tools.cli import main

    code: object = 0
    try:
        main()
    except SystemExit as error:
        code = error.code
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    serve()
