"""A process of this host that stands for a command: what the providers that start one share."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import IO

__all__ = ["Child"]


class Child:
    """A child process in a session of its own, so that no key of the caller's terminal reaches it directly.

    Implements `vfs.exec.ports.Process` for a command whose signals go to its process group. A thread waits
    for the end, so that `fileno` can be selected on. Thread-safe.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None = None,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        pass_fds: Sequence[int] = (),
        own_session: bool = True,
    ) -> None:
        """Start `argv`. Raises OSError if it cannot be executed.

        Without `own_session` it is left to `argv` to begin one, at once.
        """
        self._ended, self._end = os.pipe()
        self._lock = threading.Lock()
        try:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                argv, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=pass_fds,
                start_new_session=own_session,
            )  # fmt: skip
        except BaseException:
            os.close(self._ended)
            os.close(self._end)
            raise
        # Only a thread can wait for one child without polling and without a handler for the whole process.
        self._waiter = threading.Thread(target=self._wait, name=f"vfs-exec-{self.pid}", daemon=True)
        self._waiter.start()

    @property
    def pid(self) -> int:
        """The child's process id, and that of its process group."""
        return self._process.pid

    @property
    def stdin(self) -> IO[bytes] | None:
        """The child's input, if it is a pipe."""
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes] | None:
        """The child's output, if it is a pipe."""
        return self._process.stdout

    @property
    def stderr(self) -> IO[bytes] | None:
        """The child's messages, if they are a pipe."""
        return self._process.stderr

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the child has ended."""
        return self._ended

    @property
    def has_ended(self) -> bool:
        """Whether the child has ended."""
        return not self._waiter.is_alive()

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, 128 and the signal's number if a signal ended it. Raises TimeoutError."""
        self._waiter.join(timeout)
        code = self._process.returncode
        if self._waiter.is_alive() or code is None:
            raise TimeoutError(f"process {self.pid} has not ended within {timeout} s")
        return int(code) if code >= 0 else 128 - int(code)

    def signal(self, number: int) -> None:
        """Send a signal to the child's process group; nothing happens if it has ended."""
        self.send(self.pid, number)

    def send(self, group: int, number: int) -> None:
        """Send a signal to a process group that lives and dies with the child."""
        with self._lock:  # the waiter takes it to reap: until then the number belongs to nobody else
            if self._process.returncode is not None:
                return
            try:
                os.killpg(group, number)
            except ProcessLookupError:
                if group == self.pid:  # it has not come to beginning its session
                    os.kill(self.pid, number)
            except PermissionError:  # it has become another user
                return

    def kill(self) -> None:
        """Kill the child's process group."""
        self.signal(signal.SIGKILL)

    def close(self) -> None:
        """Kill what is left, wait for it, and release the descriptors; a second call does nothing."""
        if self._ended < 0:
            return
        self.kill()
        self._waiter.join()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):  # what was to be written has nobody to read it
                    stream.close()
        os.close(self._ended)
        self._ended = -1

    def _wait(self) -> None:
        # First without reaping, so that a signal cannot hit a number that was given away meanwhile.
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            self._process.wait()
        os.close(self._end)
