"""A start that fails half-way leaves nothing behind: no lease that somebody has to wait for, no writer."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import Any, NoReturn

import psycopg
import pytest
from pydantic import SecretStr

import tasks
from engine.cli.compose import open_gateway
from engine.errors import ConchError
from engine.settings import PostgresSettings, Settings

pytestmark = pytest.mark.postgres


def no_resources(*_: Any) -> NoReturn:
    raise ConchError("the tasks cannot be opened")


def test_a_start_that_fails_after_the_journal_gives_its_lease_back(
    audit_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = ModuleType("broken_tasks")
    vars(broken)["open_resources"] = no_resources
    monkeypatch.setitem(sys.modules, broken.__name__, broken)
    settings = Settings(postgres=PostgresSettings(url=SecretStr(audit_url)), tasks=broken.__name__)
    assert tasks.__doc__  # its topics are registered

    async def start() -> list[str]:
        with pytest.raises(ConchError, match="cannot be opened"):
            async with open_gateway(settings, lambda line: None):
                pass
        await asyncio.sleep(0)
        return [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    assert asyncio.run(start()) == []
    with psycopg.connect(audit_url) as connection:
        ended = connection.execute("SELECT released_at IS NOT NULL, recovered_at IS NOT NULL FROM engine_process")
        assert ended.fetchall() == [(True, True)]
