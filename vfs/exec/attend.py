"""Attending to a command from its start to its end: output, keys, signals, time-out, a mount that dies."""

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import IO, Literal, NamedTuple

from vfs.exec.ports import Process
from vfs.exec.signals import Signals
from vfs.exec.terminal import Terminal

__all__ = ["Ending", "Output", "attend"]

TIMED_OUT = 124
"""The exit code of a command that took too long, as `timeout` has it."""

GRACE = 5.0
"""Seconds between asking a command to end and ending it."""

_STRAGGLERS = 1.0
"""Seconds to wait for the rest of the output, where something that was not ended still holds the pipe."""

_INTERRUPTS = 3
_CHUNK = 65536


class Output(NamedTuple):
    """A piece of what a command wrote."""

    stream: Literal["stdout", "stderr"]
    data: bytes


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended: `signal` is what this process was told to end by, if it was."""

    exit_code: int
    timed_out: bool = False
    lost: bool = False
    signal: int | None = None


def attend(
    process: Process,
    *,
    timeout: float | None = None,
    signals: Signals | None = None,
    terminal: Terminal | None = None,
    lost: int | None = None,
    grace: float = GRACE,
) -> Generator[Output, None, Ending]:
    """Yield what a command writes to its pipes, and return how it ended.

    After `timeout` seconds it is asked to end, and ended `grace` seconds later. What `signals` has taken is
    passed on; after SIGTERM and SIGHUP, and at the third SIGINT, it is ended too. `lost` is a descriptor that
    becomes readable when what the command works on is gone, which ends it at once. Whatever happens, nothing
    of the command is left: also when the caller does not want to hear the rest.
    """
    attendant = _Attendant(process, timeout, signals, terminal, lost, grace)
    try:
        yield from attendant.outputs()
        code = process.wait()
    finally:
        attendant.close()
        process.close()
    if attendant.timed_out:
        code = TIMED_OUT
    return Ending(code, attendant.timed_out, attendant.lost, attendant.told)


class _Attendant:
    def __init__(
        self,
        process: Process,
        timeout: float | None,
        signals: Signals | None,
        terminal: Terminal | None,
        lost: int | None,
        grace: float,
    ) -> None:
        self._process = process
        self._signals = signals
        self._terminal = terminal
        self._loss = lost
        self._grace = grace
        self._times_out_at = float("inf") if timeout is None else time.monotonic() + timeout
        self._killed_at = float("inf")
        self._interrupts = 0
        self.timed_out = False
        self.lost = False
        self.told: int | None = None
        self._selector = selectors.DefaultSelector()
        self._pipes: dict[int, tuple[Literal["stdout", "stderr"], IO[bytes]]] = {}
        if process.stdout is not None:
            self._pipes[process.stdout.fileno()] = ("stdout", process.stdout)
        if process.stderr is not None:
            self._pipes[process.stderr.fileno()] = ("stderr", process.stderr)
        self._watch(process.fileno(), *self._pipes)
        if signals is not None:
            self._watch(signals.fileno())
        if lost is not None:
            self._watch(lost)
        self._reads_keys = terminal is not None
        if terminal is not None:
            self._watch(terminal.outside)

    def _watch(self, *descriptors: int) -> None:
        for descriptor in descriptors:
            self._selector.register(descriptor, selectors.EVENT_READ)

    def close(self) -> None:
        self._selector.close()

    def outputs(self) -> Iterator[Output]:
        """Yield output until the command has ended and all it wrote is out."""
        ended = False
        while not ended or self._pipes:
            self._choose()
            ready = {key.fd: mask for key, mask in self._selector.select(self._patience(ended=ended))}
            if ended and not ready:
                break
            for descriptor in [fd for fd in ready if fd in self._pipes]:
                yield from self._read(descriptor)
            if self._terminal is not None:
                self._relay(self._terminal, ready)
            if self._process.fileno() in ready:
                ended = True
                self._end()
            self._look(ready)
        if self._terminal is not None:
            self._terminal.drain()

    def _patience(self, *, ended: bool) -> float | None:
        if ended:
            return _STRAGGLERS
        until = min(self._times_out_at, self._killed_at)
        return None if until == float("inf") else max(0.0, until - time.monotonic())

    def _end(self) -> None:
        """Listen to nothing but the pipes any more; what it has started may hold them and ends with it."""
        self._selector.unregister(self._process.fileno())
        for source in (self._signals.fileno() if self._signals is not None else None, self._loss):
            if source is not None and source in self._selector.get_map():
                self._selector.unregister(source)
        self._times_out_at = self._killed_at = float("inf")
        self._process.kill()

    def _read(self, descriptor: int) -> Iterator[Output]:
        name, _ = self._pipes[descriptor]
        data = os.read(descriptor, _CHUNK)
        if data:
            yield Output(name, data)
        else:
            self._selector.unregister(descriptor)
            del self._pipes[descriptor]

    def _choose(self) -> None:
        """Read keys and write them as far as both sides can."""
        terminal = self._terminal
        if terminal is None:
            return
        reads = self._reads_keys and terminal.wants_input
        known = self._selector.get_map()
        if reads and terminal.reads not in known:
            self._watch(terminal.reads)
        elif not reads and terminal.reads in known:
            self._selector.unregister(terminal.reads)
        if terminal.outside in known:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if terminal.has_input else 0)
            self._selector.modify(terminal.outside, events)

    def _relay(self, terminal: Terminal, ready: dict[int, int]) -> None:
        if terminal.reads in ready and not terminal.read():
            self._reads_keys = False
        events = ready.get(terminal.outside, 0)
        if events & selectors.EVENT_WRITE:
            terminal.pass_on()
        if events & selectors.EVENT_READ and not terminal.show():
            self._selector.unregister(terminal.outside)

    def _pass_on(self, number: int) -> None:
        if number == signal.SIGWINCH:
            if self._terminal is not None:
                self._terminal.resize()
            return
        if number == signal.SIGTSTP:
            self._stop()
            return
        self._process.signal(number)
        if number in (signal.SIGTERM, signal.SIGHUP):
            self.told = number
            self._end_within(self._grace)
        if number == signal.SIGINT:
            self._interrupts += 1
            if self._interrupts >= _INTERRUPTS:
                self.told = number
                self._end_within(0)

    def _stop(self) -> None:
        """Stop with the command, give the terminal back meanwhile, and go on when told to."""
        self._process.signal(signal.SIGSTOP)
        if self._terminal is not None:
            self._terminal.give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        if self._terminal is not None:
            with contextlib.suppress(OSError):
                self._terminal.take()
            self._terminal.resize()
        self._process.signal(signal.SIGCONT)

    def _look(self, ready: dict[int, int]) -> None:
        if self._signals is not None and self._signals.fileno() in ready:
            for number in self._signals.take():
                self._pass_on(number)
        now = time.monotonic()
        if now >= self._times_out_at:
            self.timed_out = True
            self._times_out_at = float("inf")
            self._process.signal(signal.SIGTERM)
            self._end_within(self._grace)
        if self._loss is not None and self._loss in ready:
            self.lost = True
            self._selector.unregister(self._loss)
            self._end_within(0)
        if now >= self._killed_at:
            self._killed_at = float("inf")
            self._process.kill()

    def _end_within(self, seconds: float) -> None:
        self._killed_at = min(self._killed_at, time.monotonic() + seconds)
