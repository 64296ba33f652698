"""Owns the record of requests that were refused before an instance began: one row each, or a count when that cannot be.
Never decides to refuse, and never makes a caller wait for a store that is away.
Called by the gateway.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from engine.errors import ConchError, Rejected
from engine.inference import Operation
from engine.keys import KeySource
from engine.records import Refusal, Tags
from engine.store.journal import Journal
from engine.telemetry import OTHER, Telemetry

log = logging.getLogger("conch.api")

MESSAGE_CHARS = 500
COUNTS_KEPT = 10_000  # distinct counts during one outage; above, refusals are counted under the tenant `other`
FLUSH_EVERY_S = 1.0


class _Counted(NamedTuple):
    """What refusals have in common that are counted together."""

    second: int  # since the Unix epoch
    tenant: str
    error_code: str
    http_status: int
    operation: str


class Refusals:
    """Writes refusals. What the journal cannot take is counted per second, tenant and code, and written as one row
    per count once it can."""

    def __init__(self, journal: Journal, keys: KeySource, telemetry: Telemetry, now_us: Callable[[], int]):
        self._journal = journal
        self._keys = keys
        self._telemetry = telemetry
        self._now_us = now_us
        self._counts: Counter[_Counted] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    async def record(
        self, refusal: Rejected, tags: Tags, request_id: str, model: str, operation: Operation, http_status: int
    ) -> None:
        """Return when the refusal's row is durable, or when it is only counted because the journal takes nothing."""
        self._telemetry.refusals.labels(refusal.code).inc()
        at_us = self._now_us()
        if not self._takes_rows():
            self._count(_Counted(at_us // 1_000_000, tags.tenant, refusal.code, http_status, operation.value))
            return
        message = refusal.message[:MESSAGE_CHARS]
        key = self._keys.mint()
        fact = Refusal(key, request_id, tags, refusal.code, http_status, message, model, operation.value)
        try:
            await self._journal.refuse(fact, at_us)
        except ConchError as error:  # the journal keeps the row and writes it once it can
            log.warning("refusal not durable yet", extra={"code": refusal.code, "reason": type(error).__name__})

    def _takes_rows(self) -> bool:
        return self._journal.available and self._journal.room > 0

    def _count(self, counted: _Counted) -> None:
        if counted not in self._counts and len(self._counts) >= COUNTS_KEPT:
            counted = counted._replace(second=0, tenant=OTHER)
        self._counts[counted] += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_EVERY_S, self.flush)

    def flush(self) -> None:
        """Hand the counts to the journal if it takes rows; else look again in a second."""
        self._timer = None
        while self._counts and self._takes_rows():
            counted, times = self._counts.popitem()
            at_us = counted.second * 1_000_000 or self._now_us()
            message = f"{times} refusals that could not be written one by one"
            tags = Tags(counted.tenant, OTHER, OTHER, OTHER, 0)
            self._journal.refuse(
                Refusal(
                    self._keys.mint(),
                    "",
                    tags,
                    counted.error_code,
                    counted.http_status,
                    message,
                    "",
                    counted.operation,
                    times,
                ),
                at_us,
            )
        if self._counts:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_EVERY_S, self.flush)

    def close(self) -> None:
        """Hand over what can be handed over; the rest is told to the log, so that it is not lost in silence."""
        if self._timer is not None:
            self._timer.cancel()
        self.flush()
        if self._timer is not None:
            self._timer.cancel()
        for counted, times in self._counts.items():
            log.error("refusals not recorded", extra={**counted._asdict(), "times": times})
