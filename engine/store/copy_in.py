"""Owns one COPY into Postgres at the price of two waits: one for the server's go-ahead, one for its commit.
Never decides what a failure means; it raises what the server said, as psycopg would.
Called by the Postgres journal, once per batch, on a connection that nobody else uses meanwhile.

psycopg's own COPY registers the socket with the event loop for each of half a dozen waits and asks whether it may write
before it tries; for a batch of a few requests that costs more CPU than the rows. libpq's calls are the same ones here.
"""

from __future__ import annotations

import asyncio

from psycopg import errors
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

# libpq may refuse a piece that outgrows its buffer for ever; psycopg splits at the same size for that reason.
PIECE_BYTES = 128 * 1024


async def copy_in(pgconn: PGconn, statement: bytes, data: bytes) -> None:
    """Run `statement` (COPY ... FROM STDIN) with `data`; outside a transaction block it commits by itself.

    Raises psycopg.Error as the server reports it. When cancelled, or when the connection is lost, the connection is
    in an unknown state and has to be closed.
    """
    pgconn.send_query(statement)
    await _flush(pgconn)
    ready = await _result(pgconn)
    if ready is None or ready.status != ExecStatus.COPY_IN:
        raise await _failure(pgconn, ready)
    for start in range(0, len(data), PIECE_BYTES):
        while pgconn.put_copy_data(data[start : start + PIECE_BYTES]) == 0:
            await _writable(pgconn)
    while pgconn.put_copy_end() == 0:
        await _writable(pgconn)
    await _flush(pgconn)
    done = await _result(pgconn)
    if done is None or done.status != ExecStatus.COMMAND_OK:
        raise await _failure(pgconn, done)
    await _drain(pgconn)


async def _flush(pgconn: PGconn) -> None:
    while pgconn.flush() == 1:
        await _writable(pgconn)


async def _result(pgconn: PGconn) -> PGresult | None:
    while pgconn.is_busy():
        await _readable(pgconn)
        pgconn.consume_input()
    return pgconn.get_result()


async def _drain(pgconn: PGconn) -> None:
    """libpq takes no next statement until every result of this one has been fetched."""
    while await _result(pgconn) is not None:
        pass


async def _failure(pgconn: PGconn, result: PGresult | None) -> errors.Error:
    if result is None:
        return errors.OperationalError("the server ended a COPY without a result")
    await _drain(pgconn)
    return errors.error_from_result(result)


async def _readable(pgconn: PGconn) -> None:
    loop, descriptor = asyncio.get_running_loop(), pgconn.socket
    ready = loop.create_future()
    loop.add_reader(descriptor, _set, ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


async def _writable(pgconn: PGconn) -> None:
    loop, descriptor = asyncio.get_running_loop(), pgconn.socket
    ready = loop.create_future()
    loop.add_writer(descriptor, _set, ready)
    try:
        await ready
    finally:
        loop.remove_writer(descriptor)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
