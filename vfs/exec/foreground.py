"""The one command of `vfs exec`: with this process's streams and signals, from the mount to the summary."""

import os
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vfs.exec.attend import Ending, Output
from vfs.exec.execution import Execution
from vfs.exec.service import ExecOptions, SandboxService
from vfs.exec.signals import Signals
from vfs.exec.summary import Summary, summarize
from vfs.exec.terminal import Terminal, is_interactive
from vfs.kernel.audit import AuditFilter
from vfs.kernel.zones import Zone
from vfs.layout import Layout

__all__ = ["Report", "run"]

_ENDING_SIGNALS = frozenset({1, 2, 3, 15})


@dataclass(frozen=True, slots=True)
class Report:
    """How `run` ended: what to exit with, and what to tell."""

    exit_code: int
    summary: Summary


def run(project: str | os.PathLike[str], argv: Sequence[str], options: ExecOptions | None = None) -> Report:
    """Run one command as `vfs exec` does and return how it ended.

    It has this process's standard streams, or on a terminal one of its own. Signals to this process go to
    it. Whatever happens, nothing stays mounted or running. Call it from the main thread.

    Raises what `SandboxService` raises; BackendUnavailableError if the mount ended before the command did.
    """
    with Signals() as signals, SandboxService.open(project, options) as service:
        service.mount()
        early = [number for number in signals.pending if number in _ENDING_SIGNALS]
        if early:
            # Asked to end before there is a command to ask.
            return _report(service, tuple(argv), None, Ending(128 + early[0], signal=early[0]))
        execution, ending = _in_foreground(service, argv, signals)
        service.unmount()
        return _report(service, tuple(argv), execution, ending)


def _in_foreground(
    service: SandboxService, argv: Sequence[str], signals: Signals
) -> tuple[Execution, Ending]:
    limit = service.options.timeout
    timeout = service.settings.timeout if limit is None else limit
    if not is_interactive():
        execution = service.execution(argv)
        return execution, _to_the_end(execution.run(timeout, signals=signals))
    with Terminal(sys.stdin.fileno(), sys.stdout.fileno()) as terminal:
        names = ("stdin", "stdout", "stderr") if os.isatty(sys.stderr.fileno()) else ("stdin", "stdout")
        execution = service.execution(argv, streams=dict.fromkeys(names, terminal.inside), terminal=True)
        return execution, _to_the_end(execution.run(timeout, signals=signals, terminal=terminal))


def _to_the_end(events: Generator[Output, None, Ending]) -> Ending:
    while True:
        try:
            next(events)
        except StopIteration as end:
            ending: Ending = end.value
            return ending


def _report(
    service: SandboxService, argv: tuple[str, ...], execution: Execution | None, ending: Ending
) -> Report:
    session = service.kernel.sessions.get(service.session_id)
    entries = (
        service.kernel.log.get_entries(AuditFilter(session_id=session.id, after=execution.row))
        if execution is not None
        else []
    )
    home = Layout(service.project).workspace(session.workspace_id)
    elsewhere = Zone.SESSION in service.zones
    summary = summarize(
        entries,
        session_id=session.id,
        trust_level=session.trust_level,
        argv=argv,
        provider=service.provider,
        isolated=service.isolated,
        network=service.network,
        exit_code=ending.exit_code,
        seconds=execution.seconds if execution is not None else 0.0,
        timed_out=ending.timed_out,
        outputs=None if elsewhere else Path(home, "sessions", session.id, "outputs"),
        rules=service.kernel.policy.rules,
    )
    return Report(ending.exit_code, summary)
