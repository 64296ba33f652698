"""Owns what the commands share that look at or change what is deployed: the database opened, and who is asking.
Never prints a result.
Called by `conch process` and `conch deploy`; they work beside a running gateway, which follows within a second.
"""

from __future__ import annotations

import getpass
import importlib
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NoReturn

import click
from psycopg.errors import UndefinedColumn, UndefinedTable
from sqlalchemy.exc import ProgrammingError

from engine import __version__
from engine.cli.compose import now_ms
from engine.cli.reading import connected
from engine.deployments import Deployments
from engine.errors import Code, Rejected
from engine.keys import KeySource
from engine.linking import Programs
from engine.records import Key
from engine.registry import REGISTRY
from engine.settings import Settings
from engine.store import leases
from engine.store.database import Database
from engine.store.definitions import Definitions

_LEASE_S = 60.0

decision_option = click.option("--decision", is_flag=True, help="ID names a decision of a .dmn file, not a process.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
reason_option = click.option("--reason", default="", help="Why; kept with the record of who and when.")


def whoami() -> str:
    """Who turns the switch, as far as this machine can tell."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # an account without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


@asynccontextmanager
async def deployed(settings: Settings) -> AsyncIterator[Deployments]:
    """What is deployed, to look at and to switch; nothing can be deployed with it."""
    async with connected(settings) as database:
        with_keys = _no_key
        async with _opened(settings, database, with_keys) as deployments:
            yield deployments


@asynccontextmanager
async def deploying(settings: Settings) -> AsyncIterator[Deployments]:
    """The same, with keys for new versions, for which this process holds a writer number for a moment."""
    async with connected(settings) as database:
        try:
            lease = await leases.acquire(database, __version__, lease_s=_LEASE_S)
        except ProgrammingError as error:
            raise _without_tables(error) from error
        try:
            keys = KeySource(lease.writer_id, now_ms, lease.not_before_ms)
            async with _opened(settings, database, keys.mint) as deployments:
                yield deployments
        finally:
            await lease.release(recovered=True)


@asynccontextmanager
async def _opened(settings: Settings, database: Database, mint: Callable[[], Key]) -> AsyncIterator[Deployments]:
    importlib.import_module(settings.tasks)
    deployments = Deployments(Definitions(database), Programs(), mint, REGISTRY.specs, settings.process)
    try:
        await deployments.refresh()
        yield deployments
    except ProgrammingError as error:
        raise _without_tables(error) from error
    except Rejected as refused:
        hint = "`conch process list` shows what is deployed." if refused.code == Code.NOT_FOUND else ""
        raise click.ClickException(f"{refused.message}. {hint}".rstrip()) from None


def _without_tables(error: ProgrammingError) -> Exception:
    if isinstance(error.orig, UndefinedTable | UndefinedColumn):
        return click.ClickException("the database lacks the tables of this version. `conch migrate` makes them.")
    return error


def _no_key() -> NoReturn:
    raise AssertionError("nothing is deployed here")
