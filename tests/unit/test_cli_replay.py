"""What `conch replay` says beside its verdict."""

from __future__ import annotations

import pytest

from engine import __version__
from engine.cli.replay import Comparison, _print
from engine.store.canonical import Difference


def test_a_replay_by_another_engine_warns_that_a_difference_may_be_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    _print(Comparison(7, "0.0.9", 3, [Difference(7, 2, "missing")], None))
    said = capsys.readouterr()
    assert said.err.startswith(f"warning: engine 0.0.9 began this instance, and engine {__version__} replays it")
    assert said.err.rstrip().endswith("only engine 0.0.9 can prove it")
    assert said.out == "process instance 7, position 2: missing\n"


def test_a_replay_by_the_same_engine_warns_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    _print(Comparison(7, __version__, 3, [], None))
    assert capsys.readouterr() == ("process instance 7: 3 rows follow from its commands, byte for byte\n", "")
