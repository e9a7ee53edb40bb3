"""The process that serves one mount: `vfs.mount.MountServer` starts it and speaks with it through pipes.

The order comes as one line of JSON on standard input, whose end says later that the parent is gone. The answer
goes to standard output: one line, `{"ready": true}` or `{"error": …}`.
"""

import json
import os
import sys
from typing import Any

from vfs.kernel.errors import SandboxError


def main() -> int:
    """Serve until told to end; return the exit code."""
    order = json.loads(sys.stdin.buffer.readline())
    try:
        _serve(order)
    except SandboxError as error:
        from vfs.mount.server import to_json

        _answer({"error": to_json(error)})
        return error.exit_code
    return 0


def _serve(order: dict[str, Any]) -> None:
    from pathlib import Path

    from vfs.kernel.zones import Zone
    from vfs.mount.engine import MountOptions
    from vfs.mount.serving import serve
    from vfs.project import open_project

    kernel = open_project(
        order["project"],
        zones={Zone(zone): url for zone, url in order["zones"].items()},
        home=Path(order["home"]) if order["home"] is not None else None,
    )
    try:
        serve(
            kernel,
            kernel.resume(order["session_id"]),
            order["mount_point"],
            engine=order["engine"],
            ready=lambda: _answer({"ready": True}),
            parent=sys.stdin.fileno(),
            options=MountOptions(**order["options"]),
        )
    finally:
        kernel.close()


def _answer(answer: dict[str, Any]) -> None:
    """Tell the parent, which may be gone already; then standard output is nobody's."""
    try:
        os.write(1, json.dumps(answer).encode() + b"\n")
    except BrokenPipeError:
        return


if __name__ == "__main__":
    sys.exit(main())
