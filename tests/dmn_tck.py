"""Owns running the public compliance suite of DMN: its files, what they expect, and how the results count."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from lxml import etree

from engine.dmn import Decision, DecisionFailed, DecisionModel, parse_decisions
from engine.errors import DefinitionInvalid
from engine.feel import EvaluationContext, FeelLimits, to_json
from engine.feel.faults import FeelFault
from engine.feel.temporal_text import parse_date, parse_date_time, parse_duration, parse_time

ROOT = Path(os.environ.get("CONCH_SUITES") or Path(__file__).parents[2] / "shared" / "data") / "dmn-tck"
NOW_US = 1_700_000_000_000_000
XSI = "{http://www.w3.org/2001/XMLSchema-instance}"
TEMPORAL = {"date": parse_date, "time": parse_time, "dateTime": parse_date_time, "duration": parse_duration}


class Outcome(NamedTuple):
    """How one expected result of one case came out; `kind` is passed, failed, or why it could not be tried."""

    file: str
    case: str
    node: str
    kind: str
    text: str


def outcomes(root: Path = ROOT) -> Iterator[Outcome]:
    """Every expected result of every test file."""
    for path in sorted(root.glob("compliance-level-*/*/*.xml")):
        cases = etree.parse(path).getroot()
        model_path = path.parent / _child_text(cases, "modelName")
        model, refused = _model(model_path)
        by_name = {} if model is None else {decision.name: decision for decision in model.decisions.values()}
        for case in _children(cases, "testCase"):
            for node in _children(case, "resultNode"):
                name = " ".join(node.get("name").split())
                subject = by_name.get(name)
                if case.get("type") == "decisionService":
                    services = () if model is None else model.services.values()
                    subject = next((each for each in services if each.name == case.get("invocableName")), None)
                kind, text = _tried(case, node, subject, refused)
                yield Outcome(model_path.stem, case.get("id", ""), name, kind, text)


def _tried(
    case: etree._Element, node: etree._Element, decision: Decision | None, refused: dict[str, str]
) -> tuple[str, str]:
    if decision is None:
        name = " ".join(node.get("name").split())
        return f"refused: {refused.get(name, refused.get('', 'no such decision')).split(':')[0]}", refused.get(name, "")
    expected_node = next(_children(node, "expected"), None)
    expected = None if expected_node is None else _value(expected_node)
    inputs = {" ".join(each.get("name").split()): _value(each) for each in _children(case, "inputNode")}
    context = EvaluationContext(now_us=NOW_US, limits=FeelLimits())
    try:
        value = decision.evaluate(inputs, context).value
    except DecisionFailed as failed:
        if node.get("errorResult") == "true" or expected is None:
            return "passed", ""
        return "failed", f"{expected!r}: {failed}"
    if isinstance(value, dict) and len(case.findall("{*}resultNode")) > 1 and case.get("type") == "decisionService":
        value = value[" ".join(node.get("name").split())]
    if _matches(value, expected):
        return "passed", ""
    return "failed", f"expected {expected!r}, got {value!r} {[warning.cause for warning in context.warnings[:2]]}"


def _model(path: Path) -> tuple[DecisionModel | None, dict[str, str]]:
    """The model without the decisions that are refused, and why these are, by name."""
    tree = etree.parse(path).getroot()
    refused: dict[str, str] = {}
    while True:
        try:
            return parse_decisions(etree.tostring(tree), path.name), refused
        except DefinitionInvalid as invalid:
            removed = False
            for problem in invalid.problems:
                if problem.severity != "error":
                    continue
                element = _topmost(tree, problem.element_id)
                if element is not None:
                    refused[" ".join(element.get("name", "").split())] = f"{problem.rule}: {problem.message}"
                    tree.remove(element)
                    removed = True
            if not removed:
                refused[""] = f"{invalid.problems[0].rule}: {invalid.problems[0].message}"
                return None, refused


def _topmost(root: etree._Element, element_id: str) -> etree._Element | None:
    found = next((each for each in root.iter() if element_id and each.get("id") == element_id), None)
    while found is not None and found is not root and found.getparent() is not root:
        found = found.getparent()
    return None if found is root else found


def _children(element: etree._Element, kind: str) -> Iterator[etree._Element]:
    return (child for child in element.iterchildren(f"{{*}}{kind}"))


def _child_text(element: etree._Element, kind: str) -> str:
    return (next(_children(element, kind)).text or "").strip()


def _value(element: etree._Element) -> Any:
    """The value inside an element; nil and nothing at all are null."""
    for child in element.iterchildren("{*}value", "{*}list", "{*}component"):
        if child.get(f"{XSI}nil") == "true":
            return None
        if etree.QName(child).localname == "list":
            return [_value(item) for item in _children(child, "item")]
        if etree.QName(child).localname == "component":
            return {" ".join(each.get("name").split()): _value(each) for each in _children(element, "component")}
        return _scalar(child)
    return None


def _scalar(element: etree._Element) -> Any:
    kind = (element.get(f"{XSI}type") or "xsd:string").rpartition(":")[2]
    text = element.text or ""
    if kind in ("decimal", "double", "integer"):
        number = Decimal(text.strip())
        return int(number) if number == number.to_integral_value() and number.adjusted() < 30 else number
    if kind == "boolean":
        return text.strip() in ("true", "1")
    if kind in TEMPORAL:
        try:
            return TEMPORAL[kind](text.strip())
        except FeelFault:
            return text.strip()
    return text


def _matches(value: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return isinstance(value, list) and len(value) == len(expected) and all(map(_matches, value, expected))
    if isinstance(expected, dict):
        return (
            isinstance(value, dict)
            and value.keys() == expected.keys()
            and all(_matches(value[key], expected[key]) for key in expected)
        )
    if isinstance(expected, bool) or isinstance(value, bool):
        return value is expected
    if isinstance(expected, int | Decimal):
        if not isinstance(value, int | Decimal):
            return False
        return abs(Decimal(value) - Decimal(expected)) <= Decimal("1e-8") * max(1, abs(Decimal(expected)))
    if isinstance(expected, str) and not isinstance(value, str) and value is not None:
        return bool(to_json(value) == expected)
    return bool(value == expected)


def counted(found: list[Outcome]) -> Counter[str]:
    """How many results came out in which way."""
    return Counter(outcome.kind for outcome in found)
