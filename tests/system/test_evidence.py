"""Owns the proof that the audit can be trusted and understood: replay, tampering, explain, the walked path.
Never tampers with rows that another test looks at.
Called by pytest.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

import lxml.etree
import pytest
from click.testing import CliRunner

from engine.cli import group
from tests.gateway_fixtures import MODELS, SETTINGS, GatewayProcess, replicas, samples, until
from tests.system.bodies import CHAT, INFER, prompt, texts
from tests.system.load import Broken, connected, events
from tests.triton_fixtures import TritonServer

pytestmark = [pytest.mark.postgres, pytest.mark.triton]

Pair = tuple[TritonServer, TritonServer]
KINDS = ("happy", "retried", "fell_back", "streamed", "disconnected", "not_found", "aborted")


class Ran(NamedTuple):
    status: int
    text: str  # standard output
    notes: str  # standard error


def conch(gateway: GatewayProcess, *arguments: str) -> Ran:
    """A command on the gateway's database, in this process: starting an interpreter each time would take long."""
    environ: Mapping[str, str | None] = {"CONCH_POSTGRES__URL": gateway.database_url}
    done = CliRunner().invoke(group, [*arguments, "--config", str(gateway.config)], env=environ)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Ran(done.exit_code, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def keys(session_gateway: GatewayProcess, triton_pair: Pair) -> dict[str, str]:
    """One process instance of each kind, all in one audit."""
    gateway, named = session_gateway, {each.name: each for each in triton_pair}
    gateway.wait_up(*named)

    def key_of(path: str, body: object) -> str:
        return gateway.post(path, body).headers["conch-process-instance"]

    async def leave() -> str:
        async with connected(gateway.url) as connection:
            _, headers, reader = await connection.open(CHAT, {"text_input": "a", "max_tokens": 999, "delay_ms": 10})
            await anext(events(reader))
            return headers["conch-process-instance"]

    async def kill_where_it_runs() -> str:
        def busy() -> str | None:
            flights = samples(gateway.get("/metrics").text, "conch_replica_in_flight")
            return next((labels["replica"] for labels, value in flights if value), None)

        async with connected(gateway.url) as connection:
            body = prompt("retry me", max_tokens=150, delay_ms=10)
            asking = asyncio.create_task(connection.post("/v2/models/chat/generate", body))
            named[await asyncio.to_thread(until, "it runs", busy)].kill()
            answer = await asking
            assert answer.status == 200
            return str(answer.key)

    made = {
        "happy": key_of(INFER, texts("a happy request")),
        "streamed": key_of(CHAT, {"text_input": "a stream", "max_tokens": 5}),
        "disconnected": asyncio.run(leave()),
        "not_found": key_of("/v2/models/none/infer", texts("nothing")),
        "fell_back": key_of("/v2/models/faulty-stream/generate", prompt(fail_after_tokens=0)),
        "retried": asyncio.run(kill_where_it_runs()),
    }
    until("all have ended", lambda: all(gateway.audit.request(key)["ended_at"] for key in made.values()))
    return made


@pytest.fixture
def aborted(make_gateway: Callable[..., GatewayProcess], triton_pair: Pair) -> tuple[GatewayProcess, str]:
    """A gateway that has closed a request of its killed predecessor."""
    gateway = make_gateway(SETTINGS + MODELS + replicas(*triton_pair)).start("chat")

    async def die() -> str:
        async with connected(gateway.url) as connection:
            _, headers, reader = await connection.open(CHAT, {"text_input": "a", "max_tokens": 999, "delay_ms": 10})
            await anext(events(reader))
            await asyncio.to_thread(gateway.kill)
            with pytest.raises((OSError, EOFError, ValueError, Broken)):
                async for _ in events(reader):
                    pass
            return headers["conch-process-instance"]

    key = asyncio.run(die())
    gateway.start()
    until("it is closed", lambda: gateway.audit.request(key)["ended_at"])
    return gateway, key


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "aborted"])
def test_every_row_follows_from_the_commands_byte_for_byte(
    session_gateway: GatewayProcess, keys: dict[str, str], kind: str
) -> None:
    ran = conch(session_gateway, "replay", keys[kind])
    assert (ran.status, ran.notes) == (0, "")
    assert "rows follow from its commands, byte for byte" in ran.text
    request_id = str(session_gateway.audit.request(keys[kind])["request_id"])
    document = json.loads(conch(session_gateway, "replay", request_id, "--json").text)
    facts = "SELECT FROM record WHERE process_instance_key = %s AND position > 0"
    assert document == {
        "process_instance_key": keys[kind],
        "engine_version": document["engine_version"],
        "rows": len(session_gateway.audit.ask(facts, int(keys[kind]))),
        "identical": True,
        "refused": None,
        "differences": [],
    }


def test_an_aborted_request_can_be_replayed_told_and_drawn(aborted: tuple[GatewayProcess, str]) -> None:
    gateway, key = aborted
    assert conch(gateway, "replay", key).status == 0
    told = conch(gateway, "explain", key).text
    assert "ABORTED" in told
    assert "died" in told
    lxml.etree.fromstring(conch(gateway, "explain", key, "--svg", "-").text.encode())


def copied(gateway: GatewayProcess) -> str:
    """The key of a fresh happy request, to tamper with."""
    return gateway.post(INFER, texts("to be tampered with")).headers["conch-process-instance"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            "UPDATE record SET replica = 'elsewhere' WHERE {this} AND kind = 'attempt'",
            ("position", "different: replica"),
        ),
        ("UPDATE record SET cost_usd = 0, quantity = 0 WHERE {this} AND kind = 'usage'", ("cost_usd", "quantity")),
        (
            "UPDATE record SET ended_at = ended_at + interval '1 us' WHERE {this} AND element_id = 'infer'",
            ("ended_at",),
        ),
        ("UPDATE record SET tenant = 'another' WHERE {this} AND position = 2", ("tenant",)),
        ("DELETE FROM record WHERE {this} AND kind = 'decision'", ("missing",)),
        (
            "INSERT INTO record SELECT (jsonb_populate_record(r, '{{\"position\": 99}}')).* FROM record r"
            " WHERE {this} AND kind = 'decision'",
            ("99",),
        ),
        (
            "UPDATE record SET payload = replace(payload::text, '\"input_tokens\": 4', '\"input_tokens\": 6')::jsonb"
            " WHERE {this} AND position < 0",
            ("variables",),
        ),
    ],
    ids=["fact", "money", "microsecond", "tenant", "deleted", "added", "command"],
)
def test_tampering_is_found_and_named(gateway: GatewayProcess, change: str, says: tuple[str, ...]) -> None:
    key = copied(gateway)
    assert conch(gateway, "replay", key).status == 0
    gateway.audit.tamper(change.format(this=f"process_instance_key = {key}"))
    ran = conch(gateway, "replay", key)
    assert ran.status == 1
    assert key in ran.text
    for word in says:
        assert word in ran.text, ran.text
    document = json.loads(conch(gateway, "replay", key, "--json").text)
    assert not document["identical"]
    assert document["differences"] or document["refused"]


def test_a_command_that_could_not_have_been_is_refused(gateway: GatewayProcess) -> None:
    key = copied(gateway)
    double = "UPDATE record SET payload = payload || payload WHERE process_instance_key = %s AND position < 0"
    gateway.audit.tamper(double, int(key))
    ran = conch(gateway, "replay", key)
    assert ran.status == 1
    assert "cannot be replayed" in ran.text


def test_an_instance_whose_first_fact_is_lost_can_still_be_read_and_told(gateway: GatewayProcess) -> None:
    key = copied(gateway)
    before = gateway.get(f"/process-instances/{key}").json()
    told = conch(gateway, "explain", key).text
    lost = "DELETE FROM record WHERE process_instance_key = %s AND kind = 'instance_started'"
    gateway.audit.tamper(lost, int(key))
    assert gateway.get(f"/process-instances/{key}").json() == before
    assert conch(gateway, "explain", key).text == told


def test_commands_of_another_version_are_a_problem_that_says_so(gateway: GatewayProcess) -> None:
    key = copied(gateway)
    change = "UPDATE record SET payload = replace(payload::text, 'job_completed', 'job_done')::jsonb"
    gateway.audit.tamper(f"{change} WHERE process_instance_key = %s AND position < 0", int(key))
    answer = gateway.get(f"/process-instances/{key}")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "not a command that this version reads: 'job_done'" in answer.json()["detail"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "aborted"])
def test_a_request_is_told_in_about_ten_sentences(
    session_gateway: GatewayProcess, keys: dict[str, str], kind: str
) -> None:
    told = conch(session_gateway, "explain", keys[kind]).text.splitlines()
    assert 4 <= len(told) <= 30
    assert all(line.endswith(".") and line[0].isupper() | (line[0] == "“") for line in told)
    request = session_gateway.audit.request(keys[kind])
    assert str(request["request_id"]) in told[0]
    assert keys[kind] in told[1]
    assert "version 1" in told[1]
    if request["error_code"]:
        assert request["error_code"] in told[-1]


def test_a_retried_request_is_told_with_the_replica_that_died_and_its_status(
    session_gateway: GatewayProcess, keys: dict[str, str]
) -> None:
    first, second = session_gateway.audit.attempts(keys["retried"])
    told = conch(session_gateway, "explain", keys["retried"]).text
    assert f"on {first['replica']}" in told
    assert "gRPC UNAVAILABLE" in told
    assert f"Attempt 2 (“Run inference”) on {second['replica']}" in told
    assert "“Back off” waited" in told
    assert first["replica"] != second["replica"]
    assert len(told.splitlines()) <= 16


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "aborted"])
def test_the_walked_path_is_drawn_as_well_formed_svg(
    session_gateway: GatewayProcess, keys: dict[str, str], kind: str
) -> None:
    picture = lxml.etree.fromstring(conch(session_gateway, "explain", keys[kind], "--svg", "-").text.encode())
    assert lxml.etree.QName(picture).localname == "svg"
    words = " ".join("".join(each.itertext()) for each in picture.iter("{http://www.w3.org/2000/svg}text"))
    assert all(word in words for word in ("Admit", "Route", "Settle"))
    assert "ms" in words or "µs" in words


def test_everything_that_is_recorded_can_be_had_as_json(session_gateway: GatewayProcess, keys: dict[str, str]) -> None:
    document = json.loads(conch(session_gateway, "explain", keys["happy"], "--json").text)
    assert document == session_gateway.get(f"/process-instances/{keys['happy']}").json()


@pytest.mark.parametrize("command", ["replay", "explain"])
@pytest.mark.parametrize("key", ["1", "01a22c1e-4d52-76f2-a83e-a2ca0e9c5386"])
def test_what_the_audit_does_not_hold_is_said_so(gateway: GatewayProcess, command: str, key: str) -> None:
    done = gateway.run(command, key)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert key in done.stderr


def test_a_key_that_is_none_is_a_usage_error(gateway: GatewayProcess) -> None:
    done = gateway.run("replay", "not-a-key")
    assert done.returncode == 2
    assert "process instance key" in done.stderr
