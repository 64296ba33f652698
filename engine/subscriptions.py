"""Owns the index of what the instances of this process wait for: messages by name and correlation key, signals by name.
Never delivers anything.
Called by correlation.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from engine.keys import key_writer
from engine.owned import Owned
from engine.records import KEY_TIME_SHIFT, Key, Subscription

SKEW_US = 1_000_000  # how far the clocks of two engines may differ
_SKEW_KEYS = (SKEW_US // 1_000) << KEY_TIME_SHIFT


class Address(NamedTuple):
    """Whom a message is for: of each process with such subscriptions one gets it."""

    tenant: str
    name: str
    correlation_key: str


class Catch:
    """One open subscription."""

    __slots__ = ("busy", "checked", "instance_key", "known", "looking", "subscription", "tenant")

    def __init__(self, instance_key: Key, subscription: Subscription, tenant: str):
        self.instance_key = instance_key
        self.subscription = subscription
        self.tenant = tenant
        self.busy = False  # a message is on its way to it, or it is looking for one
        self.looking = False
        self.checked: asyncio.Future[None] | None = None  # until it is known what it got in an earlier life
        self.known: frozenset[Key] = frozenset()  # signals of that earlier life

    @property
    def key(self) -> Key:
        return self.subscription.key


class Group:
    """The subscriptions of one process to one address, the oldest first."""

    __slots__ = ("address", "again", "catches", "process_id")

    def __init__(self, address: Address, process_id: str):
        self.address = address
        self.process_id = process_id
        self.catches: dict[Key, Catch] = {}
        self.again = False  # a message came while none was idle

    def idle(self) -> Catch | None:
        """The oldest that no message is on its way to. Null where an older one still looks into the buffer: it will
        look again for what came meanwhile."""
        oldest = next((catch for catch in self.catches.values() if catch.looking or not catch.busy), None)
        return None if oldest is None or oldest.looking else oldest

    def hand_over(self, finder: Catch) -> Catch | None:
        """Who gets what `finder` has found in the buffer: the oldest that is free. Null: it will find it by itself."""
        free = (catch for catch in self.catches.values() if catch is finder or catch.looking or not catch.busy)
        oldest = next(free, None)
        if oldest is finder:
            return finder
        finder.busy = False
        if oldest is None or oldest.looking:
            self.again = True
            return None
        oldest.busy = True
        return oldest


class Subscriptions:
    """Open subscriptions by whatever they are looked up by."""

    def __init__(self) -> None:
        self._catches: dict[Key, Catch] = {}
        self._of_instance = Owned()
        self._groups: dict[Address, dict[str, Group]] = {}
        self._signals: dict[str, dict[Key, Catch]] = {}

    def __len__(self) -> int:
        return len(self._catches)

    def __contains__(self, key: Key) -> bool:
        return key in self._catches

    def add(self, instance_key: Key, subscription: Subscription, tenant: str) -> Catch | None:
        """The new entry; null when it is known already."""
        if subscription.key in self._catches:
            return None
        catch = self._catches[subscription.key] = Catch(instance_key, subscription, tenant)
        self._of_instance.add(instance_key, subscription.key)
        if subscription.kind == "signal":
            self._signals.setdefault(subscription.name, {})[subscription.key] = catch
        else:
            groups = self._groups.setdefault(address_of(catch), {})
            process_id = subscription.process_id
            group = groups.get(process_id)
            if group is None:
                group = groups[process_id] = Group(address_of(catch), process_id)
            group.catches[subscription.key] = catch
        return catch

    def remove(self, key: Key) -> None:
        catch = self._catches.pop(key, None)
        if catch is None:
            return
        self._of_instance.discard(catch.instance_key, key)
        subscription = catch.subscription
        if subscription.kind == "signal":
            catches = self._signals[subscription.name]
            del catches[key]
            if not catches:
                del self._signals[subscription.name]
            return
        groups = self._groups[address_of(catch)]
        group = groups[subscription.process_id]
        del group.catches[key]
        if not group.catches:
            del groups[subscription.process_id]
            if not groups:
                del self._groups[address_of(catch)]

    def remove_all(self, instance_key: Key) -> None:
        for key in self._of_instance.of(instance_key):
            self.remove(key)

    def group_of(self, catch: Catch) -> Group | None:
        """Null once the last subscription of its group is closed."""
        return self._groups.get(address_of(catch), {}).get(catch.subscription.process_id)

    def groups(self, address: Address) -> tuple[Group, ...]:
        return tuple(self._groups.get(address, {}).values())

    def all_groups(self) -> tuple[Group, ...]:
        return tuple(group for groups in self._groups.values() for group in groups.values())

    def waiting_for_signal(self, name: str, signal_key: Key) -> list[Catch]:
        """Who waited for the signal when it was broadcast, the oldest first."""
        return [catch for catch in self._signals.get(name, {}).values() if waited(catch.key, signal_key)]


def address_of(catch: Catch) -> Address:
    return Address(catch.tenant, catch.subscription.name, catch.subscription.correlation_key or "")


def waited(subscription_key: Key, event_key: Key) -> bool:
    """Whether a subscription was open when an event came. Keys tell; for two engines as well as clocks do."""
    if key_writer(subscription_key) == key_writer(event_key):
        return subscription_key < event_key
    return subscription_key < event_key + _SKEW_KEYS
