"""Owns `conch demo`: its options, what is printed where, and the exit status.
Never runs a part itself; the stage does.
Called by people and by `make demo`.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from pathlib import Path

import click
import orjson

from engine.demo.errors import DemoError
from engine.demo.play import Play, perform
from engine.demo.progress import Progress
from engine.demo.report import as_document, as_text
from engine.demo.stage import Stage, open_stage

EPILOG = """\b
Examples:
  conch demo                              about half a minute, then the report
  conch demo --requests 1000 --seed 7     more of the same, repeatable
  conch demo --keep                       leave everything running and show where
  conch demo --json > demo.json           the report for a machine
"""
MIN_REQUESTS = 60  # fewer are over before a killed server can be seen to be missed


@click.command("demo", epilog=EPILOG)
@click.option(
    "--requests", type=click.IntRange(MIN_REQUESTS, 100_000), default=300, show_default=True, help="How many to send."
)
@click.option("--concurrency", type=click.IntRange(4, 64), default=8, show_default=True, help="How many at once.")
@click.option(
    "--seed", type=click.IntRange(0), help="Repeat a run's requests. Default: a new one, which the report names."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@click.option("--keep", is_flag=True, help="Leave everything running until Ctrl-C, and show where it is.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".conch/demo"),
    show_default=True,
    help="Where data and logs are kept.",
)
def command(requests: int, concurrency: int, seed: int | None, as_json: bool, keep: bool, folder: Path) -> None:
    """Show Conch at work: real requests on two real Triton servers, one of which is killed and comes back.

    Starts an embedded Postgres, two Triton servers on the CPU and the gateway, sends requests, then reads the audit and
    prints what it says. Exit status 0: everything was as claimed; 1: something was not, and the report says what.
    """
    if seed is None:
        seed = random.randrange(1_000_000)
    try:
        play = asyncio.run(_run(requests, concurrency, seed, as_json, keep, folder.resolve()))
    except DemoError as error:
        raise click.ClickException(str(error)) from error
    except asyncio.CancelledError:
        raise click.exceptions.Exit(128 + signal.SIGTERM) from None
    if not play.holds:
        raise click.exceptions.Exit(1)


async def _run(requests: int, concurrency: int, seed: int, as_json: bool, keep: bool, folder: Path) -> Play:
    task = asyncio.current_task()
    assert task is not None
    # Ctrl-C cancels this task already; a service manager's or a shell's SIGTERM ends everything in the same order.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    progress = Progress(sys.stderr)
    async with open_stage(folder, progress.note) as stage:
        play = await perform(stage, requests, concurrency, seed, progress)
        if as_json:
            click.echo(orjson.dumps(as_document(play), option=orjson.OPT_INDENT_2))
        else:
            click.echo(as_text(play))
        if keep:
            click.echo(_where(stage), err=True)
            raise DemoError(await stage.gateway.ended())
    return play


def _where(stage: Stage) -> str:
    return f"""
Everything keeps running until Ctrl-C:
  gateway    {stage.gateway.url}
  API        {stage.gateway.url}/docs
  metrics    {stage.gateway.url}/metrics
  Triton     {stage.victim.http_url}  {stage.survivor.http_url}
  settings   {stage.config}
  audit      PGPASSWORD=$(cat {stage.password_file}) psql "{stage.psql_target}"
             SELECT * FROM audit.requests LIMIT 10;
"""
