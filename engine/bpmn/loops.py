"""Owns reading the multi-instance marker of an activity.
Never knows what the activity does.
Called by the reader of flow nodes.
"""

from __future__ import annotations

from lxml import etree

from engine.bpmn.definition import MultiInstance
from engine.bpmn.expressions import VARIABLE, read_condition, read_expression
from engine.bpmn.extensions import check_extensions, one_extension
from engine.bpmn.findings import Findings
from engine.bpmn.vocabulary import EXTENSIONS
from engine.bpmn.xml import BPMN
from engine.feel import Expression

_READ = frozenset({"extensionElements", "documentation", "completionCondition"})


def read_loop(findings: Findings, activity: etree._Element) -> MultiInstance | None:
    """The activity's multi-instance marker; null where it has none or where the marker cannot be read."""
    marker = activity.find(f"{{{BPMN}}}multiInstanceLoopCharacteristics")
    if marker is None:
        return None
    _check_children(findings, activity, marker)
    check_extensions(findings, activity, EXTENSIONS["multiInstanceLoopCharacteristics"], marker)
    loop = one_extension(findings, activity, "loopCharacteristics", marker)
    if loop is None or not loop.get("inputCollection", "").strip():
        findings.add(
            activity,
            "invalid-loop",
            "the multi-instance marker has no input collection",
            "Set the input collection: a FEEL expression that gives a list.",
        )
        return None
    collection = read_expression(findings, activity, loop.get("inputCollection", ""), "the input collection")
    output_collection, output_text = _name(loop, "outputCollection"), loop.get("outputElement", "").strip()
    output_element = None
    if output_text:
        output_element = read_expression(findings, activity, output_text, "the output element")
    if (output_collection is None) != (not output_text):
        findings.add(
            activity,
            "invalid-loop",
            "an output collection and an output element only work together",
            "Set both, or neither.",
        )
    _check_names(findings, activity, loop)
    if collection is None:
        return None
    return MultiInstance(
        sequential=marker.get("isSequential", "false") in ("true", "1"),
        input_collection=collection,
        input_element=_name(loop, "inputElement"),
        output_collection=output_collection,
        output_element=output_element,
        completion_condition=_completion_condition(findings, activity, marker),
    )


def _name(loop: etree._Element, attribute: str) -> str | None:
    return loop.get(attribute, "").strip() or None


def _completion_condition(findings: Findings, activity: etree._Element, marker: etree._Element) -> Expression | None:
    condition = marker.find(f"{{{BPMN}}}completionCondition")
    if condition is None or not (condition.text or "").strip():
        return None
    return read_condition(findings, activity, condition.text or "")


def _check_names(findings: Findings, activity: etree._Element, loop: etree._Element) -> None:
    for attribute, what in (("inputElement", "input element"), ("outputCollection", "output collection")):
        name = _name(loop, attribute)
        if name is not None and not VARIABLE.fullmatch(name):
            findings.add(
                activity,
                "invalid-loop",
                f"the {what} `{name}` is not a variable name",
                "Use letters, digits and underscores.",
            )


def _check_children(findings: Findings, activity: etree._Element, marker: etree._Element) -> None:
    for child in marker.iterfind(f"{{{BPMN}}}*"):
        name = etree.QName(child).localname
        if name not in _READ:
            findings.add(
                activity,
                "unsupported-element",
                f"bpmn:{name} in a multi-instance marker does not run",
                "Use the input and output collections of zeebe:loopCharacteristics.",
            )
