"""`engine.feel` needs nothing but the standard library, and the page's own example runs as it is printed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import engine

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "feel.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def alone(code: str) -> str:
    """What a Python without any installed package prints when it runs that code."""
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", start + code], check=False, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_python_without_packages_can_use_it_and_nothing_else_is_imported() -> None:
    code = (
        "before = set(sys.modules)\n"
        "from engine.feel import compile_expression\n"
        "assert compile_expression('a + 1').evaluate({'a': 1}) == 2\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    imported = set(alone(code).split())
    packages = {name.split(".")[0] for name in imported}
    # What the standard library itself builds its paths from, for zones; its name is that of the platform.
    assert {name for name in packages - sys.stdlib_module_names if not name.startswith("_sysconfigdata")} == {"engine"}
    assert {name for name in imported if name.startswith("engine.") and not name.startswith("engine.feel")} == set()


def test_the_pages_python_runs_as_printed_and_gives_what_its_comments_say() -> None:
    assert BLOCKS
    for block in BLOCKS:
        told = []
        for statement in ast.parse(block).body:
            lines = block.splitlines()[statement.lineno - 1 : statement.end_lineno]
            if isinstance(statement, ast.Expr) and (comment := re.search(r"  # (.*)$", lines[-1])):
                told.append(f"assert ({ast.unparse(statement.value)}) == ({comment[1]}), {lines!r}")
            else:
                told.append(ast.unparse(statement))
        alone("\n".join(told))


def test_the_surface_of_tasks_names_where_each_of_its_names_is_from() -> None:
    for name in engine.__all__:
        assert getattr(engine, name) is not None
    assert not hasattr(engine, "no_such_name")
