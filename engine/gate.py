"""Owns the decision whether another instance may begin in this process, or another command come in from outside.
Never queues anybody (the task `admit` does, by the diagram's policy) and changes nothing by looking.
Called by the runtime, once per submission or command.
"""

from __future__ import annotations

from engine.errors import Code, Rejected
from engine.ownership import Ownership
from engine.store.journal import Journal

ROOM_ROWS = 200  # journal rows that must be free before an instance may begin
RETRY_AFTER_MS = 1_000


class Gate:
    """Closed at first, and again for good while the process goes down."""

    def __init__(self, journal: Journal, ownership: Ownership | None, max_online: int, max_operational: int):
        self._journal = journal
        self._ownership = ownership
        self._max_online = max_online
        self._max_operational = max_operational
        self._closed: tuple[Code, str] | None = (Code.DRAINING, "the gateway is not open yet")

    def open(self) -> None:
        self._closed = None

    def close(self, code: Code, message: str) -> None:
        self._closed = (code, message)

    def check(self, online: int) -> None:
        """Raises Rejected with DRAINING, JOURNAL_UNAVAILABLE or OVERLOADED when no online instance may begin."""
        if self._closed is not None:
            raise _refusal(*self._closed)
        self.check_store()
        if online >= self._max_online:
            limit = f"{self._max_online} requests are running, which is runtime.max_instances"
            raise _refusal(Code.OVERLOADED, limit)

    def check_operational(self, open_instances: int) -> None:
        """The same for an operational instance."""
        if self._closed is not None:
            raise _refusal(*self._closed)
        self.check_store()
        if open_instances >= self._max_operational:
            limit = f"{self._max_operational} instances are open, which is runtime.max_operational_instances"
            raise _refusal(Code.OVERLOADED, limit)

    def check_store(self) -> None:
        """Raises Rejected with JOURNAL_UNAVAILABLE or OVERLOADED when no command may come in."""
        if not self._journal.available:
            raise _refusal(Code.JOURNAL_UNAVAILABLE, "the audit store does not accept rows, so nothing is started")
        if self._ownership is not None and self._ownership.lapsed:
            raise _refusal(Code.JOURNAL_UNAVAILABLE, "this gateway's lease has expired, so nothing is started")
        if self._journal.room < ROOM_ROWS:
            raise _refusal(Code.OVERLOADED, "too many audit rows wait for the disk")


def _refusal(code: Code, message: str) -> Rejected:
    return Rejected(code, message, retry_after_ms=RETRY_AFTER_MS)
