"""Owns reading the texts of a diagram that may be FEEL: a leading `=` makes an expression, anything else is a constant.
Never evaluates an expression.
Called by the readers of events, activities, loops and sequence flows.
"""

from __future__ import annotations

import re
from typing import Final

from lxml import etree

from engine.bpmn.definition import Static
from engine.bpmn.findings import Findings
from engine.feel import Expression, FeelSyntaxError, compile_expression

VARIABLE: Final = re.compile(r"[^\W\d]\w*")
PATH: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def read_value(findings: Findings, element: etree._Element, text: str, where: str) -> Expression | Static | None:
    """An expression or a constant; null, with a problem, for an expression that is not FEEL."""
    text = text.strip()
    return _compiled(findings, element, text, where) if text.startswith("=") else Static(text)


def read_expression(findings: Findings, element: etree._Element, text: str, where: str) -> Expression | None:
    """An expression where a constant would make no sense; null, with a problem, for anything else."""
    text = text.strip()
    if text.startswith("="):
        return _compiled(findings, element, text, where)
    findings.add(
        element, "expression-not-feel", f"{where} `{text}` is not a FEEL expression", "Start it with = and write FEEL."
    )
    return None


def read_condition(findings: Findings, element: etree._Element, text: str) -> Expression | None:
    """A condition; null, with a problem, if it is not FEEL."""
    text = text.strip()
    if text.startswith("="):
        return _compiled(findings, element, text, "the condition")
    findings.add(element, "condition-not-feel", f"the condition `{text}` is not a FEEL expression", "Start it with =.")
    return None


def _compiled(findings: Findings, element: etree._Element, text: str, where: str) -> Expression | None:
    try:
        compiled = compile_expression(text[1:].strip())
    except FeelSyntaxError as error:
        findings.add(
            element,
            "feel-syntax",
            f"{where} is not valid FEEL: {error}",
            "Correct the expression at the marked place.",
        )
        return None
    for remark in compiled.remarks:
        message = f"{where} has a part without a value: {remark}"
        findings.add(element, "feel-no-value", message, "Correct the marked place.", severity="warning")
    return compiled
