"""Owns the settings and files of a local Postgres: folder, account, password, lock, leftovers.
Never starts the server itself.
Called by the Postgres supervisor (postgres.py).
"""

import fcntl
import hashlib
import os
import platform
import pwd
import secrets
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from engine.local.binaries import SHARED_ROOT, PostgresError, binaries_version, copied_binaries, find_binaries
from engine.local.process import Account, can_reach, is_running

# sockaddr_un.sun_path holds 108 bytes on Linux and 104 on macOS, the final NUL included.
_SOCKET_PATH_BYTES = 100

# What durability and this supervisor's own bookkeeping rest on.
_FIXED_SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "logging_collector": "off",
    "log_destination": "stderr",
    "lc_messages": "C",
    "log_startup_progress_interval": "1s",
    "unix_socket_permissions": "0700",
}
_OWN_SETTINGS = {"listen_addresses", "port", "unix_socket_directories", "data_directory", "hba_file"}
# For a machine that the gateway and its replicas share.
_SMALL_MACHINE_SETTINGS = {
    "shared_buffers": "128MB",
    "max_connections": "50",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
}


@dataclass(frozen=True)
class PostgresConfig:
    """Where and how the local Postgres runs.

    `data_dir` holds PGDATA (in `data`), password, log and lock. `binaries` is a folder with `postgres` and
    `initdb` (default: see find_binaries). `port` opens 127.0.0.1 beside the Unix socket. `user` is the
    account that root runs the server under. `start_timeout_s` is the time without any progress after which a
    start has failed. `settings` are server parameters; those that durability rests on are refused.
    """

    data_dir: Path
    binaries: Path | None = None
    port: int | None = None
    user: str | None = None
    start_timeout_s: float = 300.0
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        """Raises ValueError with every setting that may not be given."""
        if refused := sorted(self.settings.keys() & (_FIXED_SETTINGS.keys() | _OWN_SETTINGS)):
            raise ValueError(f"these Postgres settings are fixed: {', '.join(refused)}")


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
        # A comma separates folders for the server and for libpq alike.
        is_short = len(os.fsencode(inside / ".s.PGSQL.65535.lock")) < _SOCKET_PATH_BYTES
        if is_short and not set(',"') & set(str(inside)):
            return inside
        return Path("/tmp") / f"conch-{_digest(self.home)}"


def locate_cluster(config: PostgresConfig, say: Callable[[str], None]) -> Cluster:
    """Choose binaries, account and home; make the home if it is missing.

    As root the server runs as the owner of existing data, else as `config.user`, else as `postgres`, else as
    `nobody`; what that account cannot reach is placed under /var/lib/conch, keyed by its path; `say` is told.
    Raises PostgresError: unusable binaries, account or folder.
    """
    source = find_binaries(config.binaries)
    major = int(binaries_version(source).split(".")[0])
    wanted = config.data_dir.absolute().resolve()
    if (wanted / "PG_VERSION").exists():
        raise PostgresError(f"{wanted} is a Postgres data folder itself; give a folder to keep one in")
    try:
        home, account = _home_and_account(wanted, config.user, say)
        if account and not can_reach(account, source / "postgres", source / "initdb"):
            source = copied_binaries(source)
            say(f"{account.name} cannot reach the Postgres binaries; using a copy in {source}")
    except OSError as error:
        raise PostgresError(f"cannot prepare {wanted}: {error}") from error
    return Cluster(home, source, major, account)


def server_arguments(config: PostgresConfig, cluster: Cluster) -> list[str]:
    """The command line of the server, after the program's name."""
    settings = {
        **_SMALL_MACHINE_SETTINGS,
        **config.settings,
        **_FIXED_SETTINGS,
        "unix_socket_directories": str(cluster.socket_folder),
        "listen_addresses": "" if config.port is None else "127.0.0.1",
        "port": str(config.port or 5432),
    }
    return ["-D", str(cluster.data), *(word for item in settings.items() for word in ("-c", "=".join(item)))]


def check_data(cluster: Cluster) -> None:
    """Raise PostgresError unless the data folder is absent, empty, or of the right version and owner."""
    data = cluster.data
    if not data.exists():
        return
    owner = data.stat().st_uid
    is_ours = owner == (cluster.account.uid if cluster.account else os.geteuid())
    if owner == os.geteuid() and not any(data.iterdir()):
        return
    if not is_ours:
        raise PostgresError(
            f"{data} belongs to {_account_name(owner)}: start as that account or as root, or choose another folder"
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
        raise PostgresError(f"{cluster.password_file} is missing: restore it, the data cannot be opened without")


def lock_home(home: Path) -> int:
    """Take the home's lock and return its descriptor; closing that frees it, so does the end of this process.

    Raises PostgresError when another supervisor holds it. A child never inherits it.
    """
    path = home / "lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        owner = _account_name(home.stat().st_uid)
        raise PostgresError(
            f"cannot lock {home}, which belongs to {owner}: {error}. Start as that account or as root, or"
            " choose another folder"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
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
    remove_socket_folder(cluster)
    shutil.rmtree(cluster.home / "data.new", ignore_errors=True)


def remove_socket_folder(cluster: Cluster) -> None:
    """Remove the socket folder of a server that is gone; it may lie in /tmp."""
    shutil.rmtree(cluster.socket_folder, ignore_errors=True)


def has_data(config: PostgresConfig) -> bool:
    """Whether a Postgres was ever started with that configuration on this machine. Changes nothing."""
    homes = (config.data_dir, SHARED_ROOT / _digest(config.data_dir))
    return any((home / "data" / "PG_VERSION").exists() for home in homes)


def _home_and_account(wanted: Path, user: str | None, say: Callable[[str], None]) -> tuple[Path, Account | None]:
    if os.geteuid() != 0:
        own = _account_name(os.geteuid())
        if user not in (None, own):
            raise PostgresError(f"only root can run Postgres as {user}; this process runs as {own}")
        wanted.mkdir(parents=True, exist_ok=True)
        return wanted, None
    moved = SHARED_ROOT / _digest(wanted)
    for home in (wanted, moved):
        if (home / "data" / "PG_VERSION").exists():
            if home == moved:
                say(f"the data of {wanted} is kept in {moved}")
            account = _owner(home / "data")
            if not can_reach(account, home):
                raise PostgresError(f"{account.name}, owner of {home / 'data'}, can no longer reach {home}")
            return home, account
    account = _unprivileged_account(user)
    parent = next(folder for folder in (wanted, *wanted.parents) if folder.exists())
    if can_reach(account, parent):
        wanted.mkdir(parents=True, exist_ok=True)
        if can_reach(account, wanted):
            return wanted, account
    moved.mkdir(parents=True, exist_ok=True)
    for folder in (SHARED_ROOT, moved):
        folder.chmod(0o755)
    say(f"{account.name} cannot reach {wanted}; keeping the data in {moved}")
    return moved, account


def _owner(data: Path) -> Account:
    uid = data.stat().st_uid
    try:
        found = pwd.getpwuid(uid)
    except KeyError:
        raise PostgresError(f"{data} belongs to uid {uid}, which has no account here: give it to one") from None
    if uid == 0:
        raise PostgresError(f"{data} belongs to root, as which Postgres refuses to run: give it to an account")
    return Account(found.pw_name, found.pw_uid, found.pw_gid)


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
