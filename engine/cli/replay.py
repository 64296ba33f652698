"""Owns `conch replay`: the proof that an instance's audit rows follow from its commands alone.
Never writes to the audit.
Called by auditors and by tests.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import NamedTuple

import click
import orjson

from engine import __version__
from engine.cli import config_option
from engine.cli.reading import KEY, reading
from engine.core.replay import derive_records
from engine.errors import Rejected
from engine.linking import Programs
from engine.records import Key
from engine.settings import Settings, load_settings
from engine.store.canonical import Difference, differences, rows_from_records
from engine.store.encoding import InstanceContext

EPILOG = """\b
Examples:
  conch replay 1234567890
  conch replay 1234567890 --json
"""


class Comparison(NamedTuple):
    """What came of replaying one instance."""

    key: Key
    engine_version: str  # that recorded the instance
    rows: int
    differences: list[Difference]
    refused: str | None  # why the commands cannot be replayed at all


@click.command("replay", epilog=EPILOG)
@click.argument("key", type=KEY)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@config_option
def command(key: int | str, as_json: bool, config: Path | None) -> None:
    """Re-derive every audit row of a process instance from its commands, and compare byte for byte.

    Exit status 0: identical; 1: a row is missing, unexpected or different (each is named with its columns), or a
    recorded command is one that the instance would have refused. KEY: process instance key or request id.
    """
    compared = asyncio.run(_compare(load_settings(config, os.environ), key))
    if as_json:
        click.echo(orjson.dumps(_document(compared), option=orjson.OPT_INDENT_2))
    else:
        _print(compared)
    if compared.differences or compared.refused:
        raise click.exceptions.Exit(1)


async def _compare(settings: Settings, key: Key | str) -> Comparison:
    async with reading(settings) as audit:
        stored = await audit.load(key)
        program = await Programs().of_start(audit.definitions, stored.start)
        commands = [(logged.command, logged.at_us) for logged in stored.commands]
        version = stored.start.engine_version
        try:
            records = derive_records(program, commands)
            derived = rows_from_records(InstanceContext.of_start(stored.start), records)
        except (Rejected, ValueError) as refusal:  # ValueError: a value that no row can hold
            return Comparison(stored.key, version, 0, [], str(refusal))
        rows = await audit.queries.stored_rows(stored.key)
        return Comparison(stored.key, version, len(rows), differences(stored.key, rows, derived), None)


def _print(compared: Comparison) -> None:
    if compared.engine_version != __version__:
        click.echo(
            f"warning: engine {compared.engine_version} began this instance, and engine {__version__} replays it; where"
            f" they behave differently, rows differ that nobody has changed: only engine {compared.engine_version}"
            " can prove it",
            err=True,
        )
    for difference in compared.differences:
        click.echo(str(difference))
    if compared.refused:
        click.echo(f"process instance {compared.key}: a recorded command cannot be replayed: {compared.refused}")
    elif not compared.differences:
        click.echo(f"process instance {compared.key}: {compared.rows} rows follow from its commands, byte for byte")


def _document(compared: Comparison) -> dict[str, object]:
    return {
        "process_instance_key": str(compared.key),
        "engine_version": compared.engine_version,
        "rows": compared.rows,
        "identical": not compared.differences and compared.refused is None,
        "refused": compared.refused,
        "differences": [
            {"position": each.position, "what": each.what, "columns": each.columns} for each in compared.differences
        ],
    }
