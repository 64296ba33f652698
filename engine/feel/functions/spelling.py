"""Owns what is said about a function that does not exist: which built-in the author may have meant.
Never changes what a call gives.
Called by the compiler of invocations.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from engine.feel.functions.registry import BUILTINS

_BETWEEN_WORDS = re.compile(r"[\s_-]+|(?<=[a-z0-9])(?=[A-Z])")


def _words(name: str) -> list[str]:
    return _BETWEEN_WORDS.sub(" ", name).lower().split()


def _nearest(name: str) -> str | None:
    """The built-in with the same letters, else the only one with all of the name's words, else one spelt alike."""
    squeezed = {"".join(known.split()): known for known in sorted(BUILTINS)}
    words = _words(name)
    written = "".join(words)
    if written in squeezed:
        return squeezed[written]
    holding = [known for known in squeezed.values() if words and set(words) <= set(known.split())]
    if len(holding) == 1:
        return holding[0]
    alike = get_close_matches(written[:64], squeezed, n=1, cutoff=0.8)
    return squeezed[alike[0]] if alike else None


def unknown_function(name: str) -> str:
    """The cause of a remark about a call of `name`."""
    nearest = _nearest(name)
    return f"no function {name!r}" + (f"; did you mean {nearest!r}?" if nearest else "")
