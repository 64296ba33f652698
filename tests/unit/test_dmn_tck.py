"""The public compliance suite of DMN, levels 2 and 3: how many expected results come out, and that it gets no fewer."""

from __future__ import annotations

import pytest

from tests.tck import SUITE, Count, Outcome, counted_by_file, counted_by_level, files_of, outcomes_of

pytestmark = pytest.mark.slow

# How many results come out of how many, by level. May only rise.
FLOORS = {"2": Count(87, 87), "3": Count(2532, 2550)}
# Files of which not every result comes out, for their functions are Java; of all others every one does.
NOT_WHOLE = {"0076-feel-external-java-test-01"}


@pytest.fixture(scope="module")
def found() -> list[Outcome]:
    if not SUITE.is_dir():
        pytest.skip(f"the suite {SUITE.name} is not beside the repository, nor where CONCH_TEST_SUITES says")
    return [outcome for file in files_of(SUITE) for outcome in outcomes_of(file)]


@pytest.mark.parametrize("level", FLOORS)
def test_no_fewer_results_come_out_than_before(
    found: list[Outcome], level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    count = counted_by_level(found)[level]
    with capsys.disabled():
        print(f"\nDMN compliance level {level}: {count}")
    assert count.total == FLOORS[level].total
    assert count.passed >= FLOORS[level].passed


def test_files_that_came_out_whole_still_do(found: list[Outcome]) -> None:
    broken = {file for (_, file), count in counted_by_file(found).items() if count.passed < count.total}
    assert broken <= NOT_WHOLE
