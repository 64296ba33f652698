"""Owns decision services: some decisions of a file as one function of the inputs and decisions that it names.
Never evaluates a decision that a service takes as an input.
Called by the reader of a file.
"""

from __future__ import annotations

from engine.dmn.boxed import converted, over
from engine.dmn.decision import VARIABLE, Knowledge, Step, in_order
from engine.dmn.logic import Convert, Evaluation, Logic, Parameter, Scope, fitted
from engine.dmn.requirements import DECISION, INPUT_DATA, Node, Requirements
from engine.dmn.source import Source
from engine.dmn.table import Table
from engine.dmn.types import Types
from engine.feel import Value


def read_service(source: Source, types: Types, graph: Requirements, node: Node, steps: dict[str, Step]) -> Knowledge:
    """The function that a decision service is: its parameters are its input data, then its input decisions.

    Its value is that of its output decision, or a context by name where it has several (DMN 1.5, 10.4).
    """
    outputs = graph.required(node, DECISION)
    if not outputs:
        message, remedy = "the decision service has no output decision", "Draw the decision that it gives."
        source.add(node.element, "missing-output", message, remedy)
    inputs = _inputs(graph, node)
    variables = [source.child(each.element, "variable") for each in inputs]
    parameters = tuple(
        Parameter(each.names[0], types.of(variable), types.kind(variable))
        for each, variable in zip(inputs, variables, strict=True)
    )
    given = [each for each in inputs if each.kind == DECISION]
    inner = tuple(steps[each.id] for each in graph.closure(outputs, {each.id for each in given}))
    values = [(each.id, each.names[0]) for each in inputs]
    results = [(each.id, each.names[0]) for each in outputs]

    def run(scope: Scope, evaluation: Evaluation) -> Value:
        known: dict[str, Value] = {own_id: scope[name] for own_id, name in values}
        for done in in_order(inner, scope, known, evaluation):
            known[done.id] = done.value
            rules = tuple((hit.row, hit.rule_id) for hit in done.hits)
            evaluation.note(f'decision service "{node.name}", decision `{done.id}`', done.inputs, rules, done.value)
        if len(results) == 1:
            return known[results[0][0]]
        return {name: known[own_id] for own_id, name in results}

    parts = [step.logic.as_logic(step.where) if isinstance(step.logic, Table) else step.logic for step in inner]
    convert = types.of_result(source.child(node.element, "variable"))
    logic = converted(over(run, parts), convert, f'decision service "{node.name}"')
    declaring = [node, *outputs] if len(outputs) == 1 else [node]
    declared = (source.child(each.element, "variable") for each in declaring)
    signature = types.signature(tuple(each.kind for each in parameters), *declared)
    return Knowledge(node.id, node.name, parameters, logic, (), (), signature)


def _inputs(graph: Requirements, node: Node) -> list[Node]:
    data = graph.named(node.element, INPUT_DATA, "inputData")
    return [*data, *graph.named(node.element, DECISION, "inputDecision")]


def received_inputs(source: Source, types: Types, graph: Requirements, node: Node) -> tuple[Convert | None, ...]:
    """For each parameter of a service, what makes a variable its value."""
    return tuple(types.received(source.child(each.element, "variable")) for each in _inputs(graph, node))


def as_step(service: Knowledge, received: tuple[Convert | None, ...]) -> Step:
    """The service as a decision of its own, which reads its inputs from variables."""

    def run(scope: Scope, evaluation: Evaluation) -> Value:
        arguments = {}
        for parameter, convert in zip(service.parameters, received, strict=True):
            value = VARIABLE.evaluate({"value": scope.get(parameter.name)}, evaluation.context)
            arguments[parameter.name] = fitted(convert, value, f"input `{parameter.name}`", evaluation)
        return service.logic.run(arguments, evaluation)

    names = tuple(parameter.name for parameter in service.parameters)
    logic = Logic(run, service.logic.depth + 1, service.logic.weight, frozenset(names))
    return Step(service.id, service.name, logic, None, names, (), ())
