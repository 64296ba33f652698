"""The arithmetic of the text models: a prompt becomes a deterministic sequence of words.

It never knows of Triton and never waits. The models `chat`, `chat-small` and `faulty-stream` call it.
"""

import hashlib
from collections.abc import Iterator

DEFAULT_MAX_TOKENS = 16
MAX_TOKENS_LIMIT = 4096
MAX_DELAY_MS = 60_000
_OPENINGS = ("The answer", "In short", "Most likely", "As asked", "Plainly")
_SENTENCE = (
    "a careful reader finds the shell on the shore where every wave brings small clear notes "
    "and the tide returns them in order so nothing is lost while slow currents carry each one home"
)
_WORDS = _SENTENCE.split()


def token_count(text: bytes) -> int:
    """Tokens of a text; a token is a run of characters without white space."""
    return len(text.split())


def words(prompt: bytes, max_tokens: int) -> Iterator[str]:
    """Yield `max_tokens` tokens that depend on the prompt alone; joined as they are, they make the text.

    After the opening, the token at position k is picked by the SHA-256 of the prompt's digest and k.
    """
    seed = hashlib.sha256(prompt).digest()
    opening = _OPENINGS[seed[0] % len(_OPENINGS)].split()
    for position in range(max_tokens):
        if position < len(opening):
            word = opening[position]
        else:
            pick = hashlib.sha256(seed + position.to_bytes(4, "big")).digest()
            word = _WORDS[pick[0] % len(_WORDS)]
        yield word if position == 0 else " " + word


def problems(max_tokens: int, delay_ms: int) -> str:
    """Every limit that a request breaks, as one sentence; empty if none."""
    found = []
    if not 1 <= max_tokens <= MAX_TOKENS_LIMIT:
        found.append(f"max_tokens must be 1 to {MAX_TOKENS_LIMIT}, got {max_tokens}")
    if not 0 <= delay_ms <= MAX_DELAY_MS:
        found.append(f"delay_ms must be 0 to {MAX_DELAY_MS}, got {delay_ms}")
    return "; ".join(found)
