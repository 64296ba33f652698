"""Owns `conch check`: the problems of diagrams, on a terminal or as JSON.
Never deploys, starts or changes anything.
Called by designers, by `make check` and by continuous integration.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import click
import orjson

from engine.bpmn import check_paths
from engine.cli import config_option
from engine.registry import REGISTRY
from engine.settings import load_settings

EPILOG = """\b
Examples:
  conch check processes/
  conch check my.bpmn other.bpmn --json
  conch check my.bpmn --workers      its jobs are done by workers in other languages
"""


@click.command("check", epilog=EPILOG)
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@click.option("--workers", is_flag=True, help="Leave topics that no task serves to workers: only warn.")
@config_option
def command(paths: tuple[Path, ...], as_json: bool, workers: bool, config: Path | None) -> None:
    """Check diagrams as a deployment would: every problem with file, element id, name, rule and remedy.

    A topic that no task of this gateway serves is an error. With --workers it is a warning, as when the diagram is
    deployed: a worker in any language may serve it, except in the process that serves requests and in those it calls.

    Exit status 0: nothing is wrong (warnings may be printed); 1: some diagram would be refused.
    """
    settings = load_settings(config, os.environ)
    importlib.import_module(settings.tasks)
    problems = check_paths(paths, REGISTRY.specs, serving={settings.process}, workers=workers)
    errors = [problem for problem in problems if problem.severity == "error"]
    if as_json:
        listed = [problem._asdict() for problem in problems]
        click.echo(orjson.dumps({"errors": len(errors), "problems": listed}, option=orjson.OPT_INDENT_2))
    else:
        for problem in problems:
            click.echo(str(problem))
        warnings = len(problems) - len(errors)
        click.echo(f"{len(errors)} error(s), {warnings} warning(s)", err=True)
        if any(problem.rule == "unknown-topic" for problem in errors) and not workers:
            click.echo("topics that are served by workers in other languages: check with --workers", err=True)
    if errors:
        raise click.exceptions.Exit(1)
