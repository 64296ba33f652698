"""The public compliance suite of DMN, levels 2 and 3: how many expected results come out, and that it gets no fewer."""

from __future__ import annotations

import pytest

from tests.dmn_tck import ROOT, Outcome, counted, outcomes

pytestmark = pytest.mark.slow

# May only rise.
PASSED = 2_475
# Files about tables, requirements, knowledge models and scopes, in which every result comes out.
WHOLE = (
    "0004-simpletable-U",
    "0005-simpletable-A",
    "0006-simpletable-P1",
    "0007-simpletable-P2",
    "0009-invocation-arithmetic",
    "0010-multi-output-U",
    "0108-first-hitpolicy",
    "0109-ruleOrder-hitpolicy",
    "0113-outputOrder-hitpolicy-singleinoutcol",
    "0115-sum-collect-hitpolicy",
    "0116-count-collect-hitpolicy",
    "0117-multi-any-hitpolicy",
    "0118-multi-priority-hitpolicy",
    "0119-multi-collect-hitpolicy",
    "0004-lending",
    "0014-loan-comparison",
    "0017-tableTests",
    "0020-vacation-days",
    "0030-user-defined-functions",
    "0034-drg-scopes",
    "0037-dt-on-bkm-implicit-params",
    "0038-dt-on-bkm-explicit-params",
    "0039-dt-list-semantics",
    "0087-chapter-11-example",
)


@pytest.fixture(scope="module")
def found() -> list[Outcome]:
    if not ROOT.is_dir():
        pytest.skip(f"the suite is not at {ROOT.name} beside the repository, nor where CONCH_SUITES says")
    return list(outcomes())


def test_no_fewer_results_come_out_than_before(found: list[Outcome], capsys: pytest.CaptureFixture[str]) -> None:
    counts = counted(found)
    with capsys.disabled():
        print(f"\nDMN compliance: {', '.join(f'{count} {kind}' for kind, count in counts.most_common())}")
    assert counts["passed"] >= PASSED


def test_files_that_came_out_whole_still_do(found: list[Outcome]) -> None:
    files = {outcome.file for outcome in found}
    assert files >= set(WHOLE)
    broken = [outcome for outcome in found if outcome.file in WHOLE and outcome.kind != "passed"]
    assert not broken, "\n".join(map(str, broken[:5]))
