"""Holds the tests of the embedded Postgres: real servers, real signals, real leftovers.

Uses one initialised data folder for most tests; each leaves it stopped and intact.
"""

import asyncio
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

from engine.local import cluster as files
from engine.local.binaries import binaries_version
from engine.local.postgres import (
    EmbeddedPostgres,
    PostgresConfig,
    PostgresError,
    RestartPolicy,
    StartPatience,
    find_binaries,
)
from engine.local.process import Account, can_reach, is_running, launch_argv, wait_ended

pytestmark = pytest.mark.postgres
T = TypeVar("T")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run the server under another account")

# A gateway in miniature: prints pid and URL of its server, then waits to be killed.
_OWNER = """
import asyncio, sys
from pathlib import Path
from engine.local.postgres import EmbeddedPostgres, PostgresConfig

async def main():
    async with EmbeddedPostgres(PostgresConfig(Path(sys.argv[1]))) as postgres:
        print(postgres.pid, postgres.url, flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def config(postgres_binaries: Path) -> Iterator[PostgresConfig]:
    """A stopped server with a table `kept` that holds one row."""
    with tempfile.TemporaryDirectory(prefix="conch-test-") as name:
        Path(name).chmod(0o755)
        config = PostgresConfig(Path(name))

        async def prepare() -> None:
            async with EmbeddedPostgres(config) as postgres:
                query(postgres.url, "CREATE TABLE kept (x int)")
                query(postgres.url, "INSERT INTO kept VALUES (1)")

        run(prepare())
        yield config
        assert files.server_processes(config.data_dir / "data") == []


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 60))


def query(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def rows_kept(url: str) -> int:
    return int(query(url, "SELECT count(*) FROM kept")[0][0])


async def start_and_count(config: PostgresConfig) -> tuple[int, list[str]]:
    said: list[str] = []
    async with EmbeddedPostgres(config, on_progress=said.append) as postgres:
        return rows_kept(postgres.url), said


async def start_error(config: PostgresConfig) -> str:
    postgres = EmbeddedPostgres(config)
    with pytest.raises(PostgresError) as caught:
        await postgres.start()
    return str(caught.value)


def wrapped_binaries(folder: Path, before_start: str) -> Path:
    """A folder whose `postgres` runs a shell fragment first and then becomes the real server."""
    real = find_binaries(None)
    folder.mkdir(exist_ok=True)
    for name in ("postgres", "initdb"):
        script = f'#!/bin/sh\nexec {real}/{name} "$@"\n'
        if name == "postgres":
            script = script.replace("exec", f'[ "$1" = --version ] || {{ {before_start}; }}\nexec')
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    return folder


def test_first_start_makes_a_durable_database_with_closed_doors(config: PostgresConfig) -> None:
    async def check() -> None:
        async with EmbeddedPostgres(config) as postgres:
            for name, value in {
                "fsync": "on",
                "full_page_writes": "on",
                "synchronous_commit": "on",
                "data_checksums": "on",
                "server_encoding": "UTF8",
                "timezone": "UTC",
                "listen_addresses": "",
            }.items():
                assert query(postgres.url, f"SHOW {name}") == [(value,)], name
            assert query(postgres.url, "SELECT current_database(), current_user::text, rolsuper FROM pg_roles"
                         " WHERE rolname = current_user") == [("conch", "conch", False)]  # fmt: skip
            password_file = postgres.home / "password"
            assert stat.S_IMODE(password_file.stat().st_mode) == 0o600
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                psycopg.connect(postgres.url.replace(password_file.read_text(), "wrong"))

    run(check())
    methods = [
        line.split()[-1]
        for line in (config.data_dir / "data" / "pg_hba.conf").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert set(methods) == {"scram-sha-256"}


def test_a_restart_keeps_the_data_and_leaves_no_process(config: PostgresConfig) -> None:
    async def check() -> None:
        postgres = EmbeddedPostgres(config)
        for _ in range(2):
            await postgres.start()
            pid = postgres.pid
            assert rows_kept(postgres.url) == 1
            await postgres.stop()
            assert await postgres.wait_exited() == 0
            assert postgres.failure is None
            assert not is_running(pid)
        await postgres.stop()

    run(check())


def test_a_killed_postmaster_is_seen_and_the_next_start_recovers_every_row(config: PostgresConfig) -> None:
    async def check() -> None:
        async with EmbeddedPostgres(config) as postgres:
            query(postgres.url, "CREATE TABLE crash AS SELECT generate_series(1, 1000)")
            os.kill(postgres.pid, signal.SIGKILL)
            assert await postgres.wait_exited() == -signal.SIGKILL
            assert "killed by SIGKILL" in str(postgres.failure)
        async with EmbeddedPostgres(config) as postgres:
            assert query(postgres.url, "SELECT count(*) FROM crash") == [(1000,)]
            query(postgres.url, "DROP TABLE crash")

    run(check())


def test_a_crashed_server_is_restarted_until_it_crashes_too_often(config: PostgresConfig) -> None:
    async def check() -> None:
        restarts: asyncio.Queue[str] = asyncio.Queue()
        async with EmbeddedPostgres(
            config, restart=RestartPolicy(max_restarts=2), on_restart=restarts.put_nowait
        ) as postgres:
            pids = {postgres.pid}
            for _ in range(2):
                os.kill(postgres.pid, signal.SIGKILL)
                assert "killed by SIGKILL" in await restarts.get()
                pids.add(postgres.pid)
                assert rows_kept(postgres.url) == 1
            assert len(pids) == 3
            os.kill(postgres.pid, signal.SIGKILL)
            assert await postgres.wait_exited() == -signal.SIGKILL
            assert "3 crashes in 60 s" in str(postgres.failure)
            assert not any(map(is_running, pids))

    run(check())


def test_a_restart_that_cannot_succeed_gives_up_with_the_server_s_own_words(config: PostgresConfig) -> None:
    async def check() -> None:
        control = config.data_dir / "data" / "global" / "pg_control"
        async with EmbeddedPostgres(config, restart=RestartPolicy(max_restarts=2)) as postgres:
            control.rename(control.with_name("hidden"))
            try:
                os.kill(postgres.pid, signal.SIGKILL)
                await postgres.wait_exited()
            finally:
                control.with_name("hidden").rename(control)
            assert "pg_control" in str(postgres.failure)

    run(check())
    assert run(start_and_count(config))[0] == 1


def test_a_killed_owner_leaves_no_second_server_and_no_lost_row(config: PostgresConfig) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(config.data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdin
    assert owner.stdout
    with owner, owner.stdout:
        pid, url = owner.stdout.readline().split()
        query(url, "CREATE TABLE acknowledged AS SELECT generate_series(1, 100)")
        owner.kill()

    async def check() -> None:
        async with EmbeddedPostgres(config) as postgres:
            assert not is_running(int(pid))
            assert query(postgres.url, "SELECT count(*) FROM acknowledged") == [(100,)]
            query(postgres.url, "DROP TABLE acknowledged")

    run(check())


def start_orphan(config: PostgresConfig) -> tuple["subprocess.Popen[bytes]", files.Cluster]:
    """A server in the data folder that no supervisor knows of."""
    cluster = files.locate_cluster(config, print)
    files.make_owned_folder(cluster.socket_folder, cluster.account)
    server = [str(cluster.binaries / "postgres"), *files.server_arguments(config, cluster)]
    with cluster.log_file.open("ab") as log:
        return subprocess.Popen(launch_argv(server, cluster.account), stderr=log, cwd=cluster.home), cluster


def test_a_server_that_outlived_its_owner_is_shut_down_before_the_next_one(config: PostgresConfig) -> None:
    async def check() -> list[str]:
        orphan, cluster = start_orphan(config)
        async with asyncio.timeout(30):
            for _ in iter(lambda: files.is_accepting(cluster.data, orphan.pid), True):
                await asyncio.sleep(0.02)
        count, said = await start_and_count(config)
        assert count == 1
        # Still a zombie here, because its parent has not asked: ended all the same.
        assert not is_running(orphan.pid)
        assert orphan.wait() == 0
        return said

    assert any("an earlier Postgres left running" in line for line in run(check()))


@pytest.mark.parametrize("program", [["/bin/sleep", "600"], ["/bin/true"]], ids=["stranger", "zombie"])
def test_a_stale_pid_file_does_not_pass_for_a_server(config: PostgresConfig, program: list[str]) -> None:
    cluster = files.locate_cluster(config, print)
    other = subprocess.Popen(launch_argv(program, cluster.account), cwd="/")
    try:
        if program == ["/bin/true"]:
            assert run(wait_ended([other.pid], 30))
        files.make_owned_folder(cluster.socket_folder, cluster.account)
        for path in (cluster.data / "postmaster.pid", cluster.socket_folder / ".s.PGSQL.5432.lock"):
            path.write_text(f"{other.pid}\n{cluster.data}\n1700000000\n5432\n{cluster.socket_folder}\n\n\nready\n")
        (cluster.socket_folder / ".s.PGSQL.5432").touch()
        (cluster.home / "data.new").mkdir()
        assert run(start_and_count(config))[0] == 1
        assert not (cluster.home / "data.new").exists()
        assert other.poll() is None or program == ["/bin/true"]
    finally:
        other.kill()
        other.wait()


def test_a_second_owner_is_refused_by_name(config: PostgresConfig) -> None:
    async def check() -> None:
        async with EmbeddedPostgres(config) as postgres:
            assert f"in use by another process (pid {os.getpid()})" in await start_error(config)
            with pytest.raises(PostgresError, match="already started"):
                await postgres.start()
            assert rows_kept(postgres.url) == 1

    run(check())


def test_a_taken_port_is_named_and_leaves_nothing_behind(config: PostgresConfig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = run(start_error(PostgresConfig(config.data_dir, port=port)))
        assert f"port {port} on 127.0.0.1 is taken" in error
    assert files.server_processes(config.data_dir / "data") == []

    async def check() -> None:
        async with EmbeddedPostgres(PostgresConfig(config.data_dir, port=port)) as postgres:
            assert rows_kept(postgres.url) == 1
            password = (postgres.home / "password").read_text()
            tcp = f"host=127.0.0.1 port={port} dbname=conch user=conch password="
            assert rows_kept(tcp + password) == 1
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(tcp + "wrong")

    run(check())


def test_a_cancelled_start_leaves_nothing_behind(config: PostgresConfig) -> None:
    async def check() -> None:
        begun = asyncio.Event()
        postgres = EmbeddedPostgres(config, on_progress=lambda _: begun.set())
        starting = asyncio.create_task(postgres.start())
        await begun.wait()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert files.server_processes(config.data_dir / "data") == []
        assert (await start_and_count(config))[0] == 1

    run(check())


def test_data_of_another_version_is_refused_untouched(config: PostgresConfig) -> None:
    version_file = config.data_dir / "data" / "PG_VERSION"
    version = version_file.read_text()
    version_file.write_text("14\n")
    try:
        error = run(start_error(config))
    finally:
        version_file.write_text(version)
    assert "written by Postgres 14" in error
    assert "pg_upgrade or pg_dump" in error


def test_unusable_folders_are_refused_with_the_remedy(config: PostgresConfig, cluster_dir: Path) -> None:
    assert "is a Postgres data folder itself" in run(start_error(PostgresConfig(config.data_dir / "data")))

    password_file = config.data_dir / "password"
    password_file.rename(password_file.with_name("hidden"))
    assert "password is missing: restore it" in run(start_error(config))
    password_file.write_text("not the one")
    assert "does not hold the password of this data" in run(start_error(config))
    password_file.with_name("hidden").rename(password_file)

    (cluster_dir / "data").mkdir()
    (cluster_dir / "data" / "notes.txt").touch()
    error = run(start_error(PostgresConfig(cluster_dir)))
    assert "no Postgres data" in error or "belongs to" in error
    assert sorted(path.name for path in (cluster_dir / "data").iterdir()) == ["notes.txt"]


def test_settings_that_durability_rests_on_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="fixed: fsync, port"):
        PostgresConfig(Path("anywhere"), settings={"fsync": "off", "port": "1", "work_mem": "8MB"})


def test_own_settings_reach_the_server(config: PostgresConfig) -> None:
    async def check() -> None:
        tuned = PostgresConfig(config.data_dir, settings={"work_mem": "7MB", "max_connections": "20"})
        async with EmbeddedPostgres(tuned) as postgres:
            assert query(postgres.url, "SHOW work_mem") == [("7MB",)]
            assert query(postgres.url, "SHOW max_connections") == [("20",)]

    run(check())


def test_missing_binaries_are_reported_with_every_place_tried(tmp_path: Path) -> None:
    with pytest.raises(PostgresError) as caught:
        find_binaries(tmp_path)
    assert f"{tmp_path}: no executable `postgres`" in str(caught.value)
    assert "pip install 'conch[postgres]'" in str(caught.value)

    old = tmp_path / "postgres"
    old.write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 14.9'\n")
    shutil.copy(old, tmp_path / "initdb")
    for program in tmp_path.iterdir():
        program.chmod(0o755)
    with pytest.raises(PostgresError, match=r"Postgres 14\.9, but 15 or newer is needed"):
        find_binaries(tmp_path)


def test_found_binaries_are_recent(postgres_binaries: Path) -> None:
    assert int(binaries_version(postgres_binaries).split(".")[0]) >= 15


def test_progress_keeps_a_start_waiting_for_as_long_as_it_takes() -> None:
    patience = StartPatience(timeout_s=10, now_s=0)
    for second in range(0, 300, 9):
        line = f"2026-01-01 00:00:00.000 UTC [7] LOG:  redo in progress, elapsed time: {second}.00 s, current LSN: 0/1"
        assert patience.observe([line], second) == [f"redo in progress, elapsed time: {second}.00 s, current LSN: 0/1"]
        assert not patience.is_exhausted(second + 9.9)
    # Answers to those who knock too early prove nothing.
    assert patience.observe(["[8] FATAL:  the database system is starting up"], 306) == []
    assert patience.is_exhausted(307)


def test_progress_of_a_long_recovery_is_passed_on(config: PostgresConfig, cluster_dir: Path) -> None:
    binaries = wrapped_binaries(
        cluster_dir, 'for s in 1 2 3; do echo "LOG:  redo in progress, elapsed time: $s.00 s" >&2; done'
    )
    count, said = run(start_and_count(PostgresConfig(config.data_dir, binaries)))
    assert count == 1
    assert [line for line in said if "redo in progress" in line] == [
        f"Postgres: redo in progress, elapsed time: {second}.00 s" for second in (1, 2, 3)
    ]


def test_a_start_without_progress_fails_and_is_ended(config: PostgresConfig, cluster_dir: Path) -> None:
    pid_file = cluster_dir / "pid"
    pid_file.touch()
    pid_file.chmod(0o666)
    binaries = wrapped_binaries(cluster_dir, f"echo $$ > {pid_file}; exec sleep 600")
    error = run(start_error(PostgresConfig(config.data_dir, binaries, start_timeout_s=0.5)))
    assert "made no progress for 0.5 s" in error
    assert not is_running(int(pid_file.read_text()))


def test_a_folder_unfit_for_a_socket_still_works(cluster_dir: Path) -> None:
    unfit = PostgresConfig(cluster_dir / 'with, comma and "quotes" %' / ("deep" * 20))

    async def check() -> Path:
        async with EmbeddedPostgres(unfit) as postgres:
            assert query(postgres.url, "SELECT 1") == [(1,)]
            return files.locate_cluster(unfit, print).socket_folder

    assert not run(check()).exists()


@as_root
def test_root_places_what_the_account_cannot_reach_under_var_lib(postgres_binaries: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    root = postgres_binaries.parent
    package = closed / root.parent.name
    shutil.copytree(root, package / root.name, symlinks=True)
    libraries = root.parent.with_name(root.parent.name + ".libs")
    if libraries.is_dir():
        shutil.copytree(libraries, closed / libraries.name)
    hidden = PostgresConfig(closed / "postgres", package / root.name / postgres_binaries.name)
    said: list[str] = []
    made: list[Path] = []

    async def check() -> None:
        for _ in range(2):
            postgres = EmbeddedPostgres(hidden, on_progress=said.append)
            async with postgres:
                made.append(postgres.home)
                made.append(files.locate_cluster(hidden, print).binaries)
                query(postgres.url, "CREATE TABLE IF NOT EXISTS moved AS SELECT 1")
                assert query(postgres.url, "SELECT count(*) FROM moved") == [(1,)]
        assert len(set(made)) == 2

    try:
        run(check())
    finally:
        shutil.rmtree(made[0])
        shutil.rmtree(made[1].parent.parent.parent)
    assert any(f"keeping the data in {made[0]}" in line for line in said)
    assert any(f"using a copy in {made[1]}" in line for line in said)
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@as_root
def test_an_unprivileged_owner_needs_no_other_account(cluster_dir: Path) -> None:
    found = pwd.getpwnam("nobody")
    nobody = Account(found.pw_name, found.pw_uid, found.pw_gid)
    # Root's own Python is often closed to others; one of the same version then runs with the same packages.
    same_version = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
    packages = [Path(place) for place in sys.path if place.endswith("site-packages")]
    packages.append(Path(files.__file__).parents[2])
    pythons = [path for path in (Path(sys.executable), same_version) if path.exists()]
    usable = [python for python in pythons if can_reach(nobody, python, *packages)]
    if not usable:
        pytest.skip(f"nobody can run none of {[*map(str, pythons)]} with the packages of this environment")
    os.chown(cluster_dir, nobody.uid, nobody.gid)
    owner = subprocess.run(
        launch_argv([str(usable[0]), "-B", "-c", _OWNER, str(cluster_dir)], nobody),
        cwd=cluster_dir,
        env={"PYTHONPATH": os.pathsep.join(map(str, packages)), "PATH": os.environ["PATH"]},
        input="stop\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert owner.returncode == 0, owner.stderr
    assert (cluster_dir / "data").stat().st_uid == nobody.uid
    assert not is_running(int(owner.stdout.split()[0]))

    # Root then serves the same data as its owner.
    async def check() -> None:
        async with EmbeddedPostgres(PostgresConfig(cluster_dir)) as postgres:
            assert os.stat(f"/proc/{postgres.pid}").st_uid == nobody.uid

    run(check())


@pytest.mark.parametrize("attempt", [1, 2])
def test_each_test_gets_an_empty_database_of_its_own(database_url: str, attempt: int) -> None:
    query(database_url, "CREATE TABLE alone (x int)")
