"""The files of `deploy/` and docker-compose.yml are read as their readers read them: they parse and fit together."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.local.triton import SHIPPED_MODELS
from engine.settings import load_settings

_ROOT = Path(__file__).parents[2]
_DEPLOY = _ROOT / "deploy"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((_ROOT / "docker-compose.yml").read_text())
    return document


def test_the_four_services_are_there_and_wait_for_each_other(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert set(services) == {"postgres", "triton", "gateway", "prometheus"}
    waits = services["gateway"]["depends_on"]
    assert {name: wait["condition"] for name, wait in waits.items()} == dict.fromkeys(
        ("postgres", "triton"), "service_healthy"
    )
    for name in waits:
        assert services[name]["healthcheck"]["test"]


def test_every_image_is_pinned_and_every_port_is_open_to_loopback_only(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        if "image" in service:
            _, _, tag = service["image"].rpartition(":")
            assert re.search(r"\d", tag), name
            assert tag != "latest"
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), name


def test_no_password_is_written_down(compose: dict[str, Any]) -> None:
    assert compose["services"]["postgres"]["environment"]["POSTGRES_PASSWORD"].startswith("${CONCH_POSTGRES_PASSWORD:?")
    assert "${CONCH_POSTGRES_PASSWORD}" in compose["services"]["gateway"]["environment"]["CONCH_POSTGRES__URL"]


def test_what_is_mounted_and_built_from_lies_here(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (_ROOT / source).exists(), source
            else:
                assert source in compose["volumes"]
        if "build" in service:
            assert (_ROOT / service["build"]["dockerfile"]).is_file()


def test_the_gateway_of_the_composition_has_settings_that_load(compose: dict[str, Any]) -> None:
    gateway = compose["services"]["gateway"]
    (mounted,) = (each.split(":")[0] for each in gateway["volumes"] if gateway["environment"]["CONCH_CONFIG"] in each)
    environ = {name: value for name, value in gateway["environment"].items() if name != "CONCH_CONFIG"}
    settings = load_settings(_ROOT / mounted, environ)
    assert settings.postgres.url is not None
    assert {replica.grpc.partition(":")[0] for replica in settings.replicas} == {"triton"}
    assert {model.name for model in settings.models} <= set(SHIPPED_MODELS)
    grace_s = int(gateway["stop_grace_period"].removesuffix("s"))
    assert grace_s * 1000 > settings.server.drain_ms


@pytest.mark.parametrize("file", sorted(_DEPLOY.glob("*.toml")), ids=lambda file: file.name)
def test_every_settings_file_of_deploy_loads(file: Path) -> None:
    assert tomllib.loads(file.read_text())
    assert load_settings(file, {}).models


def test_prometheus_scrapes_services_that_exist(compose: dict[str, Any]) -> None:
    document = yaml.safe_load((_DEPLOY / "prometheus.yml").read_text())
    targets = [
        target for job in document["scrape_configs"] for each in job["static_configs"] for target in each["targets"]
    ]
    assert {target.partition(":")[0] for target in targets} == {"gateway", "triton"}
    assert {target.partition(":")[0] for target in targets} <= set(compose["services"])


def test_the_image_is_built_from_files_that_exist_and_runs_as_nobody_special() -> None:
    lines = (_DEPLOY / "Dockerfile").read_text().splitlines()
    for line in lines:
        if line.startswith("COPY") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (_ROOT / source).exists() or source == "README.md", source
    assert [line for line in lines if line.startswith("USER")] == ["USER conch"]
    assert 'ENTRYPOINT ["/opt/conch/bin/conch"]' in lines
