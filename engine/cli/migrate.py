"""Owns `conch migrate`: the database's schema brought to this version's, as a step of its own.
Never touches rows.
Called by operators who deploy schema changes before they deploy gateways; `conch serve` does the same at its start.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click

from engine.cli import config_option
from engine.cli.compose import database_url
from engine.settings import Settings, load_settings
from engine.store.database import migrate

EPILOG = """\b
Examples:
  conch migrate
  CONCH_POSTGRES__URL=postgresql://owner@db/conch conch migrate
"""


@click.command("migrate", epilog=EPILOG)
@config_option
def command(config: Path | None) -> None:
    """Bring the database's schema to this version's. Safe to repeat; `conch serve` does it at its start."""
    asyncio.run(_migrate(load_settings(config, os.environ)))
    click.echo("the schema is up to date", err=True)


async def _migrate(settings: Settings) -> None:
    async with database_url(settings, lambda line: click.echo(f"conch: {line}", err=True)) as url:
        await migrate(url)
