"""Questions that come while others are asked are asked together, and each gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import psycopg
import pytest

from engine.store.gathering import Gathering


class Database:
    """Answers each number with its double; what it was asked together is told."""

    def __init__(self, most: int = 100, heaviest: int = 1_000) -> None:
        self.asked: list[list[int]] = []
        self.wrong: set[int] = set()
        self.away = False
        self.double = Gathering(self._answer, most, lambda number: number, heaviest)

    async def _answer(self, numbers: Sequence[int]) -> list[int]:
        self.asked.append(list(numbers))
        await asyncio.sleep(0)
        if self.away:
            raise psycopg.OperationalError("away")
        if self.wrong & set(numbers):
            raise ValueError(f"wrong: {sorted(self.wrong & set(numbers))}")
        return [2 * number for number in numbers]


def test_what_comes_while_a_question_is_under_way_shares_the_next() -> None:
    async def main() -> None:
        database = Database()
        first = asyncio.create_task(database.double(1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert await asyncio.gather(*map(database.double, (2, 3, 4))) == [4, 6, 8]
        assert await first == 2
        assert database.asked == [[1], [2, 3, 4]]

    asyncio.run(main())


def test_no_more_go_together_than_are_allowed_by_number_and_weight() -> None:
    async def main() -> None:
        few = Database(most=2)
        assert await asyncio.gather(*map(few.double, (1, 2, 3))) == [2, 4, 6]
        assert few.asked == [[1, 2], [3]]
        light = Database(heaviest=10)
        assert await asyncio.gather(*map(light.double, (4, 5, 6, 20, 1))) == [8, 10, 12, 40, 2]
        assert light.asked == [[4, 5], [6], [20], [1]]

    asyncio.run(main())


def test_one_wrong_question_spoils_no_other() -> None:
    async def main() -> None:
        database = Database()
        database.wrong = {2}
        found = await asyncio.gather(*map(database.double, (1, 2, 3)), return_exceptions=True)
        assert [found[0], found[2]] == [2, 6]
        assert isinstance(found[1], ValueError)

    asyncio.run(main())


def test_while_the_database_is_away_everybody_is_told_and_later_questions_are_asked() -> None:
    async def main() -> None:
        database = Database()
        database.away = True
        found = await asyncio.gather(*map(database.double, (1, 2)), return_exceptions=True)
        assert all(isinstance(each, psycopg.OperationalError) for each in found)
        assert found[0] is not found[1]
        assert database.asked == [[1, 2]]
        database.away = False
        assert await database.double(3) == 6

    asyncio.run(main())


def test_who_has_left_is_not_asked_for() -> None:
    async def main() -> None:
        database = Database()
        first, leaving = (asyncio.create_task(database.double(number)) for number in (1, 2))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert await first == 2
        assert database.asked == [[1]]

    asyncio.run(main())
