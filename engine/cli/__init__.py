"""Owns the `conch` command: its subcommands, their help and how errors are told on a terminal.
Never holds behaviour of the product; each command is a module of its own, imported when it runs.
Called by people, by make and by service managers.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click

from engine.errors import ConchError, DefinitionInvalid, SettingsInvalid

_COMMANDS = {
    "serve": "Run the gateway.",
    "demo": "Show Conch at work on two real Triton servers, one of which is killed.",
    "deploy": "Deploy diagrams, decisions and forms: what is new serves from now on, all or none.",
    "process": "Look at deployed processes, and say which version of each serves.",
    "feel": "Evaluate a FEEL expression and explain the result.",
    "check": "Check diagrams: every problem with file, element, rule and remedy.",
    "explain": "Tell one request in plain sentences, or draw its walked path.",
    "replay": "Re-derive an instance's audit rows from its commands and compare them byte for byte.",
    "migrate": "Bring a database's schema to this version.",
}

EXAMPLES = """\b
Examples:
  conch demo                        real requests on real Triton servers
  conch serve                       the gateway on 127.0.0.1:8080
  conch check processes/            all problems of all diagrams
  conch explain 1234567890          what happened to one request
"""


class LazyGroup(click.Group):
    """Imports a command's module when it is asked for, so that `--help` and `check` start quickly."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(f"engine.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _version() -> str:
    from engine import __version__

    return __version__


@click.group(cls=LazyGroup, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="conch")
def group() -> None:
    """Conch governs the life of every inference request by a BPMN diagram, and records each step in Postgres."""


config_option = click.option(
    "--config",
    "config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Settings file. Default: $CONCH_CONFIG, else ./conch.toml if there is one.",
)


def main() -> None:
    """Run the command line; errors that a person can mend are told without a traceback, exit status 1."""
    try:
        # Without click's own error handling, the status of click.exceptions.Exit is what `main` returns.
        sys.exit(group.main(standalone_mode=False) or 0)
    except click.Abort:
        click.echo("stopped", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (SettingsInvalid, DefinitionInvalid) as invalid:
        for problem in invalid.problems:
            click.echo(str(problem), err=True)
        click.echo(f"{len(invalid.problems)} problem(s); nothing was started or changed", err=True)
        sys.exit(1)
    except ConchError as error:
        click.echo(f"conch: {error}", err=True)
        sys.exit(1)
    except Exception as error:  # command edge: what the database says is for a person, everything else is a bug
        if (told := _told_by_the_database(error)) is None:
            raise
        click.echo(told, err=True)
        sys.exit(1)


def _told_by_the_database(error: Exception) -> str | None:
    import psycopg
    from sqlalchemy.exc import DBAPIError

    cause = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(cause, psycopg.Error):
        return None
    said = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
    return f"conch: the database cannot be used: {said}. Is it running, and is postgres.url right?"
