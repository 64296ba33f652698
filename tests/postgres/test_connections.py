"""Connections: a network that swallows packets is noticed in time, unless the URL says otherwise."""

from __future__ import annotations

import asyncio

import pytest

from engine.store.database import conninfo_of, open_raw

pytestmark = pytest.mark.postgres


def test_a_connection_gives_up_a_silent_network_and_the_url_may_say_when(postgres_url: str) -> None:
    async def parameters(url: str) -> dict[str, str]:
        connection = await open_raw(conninfo_of(url))
        try:
            return connection.info.get_parameters()
        finally:
            await connection.close()

    async def main() -> None:
        ours = await parameters(postgres_url)
        assert (ours["tcp_user_timeout"], ours["keepalives_idle"]) == ("15000", "5")
        separator = "&" if "?" in postgres_url else "?"
        theirs = await parameters(f"{postgres_url}{separator}tcp_user_timeout=60000")
        assert (theirs["tcp_user_timeout"], theirs["keepalives_idle"]) == ("60000", "5")

    asyncio.run(main())
