"""Owns `python -m engine.cli`, the `conch` command of exactly this interpreter.
Never does more than that.
Called by whoever starts a gateway as a child of their own.
"""

from engine.cli import main

main()
