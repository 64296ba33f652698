"""Health of a model on a replica: what takes it out, what brings it back, and that load alone does neither."""

import asyncio
from collections.abc import Callable

import pytest

from engine import Settings, Telemetry
from tasks.fleet import Fleet, Lease, ModelHealth


def settings() -> Settings:
    replicas = [{"name": name, "grpc": "127.0.0.1:9", "pool": pool} for name, pool in (("a", "x"), ("b", "y"))]
    models = [{"name": "m", "pools": ["x"]}, {"name": "n", "pools": ["x", "y"]}]
    return Settings.model_validate({"replicas": replicas, "models": models})


def with_fleet(check: Callable[[Fleet, Telemetry], None]) -> None:
    async def run() -> None:
        telemetry = Telemetry()
        fleet = Fleet(settings(), telemetry)
        try:
            check(fleet, telemetry)
        finally:
            await fleet.close()

    asyncio.run(run())


def up(health: ModelHealth) -> None:
    health.passed()
    assert is_up(health)


def is_up(health: ModelHealth) -> bool:
    """Asked anew each time; a type checker would remember the attribute."""
    return health.up


def test_a_model_is_expected_only_on_the_replicas_of_its_pools() -> None:
    def check(fleet: Fleet, _: Telemetry) -> None:
        assert {model: list(replicas) for model, replicas in fleet.health.items()} == {"m": ["a"], "n": ["a", "b"]}
        assert fleet.health_of("unknown") == ([], [])
        assert fleet.health_of("m")[1] == [("a", "not probed yet")]

    with_fleet(check)


def test_the_first_probe_that_passes_lets_traffic_in() -> None:
    def check(fleet: Fleet, telemetry: Telemetry) -> None:
        up(fleet.health["m"]["a"])
        assert fleet.readiness() == {"m": ["a"], "n": []}
        assert telemetry.registry.get_sample_value("conch_replica_up", {"replica": "a", "model": "m"}) == 1

    with_fleet(check)


def test_three_failed_probes_take_it_out_and_two_good_ones_bring_it_back() -> None:
    def check(fleet: Fleet, telemetry: Telemetry) -> None:
        health = fleet.health["m"]["a"]
        up(health)
        for _ in range(2):
            health.failed("slow", at_once=False)
        assert is_up(health)
        health.passed()
        for _ in range(3):
            assert is_up(health)
            health.failed("slow", at_once=False)
        assert not is_up(health)
        assert health.reason == "3 probes failed in a row, the last: slow"
        assert telemetry.registry.get_sample_value("conch_replica_up", {"replica": "a", "model": "m"}) == 0
        health.passed()
        assert not is_up(health)
        health.failed("slow", at_once=False)
        health.passed()
        assert not is_up(health)
        up(health)

    with_fleet(check)


@pytest.mark.parametrize("by_probe", [True, False])
def test_what_cannot_serve_is_out_at_once(by_probe: bool) -> None:
    def check(fleet: Fleet, _: Telemetry) -> None:
        health, other = fleet.health["m"]["a"], fleet.health["n"]["a"]
        up(health)
        up(other)
        if by_probe:
            health.failed("dead", at_once=True)
        else:
            health.lost("dead")
            assert health.probe_soon.is_set()
        assert fleet.health_of("m") == ([], [("a", "dead")])
        assert other.up
        health.passed()
        assert not is_up(health)
        up(health)

    with_fleet(check)


def test_a_lease_counts_once_however_often_it_is_ended() -> None:
    def check(fleet: Fleet, telemetry: Telemetry) -> None:
        leases = [fleet.take("m", "a", 0.01), Lease(fleet.replicas["a"])]
        assert fleet.replicas["a"].in_flight == 2
        assert telemetry.registry.get_sample_value("conch_replica_in_flight", {"replica": "a"}) == 2
        for lease in leases * 2:
            lease.end()
        assert fleet.replicas["a"].in_flight == 0

    with_fleet(check)


def test_turns_are_kept_for_each_model() -> None:
    def check(fleet: Fleet, _: Telemetry) -> None:
        fleet.take("m", "a", 0.5).end()
        assert [c.turn for c in fleet.candidates("m", ["a", "gone"])] == [0.5]
        assert [c.turn for c in fleet.candidates("n", ["a"])] == [0.0]

    with_fleet(check)
