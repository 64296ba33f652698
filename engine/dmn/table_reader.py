"""Owns turning a `decisionTable` element into a compiled table, with every problem named by rule and column.
Never evaluates a table.
Called by the reader of boxed expressions.
"""

from __future__ import annotations

from typing import Final

from lxml import etree

from engine.dmn.hit_policy import AGGREGATORS, BY_PRIORITY, LETTERS, POLICIES, Hit, Outputs, Policy
from engine.dmn.logic import DecisionFailed, Unfit
from engine.dmn.source import CAMUNDA, Source
from engine.dmn.table import Input, Output, Rule, Table, blocks
from engine.dmn.types import Types
from engine.feel import Expression, FeelSyntaxError, Value, compile_unary_tests
from engine.feel.lexer import spaced

_ANYTHING: Final = frozenset(("", "-"))


class TableReader:
    """Reads one table; what is wrong goes to the problems of the source."""

    def __init__(self, source: Source, types: Types, element: etree._Element, names: frozenset[str]) -> None:
        self._source = source
        self._types = types
        self._element = element
        self._names = names
        self._inputs = list(source.children(element, "input"))
        self._outputs = list(source.children(element, "output"))
        self._rules = list(source.children(element, "rule"))
        self._input_names = [self._input_name(column, number) for number, column in enumerate(self._inputs, 1)]

    def read(self) -> Table | None:
        """The table; null where a part of it could not be read."""
        before = len(self._source.problems)
        written = self._element.get("hitPolicy") or "UNIQUE"
        policy_name, aggregation = LETTERS.get(written, (written, ""))
        policy = self._policy(policy_name, aggregation or self._element.get("aggregation"))
        inputs = [self._input(column, number) for number, column in enumerate(self._inputs, 1)]
        outputs = self._read_outputs()
        columns = Outputs(tuple(column.name for column in outputs), self._priorities(policy_name, outputs))
        rules = [self._rule(rule, row, outputs) for row, rule in enumerate(self._rules, 1)]
        if policy is None or any(problem.severity == "error" for problem in self._source.problems[before:]):
            return None
        read_inputs = tuple(column for column in inputs if column is not None)
        found = blocks(rules, len(read_inputs))
        return Table(read_inputs, tuple(outputs), tuple(rules), policy_name, policy, columns, found)

    def _policy(self, name: str, aggregation: str | None) -> Policy | None:
        if name not in POLICIES:
            known = ", ".join(POLICIES)
            self._source.add(
                self._element, "hit-policy", f"there is no hit policy `{name}`", f"Choose one of: {known}."
            )
            return None
        if not aggregation or name != "COLLECT":
            return POLICIES[name]
        if aggregation not in AGGREGATORS:
            message, remedy = f"there is no aggregator `{aggregation}`", f"Choose one of: {', '.join(AGGREGATORS)}."
            self._source.add(self._element, "aggregator", message, remedy)
            return None
        if len(self._outputs) > 1:
            message = f"the aggregator {aggregation} needs one output, the table has {len(self._outputs)}"
            self._source.add(self._element, "aggregator", message, "Keep one output, or collect without aggregator.")
        return AGGREGATORS[aggregation]

    def _input(self, column: etree._Element, number: int) -> Input | None:
        literal = self._source.child(column, "inputExpression")
        where = self._input_names[number - 1]
        if literal is None:
            self._source.add(column, "missing-expression", f"{where} has no expression", "Write a FEEL expression.")
            return None
        if any(column.get(f"{{{space}}}inputVariable") for space in CAMUNDA):
            message, remedy = f"the input variable of {where} is not read", "Write `?` for the input in its cells."
            self._source.add(column, "input-variable", message, remedy, "warning")
        expression = self._source.expression(literal, self._names, f"the expression of {where}")
        convert = self._types.received(literal)
        if expression is None:
            return None
        name = spaced(column.get("label", "")) or expression.text
        return Input(column.get("id", ""), name, expression, convert, self._allowed(column, where))

    def _allowed(self, column: etree._Element, where: str) -> Expression | None:
        """The tests of the values that are expected of an input; null where it may have any.

        No rule depends on them, so that a list which is no FEEL refuses nothing.
        """
        text = self._source.text(self._source.child(column, "inputValues"))
        if text in _ANYTHING:
            return None
        try:
            return compile_unary_tests(text, names=self._names)
        except FeelSyntaxError as error:
            message = f"the list of input values of {where} is not valid FEEL: {error}"
            self._source.add(
                column, "feel-syntax", message, "Correct the list; until then any value is expected.", "warning"
            )
            return None

    def _input_name(self, column: etree._Element, number: int) -> str:
        label = spaced(column.get("label", "")) or self._source.text(self._source.child(column, "inputExpression"))
        return f'input column {number} "{label}"' if label else f"input column {number}"

    def _read_outputs(self) -> list[Output]:
        if not self._outputs:
            self._source.add(self._element, "missing-output", "the table has no output", "Add an output column.")
        outputs: list[Output] = []
        for number, column in enumerate(self._outputs, 1):
            name = spaced(column.get("name", ""))
            where = f"output column {number}"
            if len(self._outputs) > 1 and not name:
                message, remedy = f"{where} has no name", "Name each output of a table that has several."
                self._source.add(column, "missing-output-name", message, remedy)
            elif name and name in (each.name for each in outputs):
                message, remedy = f"{where} has the name `{name}` of another output", "Give it a name of its own."
                self._source.add(column, "duplicate-output-name", message, remedy)
            entry = self._source.child(column, "defaultOutputEntry")
            default = self._entry(entry, f"the default of {where}") if entry is not None else None
            label = name or spaced(column.get("label", "")) or spaced(self._element.get("outputLabel", ""))
            outputs.append(Output(column.get("id", ""), label, self._types.received(column), default))
        return outputs

    def _priorities(self, policy_name: str, outputs: list[Output]) -> tuple[tuple[Value, ...], ...]:
        if policy_name not in BY_PRIORITY:
            return ((),) * len(outputs)
        listed = tuple(self._listed(element, output) for element, output in zip(self._outputs, outputs, strict=True))
        if not any(listed):
            message = f"the hit policy {policy_name} needs output values in order of priority; no output has any"
            self._source.add(self._element, "missing-output-values", message, "List the values of an output column.")
        return listed

    def _listed(self, element: etree._Element, output: Output) -> tuple[Value, ...]:
        values = self._source.child(element, "outputValues")
        text = self._source.text(values)
        if not text:
            single = len(self._outputs) == 1
            variable = self._source.child(self._element.getparent(), "variable")
            text = self._types.allowed_values(element) or self._types.allowed_values(
                self._element, "" if single else output.name
            )
            text = text or self._types.allowed_values(variable, "" if single else output.name)
        if not text:
            return ()
        where = f"the list of values of output `{output.name}`"
        expression = self._source.compiled(element if values is None else values, f"[{text}]", self._names, where)
        found = None if expression is None else expression.evaluate({})
        return tuple(found) if isinstance(found, list) else ()

    def _rule(self, rule: etree._Element, row: int, outputs: list[Output]) -> Rule:
        cells: dict[str, list[etree._Element]] = {"inputEntry": [], "outputEntry": []}
        for child in rule:
            cells.get(self._source.kind(child), []).append(child)
        conditions, entries = cells["inputEntry"], cells["outputEntry"]
        self._count(rule, row, len(conditions), len(self._inputs), "condition")
        self._count(rule, row, len(entries), len(self._outputs), "output")
        tests: list[tuple[int, Expression]] = []
        for number, (cell, name) in enumerate(zip(conditions, self._input_names, strict=False)):
            text = self._source.text(cell)
            if text in _ANYTHING:
                continue
            test = self._source.compiled(cell, text, self._names, f"rule {row}, {name}", tests=True)
            if test is not None:
                tests.append((number, test))
        given = [
            self._entry(entry, f'rule {row}, output column {number} "{output.name}"')
            for number, (entry, output) in enumerate(zip(entries, outputs, strict=False), 1)
        ]
        rule_id = rule.get("id", "") or f"rule {row}"
        hit = self._hit(rule, Rule(rule_id, row, (), tuple(given), None), outputs)
        return Rule(rule_id, row, tuple(tests), tuple(given), hit)

    def _hit(self, element: etree._Element, rule: Rule, outputs: list[Output]) -> Hit | None:
        """What the rule gives, where that is always the same: plain values that fit their types."""
        values: list[Value] = []
        for number, (entry, column) in enumerate(zip(rule.outputs, outputs, strict=False), 1):
            if entry is not None and not entry.is_constant:
                continue
            value = None if entry is None else entry.evaluate({})
            try:
                fitted = value if column.convert is None else column.convert(value, self._types.reading)
            except DecisionFailed:
                continue  # constraints cost too much to try them here
            except Unfit as unfit:
                message = f'rule {rule.row}, output column {number} "{column.name}": {unfit}: it is null'
                self._source.add(element, "unfit-output", message, "Write a value of that type.", "warning")
                continue
            if not isinstance(value, list | dict) and not isinstance(fitted, list | dict):
                values.append(fitted)
        return Hit(rule.row, rule.id, tuple(values)) if len(values) == len(outputs) else None

    def _count(self, rule: etree._Element, row: int, found: int, wanted: int, what: str) -> None:
        if found != wanted:
            message = f"rule {row} has {found} {what} cells, the table has {wanted} such columns"
            self._source.add(rule, "missing-cell", message, "Open and save the table in Camunda Modeler.")

    def _entry(self, element: etree._Element, where: str) -> Expression | None:
        """An output cell; an empty one gives null."""
        text = self._source.text(element)
        if text in _ANYTHING:
            message, remedy = f"{where} is empty and gives null", "Write a value, or `null` where that is meant."
            self._source.add(element, "empty-output", message, remedy, "warning")
            return None
        return self._source.compiled(element, text, self._names, where)
