"""Owns an index of keys by the instance that they belong to, small where an instance has one, as most have.
Never knows what a key stands for.
Called by work and subscriptions, which keep it for each parked instance.
"""

from __future__ import annotations

from engine.records import Key


class Owned:
    """Keys by owner, in no order. A key without company stands for itself; a set for it would take 216 bytes."""

    def __init__(self) -> None:
        self._of: dict[Key, Key | set[Key]] = {}

    def add(self, owner: Key, key: Key) -> None:
        known = self._of.get(owner)
        if known is None:
            self._of[owner] = key
        elif isinstance(known, set):
            known.add(key)
        else:
            self._of[owner] = {known, key}

    def discard(self, owner: Key, key: Key) -> None:
        known = self._of.get(owner)
        if isinstance(known, set):
            known.discard(key)
            known = None if known else key
        if known == key:
            del self._of[owner]

    def of(self, owner: Key) -> tuple[Key, ...]:
        known = self._of.get(owner)
        if known is None:
            return ()
        return tuple(known) if isinstance(known, set) else (known,)
