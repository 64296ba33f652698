"""Owns where everything is inside one process instance: what is around each activity instance, and in which process.
Never says what anything is; only what it is part of.
Called by the instance view.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.api.camunda.items import Owner
from engine.records import DefinitionRef, Key, Start
from engine.store.definitions import StoredDefinition


class Place(NamedTuple):
    """Where an activity instance is."""

    element_id: str
    scope_key: Key | None  # of the activity instance around it; null directly in the root process
    is_process: bool  # a called process: the activities inside are its own


class InstancePlaces:
    """The tree of one process instance, the called ones inside it included.

    `definitions` are its own and those that it may call, by key.
    """

    def __init__(
        self, key: Key, start: Start, places: Mapping[Key, Place], definitions: Mapping[Key, StoredDefinition]
    ) -> None:
        self._key = key
        self._start = start
        self._places = places
        self._definitions = definitions
        self._owners: dict[Key, Owner] = {}

    def owner_key(self, key: Key | None) -> Key:
        """The process instance that the activity instance `key` is part of; a called process is its own."""
        while key is not None and (place := self._places.get(key)) is not None:
            if place.is_process:
                return key
            key = place.scope_key
        return self._key

    def owner_of(self, activity_key: Key | None) -> Owner:
        """The process instance that an activity instance is part of, with what is said of it."""
        return self.owner(self.owner_key(activity_key))

    def owner(self, key: Key) -> Owner:
        """What is said of the process instance `key`: the root, or a called one."""
        known = self._owners.get(key)
        if known is None:
            ref = self.ref(key)
            definition = self._definitions.get(ref.key)
            name, tag = ("", None) if definition is None else (definition.name, definition.version_tag)
            business_id = self._start.business_id if key == self._key else None
            known = Owner(
                key, self._key, ref.key, ref.process_id, ref.version, name, tag, business_id, self._start.tags
            )
            self._owners[key] = known
        return known

    def ref(self, key: Key) -> DefinitionRef:
        """The version that a process instance runs; of a called one as its caller chose it."""
        if key == self._key:
            return self._start.definition
        caller_key = self.caller_key(key)
        caller = None if caller_key is None else self._places.get(caller_key)
        element_id = None if caller is None else caller.element_id
        file = self.ref(self.owner_key(caller_key)).content_hash
        targets = (call.target for call in self._start.calls if (call.caller, call.element_id) == (file, element_id))
        return next(targets, self._start.definition)

    def caller_key(self, key: Key) -> Key | None:
        """The activity instance of the call activity that started a called process instance."""
        return self._places[key].scope_key

    def scope_of(self, key: Key) -> Key | None:
        """Where variables are looked for after `key`; null behind the border of a process instance."""
        place = self._places.get(key)
        if place is None or place.is_process:  # a called process sees nothing of its caller
            return None
        return self._key if place.scope_key is None else place.scope_key

    def within(self, key: Key) -> set[Key]:
        """`key` and every activity instance inside it."""
        if key == self._key:
            return {key, *self._places}
        inside = {key}
        for each in self._places:
            path = []
            at: Key | None = each
            while at is not None and at not in inside:
                path.append(at)
                place = self._places.get(at)
                at = None if place is None else place.scope_key
            if at is not None:
                inside.update(path)
        return inside
