"""The arithmetic of the embedding models: a text becomes eight numbers and a token count.

It never knows of Triton. The models `embed` and `faulty` call it; tests may import it as well.
"""

import hashlib

DIMENSIONS = 8


def embedding(text: bytes) -> list[float]:
    """Eight numbers in [-1, 1) that depend on the text alone: 4 bytes of its SHA-256 for each."""
    digest = hashlib.sha256(text).digest()
    return [int.from_bytes(digest[i : i + 4], "big") / 2**31 - 1.0 for i in range(0, 4 * DIMENSIONS, 4)]


def token_count(text: bytes) -> int:
    """Tokens of a text; a token is a run of characters without white space."""
    return len(text.split())
