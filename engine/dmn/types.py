"""Owns the types that a DMN file declares or imports, by name, as what a value of them has to be.
Never evaluates decision logic.
Called by the readers of tables, boxed expressions and requirements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from lxml import etree

from engine.dmn.item_type import (
    Anything,
    Collection,
    Constrained,
    FunctionType,
    ItemType,
    Reference,
    Simple,
    Structure,
    Written,
    conform,
    is_function,
)
from engine.dmn.logic import Convert, DecisionFailed
from engine.dmn.source import Source
from engine.feel import EvaluationContext, FeelLimits, FeelSyntaxError, Value, compile_expression
from engine.feel.closures.types import ANY
from engine.feel.lexer import spaced
from engine.feel.tree import NamedType, TypeOf
from engine.feel.type_parser import written_type

# Names of simple types in DMN 1.1 to 1.5 and in Camunda Modeler, and what FEEL calls them.
SIMPLE: Final = {
    "string": "string",
    "boolean": "boolean",
    "number": "number",
    "integer": "number",
    "long": "number",
    "double": "number",
    "date": "date",
    "time": "time",
    "dateTime": "date and time",
    "date and time": "date and time",
    "dayTimeDuration": "days and time duration",
    "days and time duration": "days and time duration",
    "yearMonthDuration": "years and months duration",
    "years and months duration": "years and months duration",
    "list": "list",
    "context": "context",
    "range": "range",
    "function": "function",
}
MAX_TYPE_LEVELS: Final = 60
MAX_SHAPE: Final = 500
_COMPONENTS: Final = ""  # stands among the names of types that are being read for the entries of one
_ANY: Final = frozenset(("Any", "any"))
_ANYTHING: Final = Anything()
_NO_TYPE: Final = TypeOf("", known=False)
_WORD: Final = re.compile(r"\w+")
# What a constraint may spend each time that `instance of` asks for it.
_PREDICATE: Final = FeelLimits(max_steps=25_000)


class ImportedTypes(NamedTuple):
    """The types of an imported file, by what their names begin with; null where that file cannot be read."""

    prefix: str
    namespace: str
    types: Types | None


class Types:
    """The types of one file, by name."""

    def __init__(self, source: Source, imported: Sequence[ImportedTypes] = ()) -> None:
        self._source = source
        self._imported = imported
        self._items = {spaced(item.get("name", "")): item for item in source.children(source.root, "itemDefinition")}
        self._read_items: dict[str, ItemType] = {}
        self._open: list[str] = []
        self._by_first_word: dict[str, list[str]] | None = None
        # What the tests of constraints may spend while the file is read.
        self.reading = EvaluationContext()
        components = source.root.iter(f"{{{source.namespace}}}itemComponent")
        # The names of all entries of all structures that are declared or imported.
        self.component_names: frozenset[str] = frozenset(spaced(each.get("name", "")) for each in components) - {""}
        for each in imported:
            if each.types is not None:
                self.component_names |= each.types.component_names
        for name in self._items:
            self.named(name, self._items[name])
        source.types = dict(self._predicates())

    def of(self, element: etree._Element | None) -> Convert | None:
        """The conversion to the type that the element declares; null where any value fits."""
        kind = self._declared(element)
        return None if kind is _ANYTHING else lambda value, context: conform(kind, value, context)

    def of_result(self, element: etree._Element | None) -> Convert | None:
        """The conversion to the type that a function's element declares, where that is the type of what it gives: not
        that of the function."""
        kind = self._declared(element)
        return None if kind is _ANYTHING or is_function(kind) else lambda value, context: conform(kind, value, context)

    def kind(self, element: etree._Element | None) -> TypeOf:
        """The type that the element declares, as FEEL writes it."""
        return _bounded(self._declared(element))

    def signature(self, parameters: tuple[TypeOf, ...], *results: etree._Element | None) -> TypeOf:
        """The type of a function, whose result the first of the elements that declares one tells."""
        kinds = (self._declared(element) for element in results)
        kind = next((kind for kind in kinds if kind is not _ANYTHING), None)
        shape = None if kind is None else _bounded(kind)
        if shape is not None and shape.name == "function":
            shape = shape.result
        return TypeOf("function", parameters=parameters, result=shape)

    def received(self, element: etree._Element | None) -> Convert | None:
        """The same for a value that comes as JSON from outside."""
        kind = self._declared(element)
        return None if kind is _ANYTHING else kind.received

    def allowed_values(self, element: etree._Element | None, component: str = "") -> str:
        """The text of the allowed values of the type that the element declares, or of its entry `component`."""
        return self._allowed_values(self._source.type_ref(element) or "", component)

    def named(self, name: str, element: etree._Element) -> ItemType:
        """A type by its name; a problem is noted at `element` where there is no such type."""
        owner, plain = self._owner(name, element)
        if owner is None:
            return _ANYTHING  # of a file that cannot be read, which is told already
        if plain not in owner._items:
            return self._of_feel(plain, name, element)
        if owner is not self:
            return owner.named(plain, owner._items[plain])
        if plain in self._open and _COMPONENTS in self._open[self._open.index(plain) :]:
            return Reference(self._read_items, plain)  # an entry of a structure may be of the structure's own type
        if plain in self._open or len(self._open) >= MAX_TYPE_LEVELS:
            what = "is itself" if plain in self._open else f"lies deeper than {MAX_TYPE_LEVELS} levels"
            self._source.add(self._items[plain], "cyclic-type", f"the type `{plain}` {what}", "Flatten the types.")
            return _ANYTHING
        if plain not in self._read_items:
            self._open.append(plain)
            self._read_items[plain] = self._read(self._items[plain], plain)
            self._open.pop()
        return self._read_items[plain]

    def _declared(self, element: etree._Element | None) -> ItemType:
        name = self._source.type_ref(element)
        return _ANYTHING if name is None or element is None else self.named(name, element)

    def _owner(self, name: str, element: etree._Element) -> tuple[Types | None, str]:
        """Whose type that is, and its name there; null where that file cannot be read."""
        if name in self._items:
            return self, name
        for prefix, _, types in self._imported:
            if prefix and name.startswith(f"{prefix}."):
                return types, name[len(prefix) + 1 :]
            if not prefix and (types is None or name in types._items):
                return (None, name) if types is None and name not in SIMPLE else (types or self, name)
        # DMN 1.1: a name of XML, not a type written in FEEL
        space, _, local = ("", "", name) if "<" in name else name.rpartition(":")
        if space:
            namespace = element.nsmap.get(space)
            for _, imported, types in self._imported:
                if namespace == imported:
                    return types, local
        return self, local if space else name

    def _of_feel(self, plain: str, name: str, element: etree._Element) -> ItemType:
        if plain in SIMPLE:
            return Simple(SIMPLE[plain])
        if plain.startswith("list<") and plain.endswith(">") and plain.count("<") <= MAX_TYPE_LEVELS:
            return Collection(self.named(spaced(plain[5:-1]), element))
        if "<" in plain:
            try:
                types = self._named_in(plain, element)
                shape = written_type(plain, types)
            except FeelSyntaxError:
                shape = _NO_TYPE
            if _is_known(shape):
                return Written(plain, shape, compile_expression(f"value instance of {plain}", types=types))
        if plain not in _ANY:
            message = f"there is no type `{name}`; values of any type are taken"
            remedy = "Declare it as an item definition, or choose one of FEEL's types."
            self._source.add(element, "unknown-type", message, remedy, "warning")
        return _ANYTHING

    def _named_in(self, written: str, element: etree._Element) -> dict[str, NamedType]:
        """The types of the file that a type written in FEEL may name."""
        if self._by_first_word is None:
            self._by_first_word = {}
            for name in self._items:
                for word in _WORD.findall(name)[:1]:
                    self._by_first_word.setdefault(word, []).append(name)
        found: dict[str, NamedType] = {}
        for word in dict.fromkeys(_WORD.findall(written)):
            for name in self._by_first_word.get(word, ()):
                if name in written:
                    kind = self.named(name, element)
                    found[name] = NamedType(_predicate(kind), _bounded(kind))
        return found

    def _read(self, item: etree._Element, name: str) -> ItemType:
        self._open.append(_COMPONENTS)
        components = {
            spaced(each.get("name", "")): self._read(each, f"{name}.{each.get('name', '')}")
            for each in self._source.children(item, "itemComponent")
        }
        self._open.pop()
        function = self._source.child(item, "functionItem")
        kind: ItemType = Structure(name, components) if components else self._declared(item)
        if function is not None:
            kind = self._function(function)
        kind = self._constrained(item, "allowedValues", kind, f"the allowed values of the type `{name}`")
        if item.get("isCollection") in ("true", "1"):
            kind = Collection(kind)
        return self._constrained(item, "typeConstraint", kind, f"the constraint of the type `{name}`")

    def _function(self, function: etree._Element) -> ItemType:
        parameters = tuple(self.kind(each) for each in self._source.children(function, "parameters"))
        name = spaced(function.get("outputTypeRef") or "")
        return FunctionType(parameters, _bounded(self.named(name, function)) if name else ANY)

    def _constrained(self, item: etree._Element, constraint: str, kind: ItemType, where: str) -> ItemType:
        element = self._source.child(item, constraint)
        text = self._source.text(element)
        if element is None or not text:
            return kind
        tests = self._source.compiled(element, text, self.component_names, where, tests=True)
        return kind if tests is None else Constrained(kind, tests, each=constraint == "allowedValues")

    def _allowed_values(self, name: str, component: str = "") -> str:
        item = self._items.get(name)
        if item is None:
            owner, plain = self._owner(name, self._source.root)
            return "" if owner is None or owner is self else owner._allowed_values(plain, component)
        if component:
            inner = self._source.children(item, "itemComponent")
            item = next((each for each in inner if spaced(each.get("name", "")) == component), None)
        text = ""
        for _ in range(MAX_TYPE_LEVELS):
            if item is None or text:
                break
            text = self._source.text(self._source.child(item, "typeConstraint", "allowedValues"))
            name = self._source.type_ref(item) or ""
            if not text and name and name not in self._items:
                return self._allowed_values(name)
            item = self._items.get(name)
        return text

    def _predicates(self) -> Iterator[tuple[str, Callable[[Value], bool]]]:
        """Every type that `instance of` may name, those that are imported by their prefix."""
        for prefix, _, types in self._imported:
            if types is not None:
                for name, kind in types._read_items.items():
                    yield (f"{prefix}.{name}" if prefix else name), NamedType(_predicate(kind), _bounded(kind))
        for name, kind in self._read_items.items():
            yield name, NamedType(_predicate(kind), _bounded(kind))


def _is_known(shape: TypeOf) -> bool:
    return shape.known and not shape.bare and all(map(_is_known, shape.parts()))


def _bounded(kind: ItemType) -> TypeOf:
    """The shape of a type; of one that is large, nothing that could be compared."""
    left, pending = MAX_SHAPE, [kind.shape]
    while pending and left:
        pending += pending.pop().parts()
        left -= 1
    return TypeOf("a large type", accepts=lambda value: True) if pending else kind.shape


def _predicate(kind: ItemType) -> Callable[[Value], bool]:
    def holds(value: Value) -> bool:
        try:
            return value is not None and not kind.misfit(value, EvaluationContext(limits=_PREDICATE))
        except DecisionFailed:
            return False

    return holds
