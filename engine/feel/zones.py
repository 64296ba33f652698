"""Owns time zones: fixed offsets, and the rules of the tz database for every year that a date can have.
Never knows dates or values, and reads nothing from outside but the tz database.
Called by the temporal values and their texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC as PYTHON_UTC
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from engine.feel.faults import FeelFault

SECONDS_PER_DAY = 86_400
# The Gregorian calendar repeats after 400 years, a whole number of weeks: so do rules as "last Sunday of March".
DAYS_PER_ERA = 146_097
_SECONDS_PER_ERA = DAYS_PER_ERA * SECONDS_PER_DAY
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the clock of whatever zone is asked
# Python's calendar has the years 1 to 9999. No zone had a transition in the first of them, and all follow a rule in
# the last ones; a day is left at either end for the offset.
_FIRST_S = int(datetime(1, 1, 3, tzinfo=PYTHON_UTC).timestamp())
_LAST_S = int(datetime(9999, 12, 29, tzinfo=PYTHON_UTC).timestamp())
# Midsummer and midwinter of a year in which every zone follows its rule.
_SEASONS_S = tuple(int(datetime(9000, month, 1, tzinfo=PYTHON_UTC).timestamp()) for month in (1, 7))
# Files beside the zones: the machine's own zone, and a placeholder.
_NO_ZONES = frozenset({"localtime", "Factory"})


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(available_timezones()) - _NO_ZONES


@lru_cache(maxsize=1024)
def tz_database(name: str) -> ZoneInfo:
    """The rules of a named zone. Raises FeelFault for an unknown name.

    The names are read from the database once, and each zone once: neither a text with a wrong name nor one with many
    names makes an evaluation read files over and over.
    """
    if name not in _names():
        raise FeelFault(f"unknown time zone {name!r}")
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise FeelFault(f"the rules of time zone {name!r} cannot be read") from error


def _in_known_years(seconds: int) -> int:
    """A second of the years 1 to 9999 at which every zone has the offset that it has at `seconds`.

    Before the first transition local mean time holds unchanged; after the last one the rule repeats with the calendar.
    """
    if seconds >= _LAST_S:
        return seconds - ((seconds - _LAST_S) // _SECONDS_PER_ERA + 1) * _SECONDS_PER_ERA
    return max(seconds, _FIRST_S)


def _whole_seconds(offset: timedelta | None) -> int:
    return 0 if offset is None else offset.days * SECONDS_PER_DAY + offset.seconds


@dataclass(frozen=True, slots=True)
class Zone:
    """A fixed offset from UTC in seconds, or a name of the tz database (then `offset_s` is None)."""

    offset_s: int | None
    name: str | None = None

    def offset_at_utc(self, epoch_s: int) -> int:
        """Offset from UTC in seconds at an instant, `epoch_s` seconds after 1970-01-01T00:00:00Z."""
        if self.offset_s is not None:
            return self.offset_s
        zone = tz_database(str(self.name))
        return _whole_seconds(datetime.fromtimestamp(_in_known_years(epoch_s), zone).utcoffset())

    def offsets_at_local(self, local_s: int) -> tuple[int, int]:
        """Offsets from UTC in seconds when the clock shows `local_s` seconds after 1970-01-01T00:00:00.

        Both are the same but for two cases: where the clock is set back, they are the offsets of the first and the
        second time that it shows this; where it is set forward past it, those before and after the gap.
        """
        if self.offset_s is not None:
            return self.offset_s, self.offset_s
        zone = tz_database(str(self.name))
        local = _EPOCH + timedelta(seconds=_in_known_years(local_s))
        return _whole_seconds(zone.utcoffset(local)), _whole_seconds(zone.utcoffset(local.replace(fold=1)))

    def standard_offset_s(self) -> int:
        """The offset of the clock in winter, by the zone's latest rule: what a time of day without a date goes by."""
        return min(map(self.offset_at_utc, _SEASONS_S))


UTC = Zone(0)
