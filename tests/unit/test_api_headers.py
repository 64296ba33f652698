"""Our own request headers: defaults, refusals that name every problem, and who may be believed."""

from __future__ import annotations

import pytest

from engine.api.headers import is_loopback, read_tags
from engine.errors import Code, Rejected
from engine.records import Tags
from engine.settings import DefaultSettings

DEFAULTS = DefaultSettings()


def raw(**headers: str) -> list[tuple[bytes, bytes]]:
    return [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]


def test_without_headers_the_defaults_hold() -> None:
    assert read_tags([], "127.0.0.1", DEFAULTS) == Tags()


def test_every_header_reaches_its_tag_and_unknown_ones_are_ignored() -> None:
    headers = raw(
        conch_tenant="acme",
        conch_product="shop",
        conch_feature="search",
        conch_priority="high",
        conch_deadline_ms="250",
        conch_colour="red",
        x_other="1",
    )
    assert read_tags(headers, "::1", DEFAULTS) == Tags("acme", "shop", "search", "high", 250)


def test_every_malformed_value_is_named_at_once() -> None:
    headers = raw(conch_tenant="a b", conch_product="", conch_priority="urgent", conch_deadline_ms="1.5")
    headers += raw(conch_feature="x") + raw(conch_feature="y")
    with pytest.raises(Rejected) as caught:
        read_tags(headers, "127.0.0.1", DEFAULTS)
    assert caught.value.code == Code.INVALID_HEADER
    for name in ("Conch-Tenant", "Conch-Product", "Conch-Priority", "Conch-Deadline-Ms", "Conch-Feature"):
        assert name in caught.value.message


@pytest.mark.parametrize("value", ["0", "-1", "", "999999999999", "3600001", "٣", "1e3", "abc"])
def test_a_deadline_is_whole_milliseconds_within_an_hour(value: str) -> None:
    headers = [(b"conch-deadline-ms", value.encode())]
    with pytest.raises(Rejected, match="Conch-Deadline-Ms"):
        read_tags(headers, "127.0.0.1", DEFAULTS)


def test_another_machine_may_set_a_deadline_but_not_say_whom_a_request_is_for() -> None:
    assert read_tags(raw(conch_deadline_ms="100"), "10.0.0.9", DEFAULTS).deadline_ms == 100
    with pytest.raises(Rejected, match="loopback only"):
        read_tags(raw(conch_tenant="acme"), "10.0.0.9", DEFAULTS)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        (None, True),
        ("localhost", True),
        ("10.0.0.1", False),
        ("fe80::1", False),
        ("example.org", False),
    ],
)
def test_loopback_is_judged_by_address(host: str | None, loopback: bool) -> None:
    assert is_loopback(host) is loopback
