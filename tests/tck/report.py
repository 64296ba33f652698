"""Owns how outcomes count and how they are told: per level, per file, in total, and each failure.
Never evaluates anything and prints nothing itself.
Called by the command and by the tests that hold the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from tests.tck.outcome import NO_LEVEL, Outcome

_SHOWN_CHARACTERS = 300
Key = TypeVar("Key")


class Count(NamedTuple):
    """How many of how many expected results came out."""

    passed: int
    total: int

    def __str__(self) -> str:
        share = f" ({100 * self.passed / self.total:.1f} %)" if self.total else ""
        return f"passed {self.passed} of {self.total}{share}"


def counted_by_level(outcomes: Iterable[Outcome]) -> dict[str, Count]:
    """The counts of each level."""
    return _counted(outcomes, lambda outcome: outcome.level)


def counted_by_file(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], Count]:
    """The counts of each test file, by level and name."""
    return _counted(outcomes, lambda outcome: (outcome.level, outcome.file))


def _counted(outcomes: Iterable[Outcome], key: Callable[[Outcome], Key]) -> dict[Key, Count]:
    counts: dict[Key, Count] = {}
    for outcome in outcomes:
        passed, total = counts.get(key(outcome), Count(0, 0))
        counts[key(outcome)] = Count(passed + outcome.passed, total + 1)
    return counts


def report(outcomes: Sequence[Outcome], *, failures: bool) -> Iterator[str]:
    """The lines of the report."""
    files = counted_by_file(outcomes)
    width = max((len(file) for _, file in files), default=0)
    for level, count in counted_by_level(outcomes).items():
        for (of_level, file), of_file in files.items():
            if of_level == level:
                yield f"  {file:<{width}}  {of_file}"
                if failures:
                    yield from _failures(outcomes, level, file)
        yield f"{level_name(level)}: {count}"
        yield ""
    yield f"Total: {Count(sum(outcome.passed for outcome in outcomes), len(outcomes))}"


def level_name(level: str) -> str:
    """A level in words."""
    return f"Level {level}" if level.isdigit() else "No level" if level == NO_LEVEL else level.capitalize()


def _failures(outcomes: Sequence[Outcome], level: str, file: str) -> Iterator[str]:
    for outcome in outcomes:
        if not outcome.passed and outcome.level == level and outcome.file == file:
            place = ", ".join(filter(None, (outcome.case and f"case {outcome.case}", outcome.node)))
            yield f"    {place or 'the whole file'}"
            if outcome.expected:
                yield f"      expected  {_short(outcome.expected)}"
            if outcome.actual:
                yield f"      actual    {_short(outcome.actual)}"
            for reason in outcome.reasons[:3]:
                yield f"      because   {_short(reason)}"


def _short(text: str) -> str:
    line = " ".join(text.split()) if "\n" in text else text
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}..."
