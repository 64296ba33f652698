"""Owns `conch process`: what is deployed, what a version changes, and the switch that says which version serves.
Never stores a file (`conch deploy` does) and never touches a running instance.
Called by operators; works beside a running gateway, which follows within a second.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import orjson

from engine.bpmn import parse
from engine.bpmn.definition import ProcessDefinition
from engine.bpmn.diff import Change, diff
from engine.cli import config_option
from engine.cli.deployed import decision_option, deployed, json_option, reason_option, whoami
from engine.deployments import Deployments
from engine.errors import Code, DefinitionInvalid, Rejected
from engine.linking import called_by
from engine.settings import Settings, load_settings
from engine.store.definitions import DECISION, PROCESS, Activation, StoredDefinition

EPILOG = """\b
Examples:
  conch process list
  conch process show inference-request --version 3
  conch process diff inference-request 2 3
  conch process activate inference-request 2 --reason "retries cost too much"
  conch process rollback inference-request
"""
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


@click.group("process", epilog=EPILOG)
def command() -> None:
    """Look at deployed processes, and say which version of each serves.

    The newest deployed version serves until it is switched. Instances keep the version that they started with.
    """


# --- looking ------------------------------------------------------------------------------------------------------


@command.command("list", epilog="\b\nExamples:\n  conch process list\n  conch process list --decision --json\n")
@click.option("--decision", is_flag=True, help="List the decisions of .dmn files instead.")
@json_option
@config_option
def list_command(decision: bool, as_json: bool, config: Path | None) -> None:
    """List every process, with the version that serves."""
    settings = load_settings(config, os.environ)
    known = asyncio.run(_all_versions(settings, DECISION if decision else PROCESS))
    newest = {each.process_id: each.version for each in reversed(known)}
    active = sorted((each for each in known if each.active), key=lambda each: each.process_id)
    if as_json:
        documents = [_document(each) | {"newest_version": newest[each.process_id]} for each in active]
        click.echo(orjson.dumps({"items": documents}, option=orjson.OPT_INDENT_2))
    else:
        rows = [
            (each.process_id, each.version, newest[each.process_id], each.version_tag or "", *_origin(each))
            for each in active
        ]
        _print_table(("ID", "SERVES", "NEWEST", "TAG", "DEPLOYED AT", "BY", "FILE"), rows)


async def _all_versions(settings: Settings, kind: str) -> list[StoredDefinition]:
    async with deployed(settings) as deployments:
        return await deployments.search(kind=kind)


@command.command("show", epilog="\b\nExamples:\n  conch process show inference-request\n  conch process show x --xml\n")
@click.argument("id")
@click.option("--version", type=click.IntRange(min=1), help="Default: the version that serves.")
@click.option("--xml", is_flag=True, help="Print the file as it was deployed, and nothing else.")
@decision_option
@json_option
@config_option
def show_command(id: str, version: int | None, xml: bool, decision: bool, as_json: bool, config: Path | None) -> None:
    """Show one version: its elements and calls, who brought it, and when which version served."""
    settings = load_settings(config, os.environ)
    asyncio.run(_show(settings, id, version, DECISION if decision else PROCESS, xml, as_json))


async def _show(settings: Settings, id: str, version: int | None, kind: str, xml: bool, as_json: bool) -> None:
    async with deployed(settings) as deployments:
        stored, content = await _load(deployments, id, version, kind)
        if xml:
            click.echo(content, nl=False)
            return
        history = await deployments.history(id, kind)
        nodes = await _elements(deployments, stored, content) if kind == PROCESS else []
    if as_json:
        document = _document(stored) | {"elements": nodes, "activations": [_turn(each) for each in history]}
        click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2))
        return
    _print_head(stored)
    if nodes:
        click.echo()
        _print_table(("ELEMENT", "TYPE", "TOPIC OR CALL", "NAME"), [tuple(each.values()) for each in nodes])
    click.echo()
    rows = [
        (each.version, each.cause.replace("_", " "), _shown(each.activated_at), each.activated_by, each.reason)
        for each in reversed(history)
    ]
    _print_table(("SERVED", "BECAUSE", "SINCE", "BY", "REASON"), rows)


@command.command("diff", epilog="\b\nExamples:\n  conch process diff inference-request 2 3\n")
@click.argument("id")
@click.argument("old", type=click.IntRange(min=1))
@click.argument("new", type=click.IntRange(min=1))
@json_option
@config_option
def diff_command(id: str, old: int, new: int, as_json: bool, config: Path | None) -> None:
    """Say what version NEW means otherwise than version OLD: elements, flows, expressions; not layout or order."""
    settings = load_settings(config, os.environ)
    before, after = asyncio.run(_two(settings, id, old, new))
    changes = diff(before, after)
    if as_json:
        listed = [each._asdict() | {"fields": [field._asdict() for field in each.fields]} for each in changes]
        click.echo(orjson.dumps({"id": id, "old": old, "new": new, "changes": listed}, option=orjson.OPT_INDENT_2))
        return
    for change in changes:
        _print_change(change)
    if not changes:
        same = before.content_hash == after.content_hash
        click.echo("the same file" if same else "no difference in meaning: only layout, order or comments")


async def _two(settings: Settings, id: str, old: int, new: int) -> tuple[ProcessDefinition, ProcessDefinition]:
    async with deployed(settings) as deployments:
        return (
            _definition(*await _load(deployments, id, old, PROCESS)),
            _definition(*await _load(deployments, id, new, PROCESS)),
        )


# --- switching ----------------------------------------------------------------------------------------------------


@command.command("activate", epilog='\b\nExamples:\n  conch process activate inference-request 2 --reason "too slow"\n')
@click.argument("id")
@click.argument("version", type=click.IntRange(min=1))
@reason_option
@decision_option
@config_option
def activate_command(id: str, version: int, reason: str, decision: bool, config: Path | None) -> None:
    """Let VERSION of ID serve from now on. Instances that run keep theirs."""
    settings = load_settings(config, os.environ)
    _print_switched(asyncio.run(_activate(settings, id, version, reason, DECISION if decision else PROCESS)))


async def _activate(settings: Settings, id: str, version: int, reason: str, kind: str) -> Activation:
    async with deployed(settings) as deployments:
        return await deployments.activate(id, version, by=whoami(), reason=reason, kind=kind)


@command.command("rollback", epilog='\b\nExamples:\n  conch process rollback inference-request --reason "too slow"\n')
@click.argument("id")
@reason_option
@decision_option
@config_option
def rollback_command(id: str, reason: str, decision: bool, config: Path | None) -> None:
    """Let the version of ID serve that served before; again, the one before that. Instances that run keep theirs."""
    settings = load_settings(config, os.environ)
    _print_switched(asyncio.run(_roll_back(settings, id, reason, DECISION if decision else PROCESS)))


async def _roll_back(settings: Settings, id: str, reason: str, kind: str) -> Activation:
    async with deployed(settings) as deployments:
        return await deployments.rollback(id, by=whoami(), reason=reason, kind=kind)


def _print_switched(turned: Activation) -> None:
    since = _shown(turned.activated_at)
    click.echo(f"{turned.process_id}: version {turned.version} serves since {since}, by {turned.activated_by}")


# --- loading and telling ------------------------------------------------------------------------------------------


async def _load(deployments: Deployments, id: str, version: int | None, kind: str) -> tuple[StoredDefinition, bytes]:
    """One version and its file. Raises Rejected(NOT_FOUND)."""
    known = await deployments.search(kind=kind, process_id=id)
    wanted = [each for each in known if (each.active if version is None else each.version == version)]
    if not wanted:
        newest = f"; the newest is {known[0].version}" if known else ""
        which = f"version {version} of {kind} `{id}`" if known else f"{kind} `{id}`"
        raise Rejected(Code.NOT_FOUND, f"there is no {which}{newest}")
    content = await deployments.xml(wanted[0].key)
    assert content is not None, "a row without its file"
    return wanted[0], content


def _definition(stored: StoredDefinition, content: bytes) -> ProcessDefinition:
    return next(each for each in parse(content, stored.resource_name) if each.process_id == stored.process_id)


async def _elements(deployments: Deployments, stored: StoredDefinition, content: bytes) -> list[dict[str, str]]:
    """One row per element; what it calls with the version that an instance would call now."""
    definition = _definition(stored, content)
    try:
        linked = await deployments.find(key=stored.key)
    except DefinitionInvalid:  # not to be run any more, but still to be looked at
        linked = None
    versions = {
        call.element_id: call.target.version
        for call in (() if linked is None else linked.calls)
        if call.caller == stored.content_hash
    }
    called = {each.node.id: f"{each.kind} {each.id}" for each in called_by(definition)}
    rows = []
    for node in definition.nodes.values():
        target = called.get(node.id, node.topic or "")
        if node.id in versions:
            target += f" version {versions[node.id]}"
        rows.append({"id": node.id, "type": node.type.value, "does": target, "name": node.name})
    return rows


def _document(stored: StoredDefinition) -> dict[str, Any]:
    document = stored._asdict()
    for field in ("key", "deployment_key"):
        document[field] = str(document[field])
    document["deployed_at"] = stored.deployed_at.isoformat()
    return document


def _turn(turned: Activation) -> dict[str, Any]:
    document = turned._asdict() | {"activated_at": turned.activated_at.isoformat()}
    return document | {"definition_key": str(turned.definition_key)}


def _print_head(stored: StoredDefinition) -> None:
    serves = "serves" if stored.active else "does not serve"
    tag = f", tag {stored.version_tag}" if stored.version_tag else ""
    click.echo(f"{stored.process_id} version {stored.version}{tag}: {serves}")
    when, who, file = _origin(stored)
    click.echo(f"{file}, deployed {when} by {who}")
    click.echo(f"key {stored.key}, deployment {stored.deployment_key}, sha256 {stored.content_hash}")


def _origin(stored: StoredDefinition) -> tuple[str, str, str]:
    return _shown(stored.deployed_at), stored.deployed_by, stored.resource_name


def _shown(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def _print_change(change: Change) -> None:
    name = f' "{change.name}"' if change.name else ""
    kind = f"{change.kind} {change.type}".rstrip()
    click.echo(f"{_SIGNS[change.what]} {kind} {change.id}{name}")
    for field, before, after in change.fields:
        if field in ("name", "type") and change.what != "changed":
            continue
        told = after if before is None else before if after is None else f"{before} -> {after}"
        click.echo(f"    {field}: {told if told is not None else ''}")


def _print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    table = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
