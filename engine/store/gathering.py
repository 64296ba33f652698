"""Owns the gathering of questions to the database: what is asked while one statement is under way shares the next.
Never holds a statement, and never asks two at once.
Called by the store of messages.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import Generic, TypeVar

import psycopg

Q = TypeVar("Q")
A = TypeVar("A")

_AWAY = (psycopg.OperationalError, OSError)


class Gathering(Generic[Q, A]):
    """`ask` answers several questions with one statement, in their order. At most `most` go together, and no more than
    weigh `heaviest` together, unless one does alone."""

    def __init__(
        self,
        ask: Callable[[Sequence[Q]], Awaitable[Sequence[A]]],
        most: int,
        weigh: Callable[[Q], int] = lambda _: 0,
        heaviest: int = 1 << 20,
    ) -> None:
        self._ask = ask
        self._most = most
        self._weigh = weigh
        self._heaviest = heaviest
        self._waiting: deque[tuple[Q, asyncio.Future[A]]] = deque()
        self._asking: asyncio.Task[None] | None = None

    async def __call__(self, question: Q) -> A:
        """The answer. Raises what `ask` raises for this question, or for all while the database is away."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[A] = loop.create_future()
        self._waiting.append((question, answer))
        if self._asking is None:
            self._asking = loop.create_task(self._ask_all())
        return await answer

    async def _ask_all(self) -> None:
        asked: list[tuple[Q, asyncio.Future[A]]] = []
        try:
            while self._waiting:
                asked = self._next()
                if asked:
                    await self._ask_some(asked)
        finally:
            self._asking = None
            for _, answer in (*asked, *self._waiting):
                answer.cancel()  # the loop goes down; what is answered stays as it is
            self._waiting.clear()

    def _next(self) -> list[tuple[Q, asyncio.Future[A]]]:
        taken: list[tuple[Q, asyncio.Future[A]]] = []
        weight = 0
        while self._waiting and len(taken) < self._most:
            question, answer = self._waiting[0]
            weight += self._weigh(question)
            if taken and weight > self._heaviest:
                break
            self._waiting.popleft()
            if not answer.done():  # else whoever asked has left before anything began
                taken.append((question, answer))
        return taken

    async def _ask_some(self, asked: Sequence[tuple[Q, asyncio.Future[A]]]) -> None:
        try:
            answers = await self._ask([question for question, _ in asked])
        except Exception as error:  # it belongs to whoever asked, who gets it here
            if len(asked) == 1 or isinstance(error, _AWAY):
                for _, answer in asked:
                    if not answer.done():
                        answer.set_exception(copy(error))
            else:  # one of them is to blame, and the others are not to suffer for it
                for each in asked:
                    await self._ask_some((each,))
            return
        for (_, answer), found in zip(asked, answers, strict=True):
            if not answer.done():
                answer.set_result(found)
