"""The hot path: turning an access into the text of a row.

A row costs a few microseconds, most of them the operating system's, so the text is put together from parts
that were encoded before: what is constant for a session, and each combination of operation, action, zone and
verdict the first time it is met.
"""

from collections.abc import Callable, Mapping
from json.encoder import encode_basestring_ascii as _quote
from typing import Any, Final, TypeVar

from vfs.kernel.audit.entry import OPERATIONS, Actor
from vfs.kernel.audit.journal import Journal
from vfs.kernel.audit.record import dump

__all__ = ["Recorder"]

_Key = TypeVar("_Key")

_CACHE_LIMIT: Final = 1024
"""Cached parts before the cache begins anew; far more than there are combinations, fewer than processes."""


class Recorder:
    """Records what one session does through one face; made by `AuditLog.bind`.

    Every method appends one row before it returns, or raises AuditUnavailableError: then the access must
    not happen. Safe to use from any thread.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        session_id: str,
        workspace_id: str | None,
        trust_level: str,
        face: str,
        lease: str | None,
    ) -> None:
        constant = [',"kind":"entry"', f',"session":{_quote(session_id)}']
        if workspace_id is not None:
            constant.append(f',"workspace":{_quote(workspace_id)}')
        constant.append(f',"trust":{_quote(trust_level)},"face":{_quote(face)}')
        if lease is not None:
            constant.append(f',"lease":{_quote(lease)}')
        self._constant = "".join(constant)
        self._journal = journal
        self._append: Callable[[str, int], int] = journal.append
        self._heads: dict[tuple[str, str, str | None, bool], str] = {}
        self._actors: dict[Actor, str] = {}

    def entry(
        self,
        operation: str,
        action: str,
        path: str | None,
        zone: str | None,
        allowed: bool,  # noqa: FBT001 (the verdict; every caller has it in a variable)
        *,
        reason: str | None = None,
        rule: str | None = None,
        actor: Actor | None = None,
        outcome: str | None = None,
        pending: bool = False,
        bytes_read: int | None = None,
        bytes_written: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> int:
        """Record a decision, before the act, and return the row's sequence number.

        With `pending` an `outcome` row has to follow; until then the entry counts as under way, or as
        interrupted once this process is dead. An act that cannot leave anything behind may instead be
        recorded with its `outcome`, in one row. ValueError for an operation that is not in `OPERATIONS`;
        TypeError or ValueError for metadata that JSON cannot say.
        """
        try:
            text = self._heads[operation, action, zone, allowed]
        except KeyError:
            text = self._head(operation, action, zone, allowed)
        if path is not None:
            text = f'{text},"path":{_quote(path)}'
        if actor is not None:
            text += self._actors.get(actor) or self._actor(actor)
        if pending:
            text += self._journal.pending_text
        elif outcome is not None:
            text = f'{text},"outcome":{_quote(outcome)}'
        if bytes_read is not None:
            text = f'{text},"read":{bytes_read:d}'
        if bytes_written is not None:
            text = f'{text},"written":{bytes_written:d}'
        if reason is not None:
            text = f'{text},"reason":{_quote(reason)}'
        if rule is not None:
            text = f'{text},"rule":{_quote(rule)}'
        if metadata is not None:
            text = f'{text},"meta":{dump(dict(metadata))}'
        return self._append(text + "}", pending)

    def first_write(self, sequence: int) -> int:
        """Record, before it happens, the first write to the file that entry `sequence` opened."""
        return self._append(f',"kind":"first_write","ref":{sequence:d}}}', 0)

    def outcome(
        self,
        sequence: int,
        outcome: str,
        bytes_read: int = 0,
        bytes_written: int = 0,
        metadata: Mapping[str, Any] | None = None,
    ) -> int:
        """Record how the pending entry `sequence` ended: `ok` or an error code, and the bytes it moved."""
        return self._append(outcome_body(sequence, outcome, bytes_read, bytes_written, metadata), -1)

    def _head(self, operation: str, action: str, zone: str | None, allowed: bool) -> str:  # noqa: FBT001 (as above)
        if operation not in OPERATIONS:
            raise ValueError(f"unknown operation `{operation}`; use one of {', '.join(sorted(OPERATIONS))}")
        text = f'{self._constant},"op":{_quote(operation)},"action":{_quote(action)}'
        if zone is not None:
            text += f',"zone":{_quote(str(zone))}'
        text += f',"allowed":{"true" if allowed else "false"}'
        _remember(self._heads, (operation, action, zone, allowed), text)
        return text

    def _actor(self, actor: Actor) -> str:
        text = f',"pid":{actor.pid:d},"uid":{actor.uid:d}'
        if actor.command is not None:
            text += f',"command":{_quote(actor.command)}'
        _remember(self._actors, actor, text)
        return text


def outcome_body(
    sequence: int,
    outcome: str,
    bytes_read: int = 0,
    bytes_written: int = 0,
    metadata: Mapping[str, Any] | None = None,
) -> str:
    """Return an outcome row as `Journal.append` takes it."""
    text = f',"kind":"outcome","ref":{sequence:d},"outcome":{_quote(outcome)}'
    if bytes_read:
        text += f',"read":{bytes_read:d}'
    if bytes_written:
        text += f',"written":{bytes_written:d}'
    if metadata is not None:
        text += f',"meta":{dump(dict(metadata))}'
    return text + "}"


def _remember(cache: dict[_Key, str], key: _Key, text: str) -> None:
    if len(cache) >= _CACHE_LIMIT:
        cache.clear()
    cache[key] = text
