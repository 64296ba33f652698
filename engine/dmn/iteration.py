"""Owns the boxed forms that DMN 1.4 added: conditional, filter, for, some and every, as FEEL's own forms mean them.
Never reads XML.
Called by the reader of boxed expressions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.dmn.logic import Evaluation, Logic, Run, Scope
from engine.feel import Value, compile_expression, kind_of

_EACH: Final = compile_expression("for each in value return each")


class _NoVerdict(Exception):
    """Internal: a condition was neither true, false nor null; the whole form is null."""


def _verdict(condition: Logic, scope: Scope, evaluation: Evaluation, form: str) -> bool | None:
    value = condition.run(scope, evaluation)
    if value is None or type(value) is bool:
        return value
    evaluation.warn(form, f"the condition is a {kind_of(value)}, not true or false")
    raise _NoVerdict


def _null_without_verdict(run: Run) -> Run:
    def guarded(scope: Scope, evaluation: Evaluation) -> Value:
        try:
            return run(scope, evaluation)
        except _NoVerdict:
            return None

    return guarded


def conditional(condition: Logic, then: Logic, otherwise: Logic) -> Run:
    """`if`: null takes the else branch."""

    def run(scope: Scope, evaluation: Evaluation) -> Value:
        chosen = then if _verdict(condition, scope, evaluation, "if") else otherwise
        return chosen.run(scope, evaluation)

    return _null_without_verdict(run)


def _members(value: Value, evaluation: Evaluation, weight: int) -> Iterator[Value]:
    """The members to go through; each one costs the weight of what is evaluated for it."""
    for member in value if isinstance(value, list) else [value]:
        evaluation.spend(weight)
        yield member


def _turns(value: Value, evaluation: Evaluation) -> Value:
    """What a loop over the value goes through, as in FEEL: the members of a range too. Null where it cannot."""
    return value if isinstance(value, list) else _EACH.evaluate({"value": value}, evaluation.context)


def filtered(source: Logic, match: Logic) -> Run:
    """The members for which `match` is true; it sees the member as `item`, and the member's entries by name.

    An entry `item` hides the member (DMN 1.5, 10.3.2.5).
    """

    def run(scope: Scope, evaluation: Evaluation) -> Value:
        value = source.run(scope, evaluation)
        if value is None:
            return None
        kept: list[Value] = []
        for member in _members(value, evaluation, match.weight):
            entries = member if isinstance(member, dict) else {}
            if _verdict(match, {**scope, "item": member, **entries}, evaluation, "filter"):
                kept.append(member)
        return kept

    return _null_without_verdict(run)


def repeated(variable: str, source: Logic, body: Logic) -> Run:
    """`for`: the body's value for each member; `partial` is the list so far."""

    def run(scope: Scope, evaluation: Evaluation) -> Value:
        value = _turns(source.run(scope, evaluation), evaluation)
        if value is None:
            return None
        made: list[Value] = []
        inner = dict(scope)
        inner["partial"] = made
        for member in _members(value, evaluation, body.weight):
            inner[variable] = member
            made.append(body.run(inner, evaluation))
        return made

    return run


def quantified(quantifier: str, variable: str, source: Logic, condition: Logic) -> Run:
    """`some` and `every`: decided by the first member that decides; else null where a condition was null."""
    deciding = quantifier == "some"

    def run(scope: Scope, evaluation: Evaluation) -> Value:
        value = _turns(source.run(scope, evaluation), evaluation)
        if value is None:
            return None
        unknown = False
        inner = dict(scope)
        for member in _members(value, evaluation, condition.weight):
            inner[variable] = member
            verdict = _verdict(condition, inner, evaluation, quantifier)
            if verdict is deciding:
                return deciding
            unknown = unknown or verdict is None
        return None if unknown else not deciding

    return _null_without_verdict(run)
