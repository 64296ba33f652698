"""Owns the names of several tokens that a text may use: learnt, found longest first, forgotten with their scope.
Never decides where a name may stand.
Called by the cursor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

from engine.feel.lexer import Token, spaced, tokenize

_NO_PART = frozenset(("string", "escaped", "unclosed"))
_FIRST = frozenset(("name", "keyword", "stray"))
# No token is an empty text, so that this key of a branch is free for the names that end there.
_NAMES = ""


@lru_cache(maxsize=4096)
def _path(name: str) -> tuple[str, ...]:
    """The tokens of a name of several; nothing for a single word and for what is a name only between back quotes."""
    if name.isidentifier():
        return ()
    tokens = tokenize(name)[:-1]
    if len(tokens) < 2 or tokens[0].kind not in _FIRST or any(token.kind in _NO_PART for token in tokens):
        return ()
    return tuple(token.text for token in tokens)


def joined(tokens: Sequence[Token], first: int, count: int) -> str:
    """The name that `count` tokens make as they are written, with single spaces."""
    parts = [tokens[first].text]
    for index in range(first + 1, first + count):
        if tokens[index - 1].end != tokens[index].start:
            parts.append(" ")
        parts.append(tokens[index].text)
    return "".join(parts)


# Of names that begin at one place, the one of most tokens is meant.
longer = itemgetter(0)


class Vocabulary:
    """Names of several tokens, as a tree of their tokens: finding one takes a step for each token of the name.

    White space only separates tokens, as the standard has it: `a-b` and `a - b` are one name. What `outer` knows is
    known too.
    """

    def __init__(self, outer: Vocabulary | None = None) -> None:
        self._outer = outer
        self._tree: dict[str, Any] = {}
        self._learnt: list[tuple[str, ...]] = []

    def __len__(self) -> int:
        return len(self._learnt)

    def learn(self, name: str) -> None:
        """Know a name from here on; a single word needs no learning."""
        path = _path(name)
        if path:
            self._branch(path).setdefault(_NAMES, []).append(spaced(name))
            self._learnt.append(path)

    def forget(self, mark: int) -> None:
        """Know no more than when there were `mark` names."""
        while len(self._learnt) > mark:
            self._branch(self._learnt.pop())[_NAMES].pop()

    def _branch(self, path: tuple[str, ...]) -> dict[str, Any]:
        branch = self._tree
        for part in path:
            branch = branch.setdefault(part, {})
        return branch

    def longest(self, tokens: Sequence[Token], index: int) -> tuple[int, str]:
        """The longest known name that begins at `index`: its number of tokens, 0 when there is none, and the name."""
        count, found = 0, (0, "") if self._outer is None else self._outer.longest(tokens, index)
        branch = self._tree.get(tokens[index].text)
        while branch is not None:
            count += 1
            if branch.get(_NAMES):
                found = max((count, branch[_NAMES][-1]), found, key=longer)
            branch = branch.get(tokens[index + count].text) if index + count < len(tokens) - 1 else None
        return found


@lru_cache(maxsize=128)
def vocabulary_of(names: frozenset[str]) -> Vocabulary:
    """The vocabulary of a caller's names, which many texts share. It learns no more."""
    vocabulary = Vocabulary()
    for name in sorted(names):
        vocabulary.learn(name)
    return vocabulary
