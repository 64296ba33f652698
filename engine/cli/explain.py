"""Owns `conch explain`: one request told in sentences, or its walked path drawn on the designer's own diagram.
Never writes to the audit; everything comes from rows.
Called by operators, auditors and anybody who asks what happened to a request.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click
import orjson

from engine.api.documents import instance_document
from engine.api.narrative import tell, walked
from engine.bpmn.picture import draw
from engine.cli import config_option
from engine.cli.reading import KEY, Audit, reading
from engine.cli.waits import waits
from engine.core.replay import replay
from engine.linking import Programs
from engine.settings import Settings, load_settings
from engine.store.queries import StoredInstance

EPILOG = """\b
Examples:
  conch explain 1234567890                      about ten sentences
  conch explain 0193a5c0-...                    the same, by the Conch-Request-Id header
  conch explain 1234567890 --svg request.svg    the walked path, with durations
  conch explain 1234567890 --json               everything that is recorded
"""


@click.command("explain", epilog=EPILOG)
@click.argument("key", type=KEY)
@click.option(
    "--svg",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Draw into this file; - for standard output.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@config_option
def command(key: int | str, svg: Path | None, as_json: bool, config: Path | None) -> None:
    """Tell what happened to one request or process instance, from the audit's rows alone, and what an open one waits
    for. KEY: process instance key or request id."""
    stored, xml, waiting = asyncio.run(_load(load_settings(config, os.environ), key))
    if svg is not None:
        picture = draw(xml, walked(stored))
        if str(svg) == "-":
            click.echo(picture)
        else:
            svg.write_text(picture, encoding="utf-8")
            click.echo(f"drawn into {svg}", err=True)
    elif as_json:
        click.echo(orjson.dumps(instance_document(stored), option=orjson.OPT_INDENT_2))
    else:
        for sentence in (*tell(stored), *waiting):
            click.echo(sentence)


async def _load(settings: Settings, key: int | str) -> tuple[StoredInstance, bytes, list[str]]:
    async with reading(settings) as audit:
        stored = await audit.load(key)
        return stored, await audit.xml_of(stored), await _waits(audit, stored)


async def _waits(audit: Audit, stored: StoredInstance) -> list[str]:
    """What has to happen from outside before an open instance goes on. Raises Rejected when it cannot be rebuilt."""
    if any(fact["kind"] == "instance_ended" for fact in stored.facts) or stored.start.online:
        return []
    program = await Programs().of_start(audit.definitions, stored.start)
    return waits(replay(program, [(logged.command, logged.at_us) for logged in stored.commands]))
