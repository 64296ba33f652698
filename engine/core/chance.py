"""Owns the engine's only source of chance: numbers and UUIDs that are hashes of where they are drawn.
Never reads a random source, so that a replay draws the very same values.
Called by the evaluation of expressions and by the job back-off.
"""

from __future__ import annotations

from decimal import Decimal
from hashlib import blake2b

from engine.core.activity import Activity
from engine.core.flow_scope import FlowScope
from engine.records import Key

_DIGITS = 15
_ONE = 10**_DIGITS


class Chance:
    """Draws of one activity instance, or of a scope as it opens.

    The n-th is a hash of the instance, the activity, the try of its job, and n.
    """

    __slots__ = ("_activity", "_instance_key")

    def __init__(self, instance_key: Key, activity: Activity | FlowScope) -> None:
        self._instance_key = instance_key
        self._activity = activity

    def _draw(self, size: int) -> bytes:
        activity = self._activity
        activity.draws += 1
        place = (self._instance_key, activity.key, activity.tries, activity.draws)
        return blake2b(b"%d/%d/%d/%d" % place, digest_size=size).digest()

    def number(self) -> Decimal:
        """A number in [0, 1) with 15 decimal digits."""
        drawn = int.from_bytes(self._draw(16), "big") % _ONE
        return Decimal(drawn).scaleb(-_DIGITS)

    def uuid(self) -> str:
        """A UUID text, version 8 (RFC 9562: content defined by its maker)."""
        digits = bytearray(self._draw(16))
        digits[6] = digits[6] & 0x0F | 0x80
        digits[8] = digits[8] & 0x3F | 0x80
        text = digits.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
