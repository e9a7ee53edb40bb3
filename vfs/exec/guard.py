"""Ends what commands have started when the process that started them is gone without having done so.

Bubblewrap's `--die-with-parent` begins to hold only once the jail stands, some milliseconds after its start:
killed before, the starter leaves the jail behind. Nothing that happens in the starter can close that gap, so a
shell waits beside it. It costs a millisecond to start and does nothing unless its input ends without a word.
"""

import contextlib
import secrets
import subprocess

__all__ = ["Guard"]

_SCRIPT = r"""
trap '' INT TERM HUP QUIT
read -r mark
read -r word && exit 0
rounds=0
while [ $rounds -lt 10 ]; do
    for file in $(printf '%s\n' "$mark" | grep -lsFf - /proc/[0-9]*/cmdline /proc/[0-9]*/environ); do
        process=${file#/proc/}
        kill -KILL "${process%%/*}" && rounds=0
    done
    rounds=$((rounds + 1))
    sleep 0.1
done 2>/dev/null
"""


class Guard:
    """A guard over commands that carry `mark` on their command line or in their environment.

    It acts when this process ends without having called `dismiss`.
    """

    def __init__(self) -> None:
        self.mark = secrets.token_hex(16)
        # The mark is told by pipe: on its own command line the guard would find itself.
        self._process: subprocess.Popen[bytes] = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT], env={"PATH": "/usr/bin:/bin"}, cwd="/", start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._tell(self.mark)

    def dismiss(self) -> None:
        """End the guard: there is nothing left to guard."""
        self._tell("done")
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 (it was asked for)
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
