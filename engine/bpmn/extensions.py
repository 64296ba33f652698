"""Owns finding the zeebe: extension elements of an element, and refusing those that would silently not run.
Never reads what an extension element says.
Called by the readers of the dialect.
"""

from __future__ import annotations

from lxml import etree

from engine.bpmn.findings import Findings
from engine.bpmn.vocabulary import REFUSED_EXTENSIONS, TEMPLATE_ATTRIBUTES
from engine.bpmn.xml import BPMN, ZEEBE


def extensions(element: etree._Element, name: str) -> list[etree._Element]:
    """The element's zeebe: extension elements of that name."""
    found: list[etree._Element] = element.findall(f"{{{BPMN}}}extensionElements/{{{ZEEBE}}}{name}")
    return found


def one_extension(
    findings: Findings, element: etree._Element, name: str, inside: etree._Element | None = None
) -> etree._Element | None:
    """The extension element of that name, or null; several are a problem, because only one could count.

    `inside` is the part of `element` that holds it, where it is not the element itself.
    """
    found = extensions(element if inside is None else inside, name)
    if len(found) > 1:
        findings.add(
            element,
            "repeated-extension",
            f"zeebe:{name} stands here {len(found)} times",
            "Keep the one that is meant.",
        )
    return found[0] if found else None


def check_extensions(
    findings: Findings, element: etree._Element, allowed: frozenset[str], inside: etree._Element | None = None
) -> None:
    """Refuse every zeebe: word that would change what the element does and that does not run."""
    holder = element if inside is None else inside
    for key in holder.attrib:
        name = etree.QName(key)
        if name.namespace == ZEEBE and name.localname not in TEMPLATE_ATTRIBUTES:
            _refuse(findings, element, name.localname, f"the attribute zeebe:{name.localname}")
    for extension in holder.iterfind(f"{{{BPMN}}}extensionElements/{{{ZEEBE}}}*"):
        word = etree.QName(extension).localname
        if word not in allowed:
            _refuse(findings, element, word, f"zeebe:{word}")


def _refuse(findings: Findings, element: etree._Element, word: str, what: str) -> None:
    remedy = REFUSED_EXTENSIONS.get(word, "Remove it, or draw what it does.")
    findings.add(element, "unsupported-extension", f"{what} does not run on this kind of element", remedy)
