"""Owns reading the elements of one DMN file: namespaces, children, texts, names, and the problems found on the way.
Never decides what an element means.
Called by the modules of this package that turn elements into decision logic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from lxml import etree

from engine.errors import Problem
from engine.feel import Expression, FeelSyntaxError, Value, compile_expression, compile_unary_tests
from engine.feel.lexer import spaced
from engine.xml import read_tree

# DMN 1.1 (and its last beta) to 1.5.
NAMESPACES: Final = frozenset(
    (
        "http://www.omg.org/spec/DMN/20151101/dmn.xsd",
        "http://www.omg.org/spec/DMN/20151101/dmn11.xsd",
        "http://www.omg.org/spec/DMN/20151130",
        "http://www.omg.org/spec/DMN/20180521/MODEL/",
        "https://www.omg.org/spec/DMN/20180521/MODEL/",
        "http://www.omg.org/spec/DMN/20191111/MODEL/",
        "https://www.omg.org/spec/DMN/20191111/MODEL/",
        "https://www.omg.org/spec/DMN/20211108/MODEL/",
        "https://www.omg.org/spec/DMN/20230324/MODEL/",
    )
)
ZEEBE: Final = "http://camunda.org/schema/zeebe/1.0"
CAMUNDA: Final = ("http://camunda.org/schema/1.0/dmn", "http://camunda.org/schema/1.0/bpmn")
_ANNOTATIONS: Final = frozenset(("description", "extensionElements", "question", "allowedAnswers"))


class Source:
    """One DMN file: its root, the problems found so far, and the ways to read its elements."""

    def __init__(self, xml: bytes, file: str) -> None:
        """Raises DefinitionInvalid for what is no safe, well-formed XML."""
        self.file = file
        self.problems: list[Problem] = []
        self._noted: set[Problem] = set()
        self._compiled: dict[tuple[str, frozenset[str], bool], Expression] = {}
        self.root = read_tree(xml, file)
        self.namespace = etree.QName(self.root).namespace or ""
        self._prefix = f"{{{self.namespace}}}"
        self._text_tag = f"{self._prefix}text"
        self.language = self.root.get("expressionLanguage")
        self.target = (self.root.get("namespace") or "").strip()
        # What `instance of` may name beside FEEL's own types.
        self.types: Mapping[str, Callable[[Value], bool]] = {}

    def is_dmn(self) -> bool:
        """Whether the root is that of a known version of DMN; a problem is noted where it is not."""
        name = etree.QName(self.root)
        if name.localname == "definitions" and self.namespace in NAMESPACES:
            return True
        message = f"the file's root is `{name.localname}` of `{self.namespace}`, not DMN's `definitions`"
        self.add(None, "not-dmn", message, "Save it as DMN 1.1 to 1.5; Camunda Modeler writes 1.3.")
        return False

    def add(
        self, element: etree._Element | None, rule: str, message: str, remedy: str, severity: str = "error"
    ) -> None:
        """Note a problem at the element, or at the nearest one around it that has an id."""
        while element is not None and not element.get("id"):
            element = element.getparent()
        element_id = "" if element is None else element.get("id", "")
        problem = Problem(self.file, element_id, self.title(element), rule, message, remedy, severity)
        if problem not in self._noted:
            self._noted.add(problem)
            self.problems.append(problem)

    def title(self, element: etree._Element | None) -> str:
        """The name of the element, or of the nearest one around it that has a name."""
        while element is not None:
            name = spaced(element.get("name", "")) or spaced(element.get("label", ""))
            if name:
                return name
            element = element.getparent()
        return ""

    def kind(self, element: etree._Element) -> str:
        """The local name of an element of DMN; one of another vocabulary has none."""
        tag = str(element.tag)
        return tag[len(self._prefix) :] if tag.startswith(self._prefix) else ""

    def children(self, element: etree._Element, *kinds: str) -> Iterator[etree._Element]:
        """The children of DMN, of the given kinds or all that mean something."""
        for child in element:
            kind = self.kind(child)
            if kind in kinds if kinds else kind and kind not in _ANNOTATIONS:
                yield child

    def child(self, element: etree._Element, *kinds: str) -> etree._Element | None:
        """The first such child."""
        return next(self.children(element, *kinds), None)

    def text(self, element: etree._Element | None) -> str:
        """What stands in the element's `text` child, without white space around it."""
        for child in () if element is None else element:
            if child.tag == self._text_tag:
                return (child.text or "").strip()
        return ""

    def type_ref(self, element: etree._Element | None) -> str | None:
        """The type that the element declares, as an attribute or a child."""
        if element is None:
            return None
        inner = self.child(element, "typeRef")
        written = element.get("typeRef") if inner is None else inner.text
        return spaced(written) or None if written else None

    def required(self, element: etree._Element, attribute: str) -> str:
        """An attribute that must be there; a problem is noted where it is missing or empty."""
        value = spaced(element.get(attribute, ""))
        if not value:
            kind = self.kind(element)
            self.add(element, f"missing-{attribute}", f"the {kind} has no {attribute}", f"Give it a {attribute}.")
        return value

    def expression(self, element: etree._Element, names: frozenset[str], where: str) -> Expression | None:
        """The compiled expression of a literal; null, and a problem is noted, where it is none."""
        text = self.text(element)
        if not text:
            self.add(element, "missing-expression", f"{where} is empty", "Write a FEEL expression.")
            return None
        return self.compiled(element, text, names, where)

    def compiled(
        self, element: etree._Element, text: str, names: frozenset[str], where: str, tests: bool = False
    ) -> Expression | None:
        """The text as an expression, or as the tests of a cell; null, and a problem is noted, where it is none."""
        language = element.get("expressionLanguage") or self.language
        if language and "feel" not in language.lower():
            message = f"{where} is written in `{language}`; only FEEL is executed"
            self.add(element, "expression-language", message, "Rewrite it in FEEL.")
            return None
        key = (text, names, tests)
        try:
            if key not in self._compiled:
                compile_text = compile_unary_tests if tests else compile_expression
                self._compiled[key] = compile_text(text, names=names, types=self.types)
            compiled = self._compiled[key]
        except FeelSyntaxError as error:
            remedy = "Correct the expression at the marked place."
            self.add(element, "feel-syntax", f"{where} is not valid FEEL: {error}", remedy)
            return None
        for remark in compiled.remarks:
            told = f"{where} has a part without a value: {remark}"
            self.add(element, "feel-no-value", told, "Correct the marked part; it is null.", "warning")
        return compiled
