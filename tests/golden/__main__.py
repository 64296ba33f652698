"""Owns `python -m tests.golden`: records logs, and adds them to the manifest.
Never overwrites a log: what is recorded is frozen.
Called by whoever adds a log.
"""

from __future__ import annotations

import shutil
import sys

from engine.records import RECORD_SCHEMA_VERSION
from tests.golden import logs
from tests.golden.recording import Recording, head_of
from tests.golden.rows import line
from tests.golden.scripts import SCRIPTS
from tests.linked import Files

USAGE = """usage: python -m tests.golden list | show NAME | record NAME [NAME ...] | record all

list    the names of the scripts in tests/golden/scripts.py; those with a * are not recorded yet
show    print what would be recorded
record  record a script once and for ever, or every script that is not recorded yet
"""


def lines_of(name: str) -> list[str]:
    script = SCRIPTS[name]
    linked = Files(script.files).link()
    log = Recording(linked, script, name).log
    return [line(head_of(name, script, log, RECORD_SCHEMA_VERSION)), *logs.body_of(linked.program, log)]


def record(name: str) -> None:
    """Raises SystemExit when there is such a log, or a diagram of that name that is another one."""
    target = logs.FOLDER / f"{name}.jsonl"
    if target.exists():
        raise SystemExit(f"{name} is recorded: a change of behaviour is a new log beside it, and an ADR")
    lines = lines_of(name)
    target.parent.mkdir(exist_ok=True)
    for source in SCRIPTS[name].files:
        copy = target.parent / source.name
        if copy.exists() and copy.read_bytes() != source.read_bytes():
            raise SystemExit(f"{copy} is frozen and another file than {source}: record into a new folder")
        shutil.copyfile(source, copy)
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    logs.add_to_manifest()
    print(f"{name}: {len(lines)} lines")


def main(arguments: list[str]) -> None:
    unrecorded = [name for name in SCRIPTS if not (logs.FOLDER / f"{name}.jsonl").exists()]
    match arguments:
        case ["list"]:
            print("\n".join(f"{name}{' *' if name in unrecorded else ''}" for name in SCRIPTS))
        case ["show", name] if name in SCRIPTS:
            print("\n".join(lines_of(name)))
        case ["record", "all"]:
            for name in unrecorded:
                record(name)
        case ["record", *names] if names and set(names) <= set(SCRIPTS):
            for name in names:
                record(name)
        case _:
            raise SystemExit(USAGE)


if __name__ == "__main__":
    main(sys.argv[1:])
