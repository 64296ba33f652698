"""The guides name everything that they promise to name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_origin

from pydantic import BaseModel

from engine.errors import Code, Family, meaning_of
from engine.settings import DefaultSettings, Settings

DOCS = Path(__file__).parents[2] / "docs"
NEVER_SAID_TO_API_CLIENTS = {Code.NOT_FOUND, Code.ALREADY_EXISTS, Code.STALE, Code.CANCELLED, Code.CLIENT_DISCONNECTED}


def keys_of(part: type[BaseModel], prefix: str = "") -> set[str]:
    found: set[str] = set()
    for name, described in part.model_fields.items():
        kinds = [kind for kind in (described.annotation, *get_args(described.annotation)) if get_origin(kind) is None]
        deeper = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
        found |= {f"{prefix}{name}"} if deeper is None else keys_of(deeper, f"{prefix}{name}.")
    return found


def test_every_setting_is_in_the_guide_for_operators_and_no_other() -> None:
    told = set(re.findall(r"`([a-z_.]+)`", "\n".join(re.findall(r"^\| (`.*?) \|", text("operators.md"), re.MULTILINE))))
    wanted = {key for key in keys_of(Settings) if not key.startswith("defaults.")}
    assert {key for key in told if key.split(".")[0] in Settings.model_fields} == wanted
    assert all(f"`{name}`" in text("operators.md") for name in DefaultSettings.model_fields)


def test_every_code_that_a_client_meets_is_in_the_guide_for_clients_with_its_status() -> None:
    rows = dict(re.findall(r"^\| (\d{3}) \| (.*?) \|", text("clients.md"), re.MULTILINE))
    told = {code: int(status) for status, codes in rows.items() for code in re.findall(r"`([A-Z_]+)`", codes)}
    met = [code for code in Code if meaning_of(code).family is not Family.INCIDENT]
    assert told == {code.value: meaning_of(code).http_status for code in met if code not in NEVER_SAID_TO_API_CLIENTS}


def text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")
