"""Owns our own request headers: what they may say, their defaults, and who may be believed.
Never reads anything but headers and the peer's address.
Called by the inference routes, once per request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address

from engine.errors import Code, Rejected
from engine.records import MAX_DEADLINE_MS, Tags
from engine.settings import DefaultSettings

PRIORITIES = ("low", "normal", "high")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_OURS = frozenset((b"conch-tenant", b"conch-product", b"conch-feature", b"conch-priority", b"conch-deadline-ms"))


def is_loopback(host: str | None) -> bool:
    """True for a peer on this machine; a Unix socket has no address and counts as one."""
    if host is None:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_tags(headers: Iterable[tuple[bytes, bytes]], peer: str | None, defaults: DefaultSettings) -> Tags:
    """The tags of a request, defaulted.

    Until callers are authenticated, only a peer on loopback may say whom a request is for; another peer that tries is
    refused rather than billed to the wrong tenant. Raises Rejected(INVALID_HEADER) naming every problem.
    """
    given = [(name, value) for name, value in headers if name in _OURS]
    tags = Tags(defaults.tenant, defaults.product, defaults.feature, defaults.priority, defaults.deadline_ms)
    if not given:
        return tags
    problems: list[str] = []
    texts: dict[str, str] = {}
    trusted = is_loopback(peer)
    for raw_name, raw_value in given:
        name, text = raw_name.decode("ascii").title(), raw_value.decode("latin-1").strip()
        if name in texts:
            problems.append(f"{name} is given more than once")
        elif problem := _problem_of(raw_name, text, trusted):
            problems.append(f"{name} {problem}")
        texts[name] = text
    if problems:
        raise Rejected(Code.INVALID_HEADER, "; ".join(problems), problems=tuple(problems))
    return Tags(
        texts.get("Conch-Tenant", tags.tenant),
        texts.get("Conch-Product", tags.product),
        texts.get("Conch-Feature", tags.feature),
        texts.get("Conch-Priority", tags.priority),
        int(texts.get("Conch-Deadline-Ms", tags.deadline_ms)),
    )


def _problem_of(raw_name: bytes, text: str, trusted: bool) -> str | None:
    if raw_name == b"conch-deadline-ms":
        whole = text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= MAX_DEADLINE_MS
        return None if whole else f"must be whole milliseconds from 1 to {MAX_DEADLINE_MS}"
    if not trusted:
        return "is accepted from loopback only, because callers are not authenticated yet"
    if raw_name == b"conch-priority":
        return None if text in PRIORITIES else f"must be one of {', '.join(PRIORITIES)}"
    if not _NAME.match(text):
        return "must be 1 to 63 letters, digits, `.`, `_` or `-`, beginning with a letter or a digit"
    return None
