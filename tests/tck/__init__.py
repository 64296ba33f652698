"""Owns running compliance suites of DMN: what is in a folder of them, how it came out, and how that is told.
Never changes what an engine gives, and calls nothing of the engine but what is published.
Called as `python -m tests.tck`, and by the tests that hold the counts.
"""

from tests.tck.outcome import Outcome
from tests.tck.report import Count, counted_by_file, counted_by_level
from tests.tck.suite import SUITE, TestFile, files_of, outcomes_of

__all__ = ["SUITE", "Count", "Outcome", "TestFile", "counted_by_file", "counted_by_level", "files_of", "outcomes_of"]
