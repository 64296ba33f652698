"""Owns the one error of the demonstration.
Never carries a secret.
Called by every module of the demo and caught by its command.
"""

from engine.errors import ConchError


class DemoError(ConchError):
    """The demonstration cannot go on; the message says why and what to do."""
