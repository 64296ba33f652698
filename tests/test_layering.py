"""The import rule: data and imports flow one way, pure rooms stay pure, tasks see only the surface of the engine."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Each room may import the rooms before it, and itself.
ORDER = [
    {"errors", "records", "keys", "inference", "xml"},
    {"feel"},
    {"dmn"},
    {"bpmn"},
    {"core"},
    {"registry", "settings", "tally", "telemetry"},
    {"store"},
    {"linking", "route_rules"},
    {"uploads"},
    {
        *("alarms", "deployments", "gate", "inbox", "job", "jobs", "live", "loading", "meter", "notices", "ownership"),
        *("parking", "recovery", "roster", "run", "runtime", "slices", "waiting"),
        *("correlation", "deliveries", "event_store", "instances", "owned", "polls", "resumption"),
        *("start_events", "start_timers", "starts", "subscriptions", "trial", "work"),
    },
    {"api"},
    {"local"},
    {"demo"},
    {"cli"},
]
PURE = {"errors", "records", "keys", "inference", "xml", "feel", "dmn", "bpmn", "core"}
IMPURE_MODULES = {
    "asyncio",
    "datetime.now",
    "fastapi",
    "logging",
    "os",
    "psycopg",
    "random",
    "requests",
    "secrets",
    "socket",
    "sqlalchemy",
    "starlette",
    "subprocess",
    "threading",
    "time",
    "urllib",
    "uuid",
    "uvicorn",
}
SURFACE_NAMES = "__all__"


def _modules(package: str) -> list[Path]:
    return sorted(path for path in (ROOT / package).rglob("*.py") if "models" not in path.parts)


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _room(path: Path) -> str:
    return path.relative_to(ROOT / "engine").parts[0].removesuffix(".py")


def _rank(room: str) -> int:
    return next(rank for rank, rooms in enumerate(ORDER) if room in rooms)


@pytest.mark.parametrize("path", [p for p in _modules("engine") if _room(p) != "__init__"], ids=str)
def test_a_room_imports_only_rooms_before_it(path: Path) -> None:
    rank = _rank(_room(path))
    for line, module in _imports(path):
        parts = module.split(".")
        if (
            parts[0] == "engine"
            and len(parts) > 1
            and (ROOT / "engine" / parts[1]).with_suffix("").exists() | (ROOT / "engine" / f"{parts[1]}.py").exists()
        ):
            assert _rank(parts[1]) <= rank, f"{path}:{line} imports {module}, a later room"
        assert parts[0] != "tasks", f"{path}:{line} imports tasks; the engine gets them by name from the settings"


@pytest.mark.parametrize("path", [p for p in _modules("engine") if _room(p) in PURE], ids=str)
def test_a_pure_room_imports_no_io_clock_or_randomness(path: Path) -> None:
    for line, module in _imports(path):
        found = {module, module.split(".")[0]} & IMPURE_MODULES
        assert not found, f"{path}:{line} imports {module}"


@pytest.mark.parametrize("path", _modules("tasks"), ids=str)
def test_tasks_import_only_the_surface_of_the_engine(path: Path) -> None:
    import engine

    allowed = {f"engine.{name}" for name in engine.__all__} | {"engine"}
    for line, module in _imports(path):
        if module.split(".")[0] == "engine":
            assert module in allowed, f"{path}:{line} imports {module}"


@pytest.mark.parametrize("path", [p for p in _modules("engine") + _modules("tasks") if p.name != "spiff.py"], ids=str)
def test_spiffworkflow_is_imported_in_one_module_only(path: Path) -> None:
    assert not [module for _, module in _imports(path) if module.split(".")[0] == "SpiffWorkflow"]


@pytest.mark.parametrize("path", _modules("engine") + _modules("tasks"), ids=str)
def test_a_module_opens_with_what_it_owns_what_it_never_does_and_who_calls_it(path: Path) -> None:
    lines = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()
    assert len(lines) >= 3, f"{path} has no opening of three lines"
    assert lines[0].startswith("Owns"), path
    assert any(line.startswith("Never") for line in lines[:4]), path
    assert any(line.startswith("Called by") for line in lines[:5]), path


def test_the_rule_is_not_vacuous() -> None:
    assert len(_modules("engine")) > 20
    assert len(_modules("tasks")) > 5
    assert any(module.startswith("engine.") for path in _modules("engine") for _, module in _imports(path))
