"""Owns the folders of a suite: which test files there are, of which level, and the outcomes of each.
Never skips anything in silence: what cannot be read or run is a failed outcome.
Called by the command and by the tests that hold the counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from lxml import etree

from engine.dmn import Decision, DecisionFailed
from engine.feel import EvaluationContext
from tests.tck.comparison import matches, shown
from tests.tck.outcome import NO_LEVEL, Outcome
from tests.tck.tested_model import TestedModel, read_model, refused_model
from tests.tck.typed_value import Unreadable, children, kind_of, name_of, value_of

# The public suite, where it is there.
SUITE: Final = Path(os.environ.get("CONCH_TEST_SUITES") or Path(__file__).parents[3] / "shared" / "data") / "dmn-tck"
NOW_US: Final = 1_700_000_000_000_000
_LEVEL: Final = re.compile(r"compliance-level-(\d+)\Z")
_NON_COMPLIANT: Final = "non-compliant"
_PARSER: Final = etree.XMLParser(resolve_entities=False, no_network=True)


class TestFile(NamedTuple):
    """A file of test cases and the level of the folder that it lies in."""

    level: str
    path: Path


class Subject(NamedTuple):
    """What a result is asked of. `entry` names the part of its value that is meant; None means all of it."""

    decision: Decision | None
    entry: str | None
    why_not: str


def files_of(folder: Path, level: str | None = None, *, non_compliant: bool = False) -> list[TestFile]:
    """The test files below a folder, which may be a whole suite, one level of it or a single test.

    A file is one when its name says so or when it holds test cases.
    """
    found = [TestFile(_level_of(path), path) for path in sorted(folder.resolve().rglob("*.xml")) if _is_test(path)]
    inside = non_compliant or _NON_COMPLIANT in folder.resolve().parts
    return [each for each in found if (inside or each.level != _NON_COMPLIANT) and level in (None, each.level)]


def _level_of(path: Path) -> str:
    for parent in path.parents:
        if parent.name == _NON_COMPLIANT:
            return _NON_COMPLIANT
        if matched := _LEVEL.match(parent.name):
            return matched[1]
    return NO_LEVEL


def _is_test(path: Path) -> bool:
    if "-test-" in path.name:
        return True
    try:
        return kind_of(etree.parse(str(path), _PARSER).getroot()) == "testCases"
    except (OSError, etree.XMLSyntaxError):
        return False


def outcomes_of(file: TestFile) -> Iterator[Outcome]:
    """One outcome for each expected result of a test file; one failed outcome where there is none to try."""
    try:
        root = etree.parse(str(file.path), _PARSER).getroot()
    except (OSError, etree.XMLSyntaxError) as error:
        yield _failed(file, "", "", "", "", f"the test file cannot be read: {error}")
        return
    model = _model(file.path, root)
    cases = children(root, "testCase")
    if not cases:
        yield _failed(file, "", "", "", "", "the file has no test case")
    for case in cases:
        nodes = children(case, "resultNode")
        if not nodes:
            yield _failed(file, case.get("id", ""), "", "", "", "the case expects no result")
        for node in nodes:
            yield _outcome(file, case, node, model)


def _model(path: Path, root: etree._Element) -> TestedModel:
    to_call = any(case.get("type") == "bkm" for case in children(root, "testCase"))
    named = [(each.text or "").strip() for each in children(root, "modelName")]
    if named and named[0]:
        return read_model(path.parent / named[0], to_call=to_call)
    models = sorted(path.parent.glob("*.dmn"))
    if len(models) != 1:
        return refused_model(f"the file names no model, and beside it lie {len(models)}")
    return read_model(models[0], to_call=to_call)


def _outcome(file: TestFile, case: etree._Element, node: etree._Element, model: TestedModel) -> Outcome:
    case_id, name = case.get("id", ""), name_of(node)
    try:
        expected = _expected(node)
    except Unreadable as error:
        return _failed(file, case_id, name, "", "", f"the expected value cannot be read: {error}")
    wanted = "an error" if _is_error(node) and expected is None else shown(expected)
    try:
        inputs = {name_of(each): value_of(each) for each in children(case, "inputNode")}
    except Unreadable as error:
        return _failed(file, case_id, name, wanted, "", f"an input cannot be read: {error}")
    subject = _subject(case, name, model)
    if subject.decision is None:
        return _failed(file, case_id, name, wanted, "", subject.why_not)
    context = EvaluationContext(now_us=NOW_US)
    try:
        value = _part(subject.decision.evaluate(inputs, context).value, subject.entry)
    except DecisionFailed as failed:
        if _is_error(node) and expected is None:
            return Outcome(file.level, file.path.stem, case_id, name, True)
        return _failed(file, case_id, name, wanted, "a failed decision", str(failed))
    except Exception as error:  # whatever it is, it is a fault of the engine in this case, and the next case is tried
        return _failed(file, case_id, name, wanted, "", f"the engine broke: {error!r}")
    if matches(value, expected):
        return Outcome(file.level, file.path.stem, case_id, name, True)
    return _failed(file, case_id, name, wanted, shown(value), *(warning.cause for warning in context.warnings))


def _expected(node: etree._Element) -> Any:
    given = children(node, "expected")
    if len(given) > 1:
        raise Unreadable("several <expected>")
    return value_of(given[0]) if given else None


def _subject(case: etree._Element, name: str, model: TestedModel) -> Subject:
    invoked = " ".join((case.get("invocableName") or "").split()) or name
    kind = case.get("type", "decision")
    if kind == "decision":
        return Subject(model.decisions.get(name), None, model.why_not(name))
    if kind == "bkm":
        return Subject(model.called.get(invoked), None, model.why_not(invoked))
    if kind == "decisionService":
        several = model.outputs.get(invoked, 0) > 1 and name != invoked
        return Subject(model.services.get(invoked), name if several else None, model.why_not(invoked))
    return Subject(None, None, f"the case type {kind!r} is not known")


def _part(value: Any, entry: str | None) -> Any:
    if entry is None:
        return value
    if not isinstance(value, dict) or entry not in value:
        raise DecisionFailed(f"the service gives no {entry!r}: {shown(value)}")
    return value[entry]


def _is_error(node: etree._Element) -> bool:
    return node.get("errorResult", "").strip() in ("true", "1")


def _failed(file: TestFile, case: str, node: str, expected: str, actual: str, *reasons: str) -> Outcome:
    return Outcome(file.level, file.path.stem, case, node, False, expected, actual, reasons)
