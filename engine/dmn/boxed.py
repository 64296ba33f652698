"""Owns turning boxed expressions into compiled logic: literals, contexts, lists, relations, functions, invocations.
Never evaluates anything while reading; tables and the boxed iterations have modules of their own.
Called by the reader of a file, for the logic of decisions and of business knowledge models.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from lxml import etree

from engine.dmn import iteration
from engine.dmn.logic import BOXED_LEVELS, Convert, Evaluation, Logic, Parameter, Scope, fitted, function_of
from engine.dmn.source import Source
from engine.dmn.table_reader import TableReader
from engine.dmn.types import Types
from engine.feel import Expression, FeelSyntaxError, Value, compile_expression
from engine.feel.functions import BUILTINS
from engine.feel.lexer import spaced
from engine.feel.tree import TypeOf

BOXED: Final = (
    "decisionTable",
    "literalExpression",
    "context",
    "list",
    "relation",
    "functionDefinition",
    "invocation",
    "conditional",
    "filter",
    "for",
    "some",
    "every",
)
MAX_NESTING: Final = 40
_MAY_BE_EMPTY: Final = frozenset(("decision", "businessKnowledgeModel"))
_STRUCTURE: Final = frozenset(
    (
        *("variable", "informationRequirement", "knowledgeRequirement", "authorityRequirement", "parameter"),
        *("formalParameter", "encapsulatedLogic", "supportedObjective", "impactedPerformanceIndicator"),
        *("decisionMaker", "decisionOwner", "usingProcess", "usingTask"),
    )
)
NOTHING: Final = Logic(lambda scope, evaluation: None, 1, 1, frozenset())


def of_expression(expression: Expression) -> Logic:
    """A literal as logic."""

    def run(scope: Scope, evaluation: Evaluation) -> Value:
        return expression.evaluate(scope, evaluation.context)

    return Logic(run, expression.depth, 1, expression.names)


def over(run: Callable[[Scope, Evaluation], Value], parts: Iterable[Logic], bound: Collection[str] = ()) -> Logic:
    """Logic over parts, which may read the `bound` names that it binds itself."""
    parts = list(parts)
    depth = BOXED_LEVELS + max((part.depth for part in parts), default=0)
    reads = frozenset[str]().union(*(part.reads for part in parts)) - set(bound)
    return Logic(run, depth, 1 + sum(part.weight for part in parts), reads)


def converted(logic: Logic, convert: Convert | None, where: str) -> Logic:
    """The logic with its value as its declared type has it."""
    if convert is None:
        return logic

    def run(scope: Scope, evaluation: Evaluation) -> Value:
        return fitted(convert, logic.run(scope, evaluation), where, evaluation)

    return Logic(run, logic.depth + 1, logic.weight, logic.reads)


class BoxedReader:
    """Reads the boxed expressions of one file; what is wrong goes to the problems of the source."""

    def __init__(self, source: Source, types: Types) -> None:
        self._source = source
        self._types = types
        self._nesting = 0
        self._readers: dict[str, Callable[[etree._Element, frozenset[str], str], Logic]] = {
            "decisionTable": self._table,
            "literalExpression": self._literal,
            "context": self._context,
            "list": self._list,
            "relation": self._relation,
            "functionDefinition": self._function,
            "invocation": self._invocation,
            "conditional": self._conditional,
            "filter": self._filter,
            "for": self._for,
            "some": self._quantified,
            "every": self._quantified,
        }

    def inside(self, parent: etree._Element, names: frozenset[str], where: str) -> Logic:
        """The logic of the boxed expression inside `parent`. Problems are noted; then the logic gives null."""
        return self.read(self._source.child(parent, *BOXED), parent, names, where)

    def read(self, element: etree._Element | None, parent: etree._Element, names: frozenset[str], where: str) -> Logic:
        """The logic of a boxed expression, of which `where` says in words what it is the logic of."""
        if element is None:
            return self._without(parent, where)
        if self._nesting >= MAX_NESTING:
            message = f"{where} has boxed expressions nested deeper than {MAX_NESTING}"
            self._source.add(element, "too-deep", message, "Split it into several decisions.")
            return NOTHING
        self._nesting += 1
        kind = self._source.kind(element)
        logic = self._readers[kind](element, names, where)
        self._nesting -= 1
        # that of a function's element may be the type of its result
        return logic if kind == "functionDefinition" else converted(logic, self._types.of(element), where)

    def _without(self, parent: etree._Element, where: str) -> Logic:
        """Nothing is drawn: a decision or model is then null, as in DMN, and anything inside one is refused."""
        other = next((self._source.kind(each) for each in self._source.children(parent) if self._boxed(each)), "")
        remedy = "Draw a decision table or a literal expression."
        if not other and self._source.kind(parent) in _MAY_BE_EMPTY:
            self._source.add(parent, "no-logic", f"{where} has no logic: it is null", remedy, "warning")
        else:
            message = f"{where} has no expression" + (f"; `{other}` is not executed" if other else "")
            self._source.add(parent, "missing-expression", message, remedy)
        return NOTHING

    def parameters(self, function: etree._Element) -> tuple[Parameter, ...]:
        """The formal parameters of a function."""
        found = []
        for element in self._source.children(function, "formalParameter"):
            name, convert = self._source.required(element, "name"), self._types.of(element)
            found.append(Parameter(name, convert, self._types.kind(element)))
        if len({parameter.name for parameter in found}) < len(found):
            message = "two parameters have the same name"
            self._source.add(function, "duplicate-parameter", message, "Give each parameter a name of its own.")
        return tuple(found)

    def table(self, element: etree._Element, names: frozenset[str]) -> TableReader:
        return TableReader(self._source, self._types, element, names)

    def _boxed(self, element: etree._Element) -> bool:
        return self._source.kind(element) not in _STRUCTURE

    def _table(self, element: etree._Element, names: frozenset[str], where: str) -> Logic:
        table = self.table(element, names).read()
        return NOTHING if table is None else table.as_logic(where)

    def _literal(self, element: etree._Element, names: frozenset[str], where: str) -> Logic:
        imported = self._source.child(element, "importedValues")
        if imported is not None:
            message = f"{where} imports values from another file, which is not done"
            self._source.add(element, "imported-values", message, "Write the expression here.")
            return NOTHING
        expression = self._source.expression(element, names, where)
        return NOTHING if expression is None else of_expression(expression)

    def _context(self, element: etree._Element, names: frozenset[str], where: str) -> Logic:
        entries: list[tuple[str, Logic]] = []
        result: Logic | None = None
        for entry in self._source.children(element, "contextEntry"):
            variable = self._source.child(entry, "variable")
            name = "" if variable is None else self._source.required(variable, "name")
            inner = f"{where}, entry `{name}`" if name else f"{where}, result"
            if variable is None and self._is_empty(entry):
                continue  # some editors draw the result cell of a context that has none
            logic = self.inside(entry, names | self._type_names(entry), inner)
            if result is not None or (name and name in (known for known, _ in entries)):
                message = f"{where} has an entry after its result, or two entries of one name"
                self._source.add(entry, "context-entry", message, "Put the result last, and give each entry a name.")
            if variable is None:
                result = logic
            else:
                entries.append((name, converted(logic, self._types.of(variable), inner)))
                names |= {name}

        def run(scope: Scope, evaluation: Evaluation) -> Value:
            made: dict[str, Value] = {}
            inner_scope = dict(scope)
            for name, logic in entries:
                made[name] = inner_scope[name] = logic.run(inner_scope, evaluation)
            return made if result is None else result.run(inner_scope, evaluation)

        parts = [logic for _, logic in entries] + ([] if result is None else [result])
        return over(run, parts, _read_before_bound(entries))

    def _is_empty(self, entry: etree._Element) -> bool:
        literal = self._source.child(entry, "literalExpression")
        return literal is not None and self._source.child(entry, *BOXED) is literal and not self._source.text(literal)

    def _type_names(self, entry: etree._Element) -> frozenset[str]:
        """The name of the function that the entry defines, so that it may call itself."""
        variable = self._source.child(entry, "variable")
        if variable is None or self._source.child(entry, "functionDefinition") is None:
            return frozenset()
        return frozenset((spaced(variable.get("name", "")),))

    def _list(self, element: etree._Element, names: frozenset[str], where: str) -> Logic:
        children = self._source.children(element, *BOXED)
        parts = [
            self.read(child, element, names, f"{where}, element {place}") for place, child in enumerate(children, 1)
        ]

        def run(scope: Scope, evaluation: Evaluation) -> Value:
            return [part.run(scope, evaluation) for part in parts]

        return over(run, parts)

    def _relation(self, element: etree._Element, names: frozenset[str], where: str) -> Logic:
        headings = list(self._source.children(element, "column"))
        columns = [self._source.required(column, "name") for column in headings]
        types = [self._types.of(column) for column in headings]
        table: list[list[Logic]] = []
        for number, row in enumerate(self._source.children(element, "row"), 1):
            cells = list(self._source.children(row, *BOXED))
            if len(cells) != len(columns):
                message = f"{where}, row {number} has {len(cells)} cells, the relation has {len(columns)} columns"
                self._source.add(row, "missing-cell", message, "Fill or remove the row.")
            table.append(
                [
                    converted(self.read(cell, row, names, told), convert, told)
                    for cell, convert, told in zip(
                        cells, types, (f"{where}, row {number}, column `{name}`" for name in columns), strict=False
                    )
                ]
            )

        def run(scope: Scope, evaluation: Evaluation) -> Value:
            return [
                {name: cell.run(scope, evaluation) for name, cell in zip(columns, row, strict=True)} for row in table
            ]

        return over(run, [cell for row in table for cell in row])

    def function(
        self, element: etree._Element, names: frozenset[str], where: str
    ) -> tuple[tuple[Parameter, ...], Logic]:
        """The parameters and the body of a function definition or encapsulated logic."""
        kind = element.get("kind") or "FEEL"
        parameters = self.parameters(element)
        if kind != "FEEL":
            message = f"{where} is a function of kind {kind}; only FEEL is executed"
            self._source.add(element, "function-kind", message, "Write its body in FEEL.")
            return parameters, NOTHING
        bound = frozenset(parameter.name for parameter in parameters)
        body = self.inside(element, names | bound, where)
        return parameters, converted(body, self._types.of_result(element), where)

    def signature(self, parameters: tuple[Parameter, ...], *elements: etree._Element | None) -> TypeOf:
        """The type of a function by what declares its result: one of the elements, outermost first, or its body."""
        function = elements[-1]
        body = None if function is None else self._source.child(function, *BOXED)
        return self._types.signature(tuple(parameter.kind for parameter in parameters), *elements, body)

    def _function(self, element: etree._Element, names: frozenset[str], where: str) -> Logic:
        parameters, body = self.function(element, names, where)
        signature = self.signature(parameters, element)

        def run(scope: Scope, evaluation: Evaluation) -> Value:
            return function_of(where, parameters, body, scope, evaluation, signature)

        return over(run, [body], [parameter.name for parameter in parameters])

    def _invocation(self, element: etree._Element, names: frozenset[str], where: str) -> Logic:
        callee = self._source.child(element, "literalExpression")
        if callee is None:
            return self.inside(element, names, where)  # notes what is missing
        bindings: list[tuple[str, Logic]] = []
        arguments: list[str] = []
        for number, binding in enumerate(self._source.children(element, "binding"), 1):
            parameter = self._source.child(binding, "parameter")
            name = "" if parameter is None else self._source.required(parameter, "name")
            told = f"{where}, argument `{name}`"
            logic = converted(self.inside(binding, names, told), self._types.of(parameter), told)
            bindings.append((f"argument {number}", logic))
            written = f"`{name.replace('`', '')}`: "
            if any(each.startswith(written) for each in arguments):
                message = f"{where} has two arguments of the name `{name}`"
                self._source.add(element, "invocation", message, "Give each parameter one argument.")
            arguments.append(f"{written}`argument {number}`")
        call = self._call(callee, arguments, names, where)
        if call is None:
            return NOTHING

        def run(scope: Scope, evaluation: Evaluation) -> Value:
            given = {name: logic.run(scope, evaluation) for name, logic in bindings}
            return call.evaluate({**scope, **given}, evaluation.context)

        bound = [name for name, _ in bindings]
        return over(run, [of_expression(call), *(logic for _, logic in bindings)], bound)

    def _call(
        self, callee: etree._Element, arguments: list[str], names: frozenset[str], where: str
    ) -> Expression | None:
        """The call of a function by its name, or of what an expression gives."""
        told, text = f"the function that {where} invokes", spaced(self._source.text(callee))
        if text not in names and text not in BUILTINS:
            function = self._source.expression(callee, names, told)
            if function is None:
                return None
            text = text if text.isidentifier() else f"({function.text})"
        try:
            compile_expression(f"f({', '.join(arguments)})")
        except FeelSyntaxError as error:
            message, remedy = f"{where} cannot be invoked: {error}", "Name the function, and each argument."
            self._source.add(callee, "invocation", message, remedy)
            return None
        return self._source.compiled(callee, f"{text}({', '.join(arguments)})", names, told)

    def _part(self, element: etree._Element, kind: str, names: frozenset[str], where: str) -> Logic:
        child = self._source.child(element, kind)
        return self.inside(element if child is None else child, names, f"{where}, `{kind}`")

    def _conditional(self, element: etree._Element, names: frozenset[str], where: str) -> Logic:
        parts = [self._part(element, kind, names, where) for kind in ("if", "then", "else")]
        return over(iteration.conditional(*parts), parts)

    def _filter(self, element: etree._Element, names: frozenset[str], where: str) -> Logic:
        inner = names | {"item"}
        parts = [self._part(element, "in", names, where), self._part(element, "match", inner, where)]
        return over(iteration.filtered(*parts), parts, ("item",))

    def _for(self, element: etree._Element, names: frozenset[str], where: str) -> Logic:
        variable = self._source.required(element, "iteratorVariable")
        inner = names | {variable, "partial"}
        parts = [self._part(element, "in", names, where), self._part(element, "return", inner, where)]
        return over(iteration.repeated(variable, *parts), parts, (variable, "partial"))

    def _quantified(self, element: etree._Element, names: frozenset[str], where: str) -> Logic:
        variable = self._source.required(element, "iteratorVariable")
        parts = [self._part(element, "in", names, where), self._part(element, "satisfies", names | {variable}, where)]
        return over(iteration.quantified(self._source.kind(element), variable, *parts), parts, (variable,))


def _read_before_bound(entries: list[tuple[str, Logic]]) -> set[str]:
    """The names of entries that no entry before them reads: those come from the context alone."""
    bound: set[str] = set()
    read: set[str] = set()
    for name, logic in entries:
        read |= logic.reads - bound
        if name not in read:
            bound.add(name)
    return bound
