"""Owns turning bytes into an XML tree safely: no DTD, entities or network; limits on size, depth and element count.
Never knows a vocabulary: whose elements they are is the caller's business.
Called by the rooms that read diagrams: decisions and processes.
"""

from __future__ import annotations

from typing import Final
from xml.parsers import expat

from lxml import etree

from engine.errors import DefinitionInvalid, Problem

MAX_BYTES: Final = 2_000_000
MAX_DEPTH: Final = 64
MAX_ELEMENTS: Final = 50_000


class _Refused(Exception):
    """Carries a problem out of the scanner's callbacks."""

    def __init__(self, rule: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.rule, self.message, self.remedy = rule, message, remedy


def read_tree(xml: bytes, resource_name: str, max_bytes: int = MAX_BYTES) -> etree._Element:
    """Parse `xml` and return its root element, without comments and processing instructions.

    Raises DefinitionInvalid when the text is too large, too deep, holds a DTD or is not well-formed XML; the message
    then says line and column.
    """
    try:
        if len(xml) > max_bytes:
            raise _Refused(
                "file-too-large",
                f"the file has at least {len(xml):,} bytes; the limit is {max_bytes:,}",
                "Split the diagram into several files.",
            )
        _scan(xml)
        return _parse(xml)
    except _Refused as refused:
        problem = Problem(resource_name, "", "", refused.rule, refused.message, refused.remedy)
        raise DefinitionInvalid([problem]) from None


def _scan(xml: bytes) -> None:
    """Walk the text once without building anything, so that nothing hostile ever reaches the tree builder."""
    scanner = expat.ParserCreate()
    depth = elements = 0

    def opened(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth, elements
        depth += 1
        elements += 1
        if depth > MAX_DEPTH or elements > MAX_ELEMENTS:
            limit = f"nested deeper than {MAX_DEPTH}" if depth > MAX_DEPTH else f"more than {MAX_ELEMENTS:,}"
            raise _Refused("file-too-complex", f"the file has elements {limit}", "Simplify the diagram.")

    def closed(name: str) -> None:
        nonlocal depth
        depth -= 1

    def doctype(*_: object) -> None:
        raise _Refused(
            "doctype-forbidden",
            f"line {scanner.CurrentLineNumber}: the file declares a document type",
            "Remove the <!DOCTYPE ...> and its entities; a diagram needs none.",
        )

    scanner.StartElementHandler = opened
    scanner.EndElementHandler = closed
    scanner.StartDoctypeDeclHandler = doctype
    try:
        scanner.Parse(xml, True)
    except expat.ExpatError as error:
        where = f"line {error.lineno}, column {error.offset + 1}"
        raise _not_xml(where, expat.ErrorString(error.code) or "malformed") from None
    except (LookupError, ValueError) as error:  # an encoding that Python does not know or cannot map to single bytes
        raise _not_xml("line 1, column 1", str(error)) from None


def _parse(xml: bytes) -> etree._Element:
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        return etree.fromstring(xml, parser)
    except etree.XMLSyntaxError as error:
        line, column = error.position
        raise _not_xml(f"line {line}, column {column}", (error.msg or "malformed").split(", line ")[0]) from None


def _not_xml(where: str, cause: str) -> _Refused:
    return _Refused(
        "not-xml",
        f"{where}: not well-formed XML: {cause}",
        "Open the file in Camunda Modeler, or restore the last version that it saved.",
    )
