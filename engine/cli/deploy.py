"""Owns `conch deploy`: files become new versions that serve from then on, all or none.
Never judges a file; the deployments do.
Called by designers and by continuous integration.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click
import orjson

from engine.bpmn.xml import MAX_BYTES
from engine.cli import config_option
from engine.cli.deployed import deploying, json_option, whoami
from engine.deployments import Deployment
from engine.settings import Settings, load_settings
from engine.uploads import Resource

EPILOG = """\b
Examples:
  conch deploy processes/inference-request.bpmn
  conch deploy order.bpmn policy.dmn approval.form     together: all or none
"""


@click.command("deploy", epilog=EPILOG)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
@config_option
def command(files: tuple[Path, ...], as_json: bool, config: Path | None) -> None:
    """Deploy .bpmn, .dmn and .form files. What is new or changed becomes the next version, and serves from now on.

    Exit status 0: deployed, or nothing was new; 1: refused, with every problem of every file, and nothing changed.
    """
    deployment = asyncio.run(_deploy(load_settings(config, os.environ), files))
    if as_json:
        click.echo(orjson.dumps(_document(deployment), option=orjson.OPT_INDENT_2))
        return
    for problem in deployment.warnings:
        click.echo(str(problem), err=True)
    for kind, definition, new, switched in deployment.items:
        became = "deployed" if new else "unchanged, serves again" if switched else "unchanged"
        click.echo(f"{kind} {definition.process_id} version {definition.version}: {became}")


async def _deploy(settings: Settings, files: tuple[Path, ...]) -> Deployment:
    resources = []
    for file in files:
        try:
            with file.open("rb") as stream:
                resources.append(Resource(file.name, stream.read(MAX_BYTES + 1)))
        except OSError as error:
            raise click.ClickException(f"{file} cannot be read: {error.strerror}.") from None
    async with deploying(settings) as deployments:
        return await deployments.deploy(resources, deployed_by=whoami())


def _document(deployment: Deployment) -> dict[str, object]:
    return {
        "deployment_key": str(deployment.key),
        "items": [
            {
                "kind": kind,
                "id": definition.process_id,
                "version": definition.version,
                "key": str(definition.key),
                "resource_name": definition.resource_name,
                "new": new,
                "active": definition.active,
            }
            for kind, definition, new, _ in deployment.items
        ],
        "warnings": [problem._asdict() for problem in deployment.warnings],
    }
