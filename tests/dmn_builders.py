"""Owns writing small DMN files for tests: tables, literals, requirements, as Camunda Modeler saves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from engine.dmn import Decision, DecisionResult, parse_decisions
from engine.feel import EvaluationContext

DMN_13 = "https://www.omg.org/spec/DMN/20191111/MODEL/"


def text(expression: str) -> str:
    return f"<text>{escape(expression)}</text>"


def literal(expression: str) -> str:
    return f"<literalExpression>{text(expression)}</literalExpression>"


def table(
    inputs: Sequence[str | tuple[str, str]],
    outputs: Sequence[str | tuple[str, str]],
    rules: Sequence[Sequence[str]],
    policy: str = "UNIQUE",
    aggregation: str = "",
    values: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
) -> str:
    """A decision table; an input or output is an expression or a name, alone or with its type."""
    attributes = f' hitPolicy="{policy}"' + (f' aggregation="{aggregation}"' if aggregation else "")
    columns = "".join(_input(number, each) for number, each in enumerate(inputs, 1))
    columns += "".join(_output(number, each, values or {}, defaults or {}) for number, each in enumerate(outputs, 1))
    return f'<decisionTable id="table"{attributes}>{columns}{_rows(rules, len(inputs))}</decisionTable>'


def _pair(written: str | tuple[str, str]) -> tuple[str, str]:
    name, kind = (written, "") if isinstance(written, str) else written
    return name, f' typeRef="{kind}"' if kind else ""


def _input(number: int, written: str | tuple[str, str]) -> str:
    expression, kind = _pair(written)
    return f'<input id="input_{number}"><inputExpression{kind}>{text(expression)}</inputExpression></input>'


def _output(number: int, written: str | tuple[str, str], values: Mapping[str, str], defaults: Mapping[str, str]) -> str:
    name, kind = _pair(written)
    inner = f"<outputValues>{text(values[name])}</outputValues>" if name in values else ""
    inner += f"<defaultOutputEntry>{text(defaults[name])}</defaultOutputEntry>" if name in defaults else ""
    return f'<output id="output_{number}" name={quoteattr(name)}{kind}>{inner}</output>'


def _rows(rules: Sequence[Sequence[str]], inputs: int) -> str:
    made = ""
    for row, cells in enumerate(rules, 1):
        made += f'<rule id="rule_{row}">'
        for column, cell in enumerate(cells, 1):
            kind = "inputEntry" if column <= inputs else "outputEntry"
            made += f'<{kind} id="cell_{row}_{column}">{text(cell)}</{kind}>'
        made += "</rule>"
    return made


def decision(
    name: str, logic: str, requires: Sequence[str] = (), knows: Sequence[str] = (), extra: str = "", kind: str = ""
) -> str:
    """A decision whose id is its name in lower case with underscores, and whose variable has its name."""
    inner = "".join(
        f'<informationRequirement><required{what} href="#{target}"/></informationRequirement>'
        for what, _, target in (each.partition(":") for each in requires)
    )
    inner += "".join(
        f'<knowledgeRequirement><requiredKnowledge href="#{target}"/></knowledgeRequirement>' for target in knows
    )
    type_ref = f' typeRef="{kind}"' if kind else ""
    variable = f"<variable name={quoteattr(name)}{type_ref}/>"
    own_id = name.lower().replace(" ", "_")
    return f'<decision id="{own_id}" name={quoteattr(name)}>{extra}{variable}{inner}{logic}</decision>'


def definitions(*elements: str, namespace: str = DMN_13) -> bytes:
    body = "".join(elements)
    return (
        f'<definitions xmlns="{namespace}" id="graph" name="Graph" namespace="http://camunda.org/schema/1.0/dmn">'
        f"{body}</definitions>"
    ).encode()


def only(logic: str, **given: Any) -> Decision:
    """The one decision with this logic."""
    return parse_decisions(definitions(decision("Answer", logic, **given)), "test.dmn").decisions["answer"]


def evaluated(subject: Decision, **variables: Any) -> DecisionResult:
    return subject.evaluate(variables, EvaluationContext(now_us=1_700_000_000_000_000))
