"""Owns golden logs as files: their lines, from recorded commands and back.
Never writes a file, and never takes anything but the commands from a recorded one.
Called by the recorder and by the test of the golden logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from engine.bpmn.spiff import Program
from engine.core import ProcessInstance
from engine.records import Command, Start, Step
from engine.store import command_log, json_text
from engine.store.canonical import CanonicalRow, rows_from_records
from engine.store.encoding import InstanceContext
from tests.golden.rows import REPEATED, digest, line, readable
from tests.linked import Files

FOLDER: Final = Path(__file__).parent
MANIFEST: Final = FOLDER / "MANIFEST.sha256"
DATA: Final = ("*.bpmn", "*.dmn", "*.jsonl")


def log_files() -> list[Path]:
    return sorted(FOLDER.glob("*/*.jsonl"))


def name_of(log: Path) -> str:
    return f"{log.parent.name}/{log.stem}"


def diagrams_beside(log: Path) -> list[Path]:
    """The files that were deployed: each process and decision keeps the place that it had at the recording."""
    return sorted(log.parent.glob("*.bpmn")) + sorted(log.parent.glob("*.dmn"))


def manifest() -> Iterator[str]:
    """One line for each file of each log, as `sha256sum` prints it."""
    for path in sorted(path for pattern in DATA for path in FOLDER.glob(f"*/{pattern}")):
        yield f"{sha256(path.read_bytes()).hexdigest()}  {path.relative_to(FOLDER).as_posix()}"


def add_to_manifest() -> None:
    """Append what is not in it yet; what is in it stays as it is."""
    written = MANIFEST.read_text(encoding="utf-8") if MANIFEST.exists() else ""
    known = {each.split("  ", 1)[1] for each in written.splitlines()}
    added = [f"{each}\n" for each in manifest() if each.split("  ", 1)[1] not in known]
    MANIFEST.write_text(written + "".join(added), encoding="utf-8")


# --- writing -----------------------------------------------------------------------------------------------------


def body_of(program: Program, commands: Iterable[tuple[Command, int]], *, steps: bool = True) -> list[str]:
    """Every line but the first. Raises Rejected for a command that the instance refuses, and the engine's own fault."""
    instance, context = ProcessInstance(program), None
    lines: list[str] = []
    rows: list[CanonicalRow] = []
    for command, at_us in commands:
        if context is None:
            assert isinstance(command, Start)
            context = InstanceContext.of_start(command)
        step = instance.apply(command, at_us)
        if instance.fault is not None:
            raise instance.fault
        made = rows_from_records(context, step.records)
        rows += made
        lines.append(line({"command": command_log.encode(command, at_us)}))
        lines += [line({"fact": line(_own(row)).encode()}) for row in made]
        if steps:
            lines.append(line({"step": line(said_of(step)).encode()}))
    everywhere = {name: value for name, value in readable(rows[0]).items() if name in REPEATED}
    assert all(everywhere.items() <= readable(row).items() for row in rows)
    end = {"every_row": line(everywhere).encode(), "rows": len(rows), "sha256": digest(rows)}
    return [*lines, line({"end": line(end).encode()})]


def _own(row: CanonicalRow) -> dict[str, Any]:
    return {name: value for name, value in readable(row).items() if name not in REPEATED}


def said_of(step: Step) -> dict[str, Any]:
    """What a step asks for; what is empty or has its default is left out, so that fields may be added."""
    said = {
        name: [_fields(each) for each in value] if isinstance(value, tuple) else value
        for name, value in step._asdict().items()
        if name not in ("records", "outcome") and value != ()
    }
    return said if step.outcome is None else said | {"outcome": _fields(step.outcome)}


def _fields(value: Any) -> Any:
    if not hasattr(value, "_asdict"):
        return value
    usual = value._field_defaults
    return {name: each for name, each in value._asdict().items() if name not in usual or usual[name] != each}


# --- reading -----------------------------------------------------------------------------------------------------


def recorded(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines()


def commands_of(lines: Iterable[str]) -> list[tuple[Command, int]]:
    said = [json_text.loads(each) for each in lines]
    stored = [each["command"] for each in said if "command" in each]
    return [(logged.command, logged.at_us) for logged in command_log.unpack(1, stored)]


def replayed(log: Path) -> list[str]:
    """The lines that the recorded commands mean today, the first one as it was recorded."""
    lines = recorded(log)
    head: Mapping[str, Any] = json_text.loads(lines[0])
    commands = commands_of(lines)
    start = commands[0][0]
    assert isinstance(start, Start)
    program = Files(diagrams_beside(log)).program_of(start)
    return [lines[0], *body_of(program, commands, steps=head["steps"])]
