"""DMN 1.5, chapters 10.3.1 and 10.3.2, rule by rule: what the standard says of an expression is what it gives."""

from __future__ import annotations

from typing import Any

import pytest

from engine.feel import EvaluationContext, compile_expression, to_json


def shown(text: str) -> Any:
    """The value of an expression as JSON, without regard to whether it warns."""
    return to_json(compile_expression(text).evaluate({"x": 1}, EvaluationContext(now_us=1_700_000_000_000_000)))


TABLE_53_FUNCTIONS = """
(function(a) a) = (function(a) a)                         => true
(function(a) a) != (function(a) a)                        => false
(function(a) a) = (function( a ) /* the same */ a)        => true
(function(a) a) = (function(b) b)                         => false
(function(a, b) a) = (function(b, a) a)                   => false
(function(a) a) = (function(a) a + 1)                     => false
(function(a: number) a) = (function(a) a)                 => false
(function(a) a + x) = (function(a) a + x)                 => true
(function(a) a) = 1                                       => null
(function(a) a) = null                                    => false
[function(a) a] = [function(a) a]                         => true
{f: function(a) a} = {f: function(a) a}                   => true
list contains([function(a) a], function(a) a)             => true
{k: 1, f: function(a) a + k, g: function(a) a + k, r: f = g}.r => true
{o: {k: 1, f: function(a) a + k}, p: {k: 1, f: function(a) a + k}, r: o.f = p.f}.r => true
{o: {k: 1, j: 2, f: function() k - j}, p: {j: 1, k: 2, f: function() k - j}, r: o.f = p.f}.r => false
{o: {k: 1, j: 2, f: function() k - j}, p: {j: 2, k: 1, f: function() k - j}, r: o.f = p.f}.r => true
{f: for i in [1, 2, 1] return function(a) a + i, r: [f[1] = f[2], f[1] = f[3]]}.r => [false, true]
{f: function(a) function(b) a + b, r: [f(1) = f(1), f(1) = f(2)]}.r => [true, false]
{o: {f: function(n) f(n - 1)}, p: {f: function(n) f(n - 1)}, r: o.f = p.f}.r => true
[{k: 1}, {k: 2}][(function(x) x = k) = (function(x) x = k)].k => [1, 2]
"""


def rows(table: str) -> list[tuple[str, str]]:
    """The expressions of a table, each with the one whose value it has to have."""
    pairs = [line.rpartition(" => ") for line in table.strip().splitlines()]
    return [(text.strip(), wanted.strip()) for text, _, wanted in pairs]


@pytest.mark.parametrize(("text", "wanted"), rows(TABLE_53_FUNCTIONS))
def test_functions_are_equal_with_the_same_parameters_body_and_scope(text: str, wanted: str) -> None:
    assert shown(text) == shown(wanted)
    assert type(shown(text)) is type(shown(wanted))
