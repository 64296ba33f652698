"""Owns `conch feel`: one expression evaluated and explained, and the list of built-in functions.
Never reads a database, an instance or more than the files that are named.
Called by designers who want to see what an expression gives.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import orjson

from engine.cli import config_option
from engine.feel import (
    DateTime,
    EvaluationContext,
    Expression,
    FeelSyntaxError,
    Value,
    builtins,
    compile_expression,
    compile_unary_tests,
    kind_of,
)
from engine.feel.functions.registry import Builtin
from engine.settings import load_settings
from engine.trial import trial_context

EPILOG = """\b
Examples:
  conch feel '1 + 2 * 3'
  conch feel 'attempt < limit and error.retryable' --vars '{"attempt": 1, "limit": 3, "error": {"retryable": true}}'
  conch feel 'date(at) + duration("P1M")' --vars '{at: @"2026-01-31"}'
  conch feel '[1..5], > 7' --unary --input 6
  conch feel ' -' --unary --input 6                  a lone - is standard input
  conch feel - --vars @variables.json < expression.feel
  conch feel --functions
  conch feel --functions 'string join'
"""
_FROM_JSON = compile_expression("from json(text)")
_IN_A_LIST = compile_expression("string([value])")
_TO_JSON = compile_expression("to json(value)")


class _FeelCommand(click.Command):
    """An expression may begin with a minus, as `-1` and `-x` do: no option of one dash but -h is one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        taking = {name for each in self.params if _takes_a_value(each) for name in each.opts}
        for at, arg in enumerate(args):
            if arg == "--":
                break
            if arg[:1] == "-" and arg[1:2] not in ("", "-") and arg != "-h" and (not at or args[at - 1] not in taking):
                args = [*args[:at], *args[at + 1 :], "--", arg]
                break
        return super().parse_args(ctx, args)


def _takes_a_value(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and not parameter.is_flag


@click.command("feel", epilog=EPILOG, cls=_FeelCommand)
@click.argument("expression", required=False)
@click.option(
    "--vars", "variables", metavar="CONTEXT", help="Variables: a JSON object or a FEEL context; @FILE reads it."
)
@click.option("--unary", is_flag=True, help="Read the text as the tests of a decision table's cell.")
@click.option("--input", "tested", metavar="EXPRESSION", help="With --unary: the value under test, as FEEL.")
@click.option("--now", metavar="INSTANT", help="What now() is: an ISO date and time with a zone. Default: the clock.")
@click.option(
    "--functions", "listed", is_flag=True, help="Tell the built-in functions, or those whose names contain the text."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@config_option
def command(
    expression: str | None,
    variables: str | None,
    unary: bool,
    tested: str | None,
    now: str | None,
    listed: bool,
    as_json: bool,
    config: Path | None,
) -> None:
    """Evaluate a FEEL expression and explain the result: its value, type, what it reads, and every warning.

    A leading = as in Camunda Modeler is left out; - reads the expression from standard input. Limits are those of the
    settings.

    Exit status 0: it was evaluated (null is a value); 1: it is not FEEL; 2: the command was not understood.
    """
    if listed:
        _tell_functions(expression or "", as_json)
        return
    if expression is None:
        raise click.UsageError("name an expression, or - for standard input; `conch feel --help` has examples")
    if tested is not None and not unary:
        raise click.UsageError("--input is the value that --unary tests are applied to; add --unary or use --vars")
    text = _typed() if expression == "-" else expression
    text = text.removeprefix("=") if not unary else text
    context = trial_context(load_settings(config, os.environ).feel.limits, _instant(now))
    scope = _variables(variables, context)
    if tested is not None:
        scope["?"] = _value_of("--input", tested, context)
    elif unary and "?" not in scope:
        raise click.UsageError("--unary needs the value under test: --input VALUE")
    compiled = _compiled(text, unary, scope, as_json)
    value = compiled.evaluate(scope, context)
    _tell(compiled, value, context, as_json)


# --- reading ------------------------------------------------------------------------------------------------------


def _typed() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"standard input is not UTF-8: {error}") from error


def _instant(text: str | None) -> int | None:
    if text is None:
        return None
    value = compile_expression("date and time(text)").evaluate({"text": text})
    if not isinstance(value, DateTime) or value.offset_s() is None:
        raise click.BadParameter(
            f"{text!r} is not a date and time with a zone, such as 2026-01-31T10:00:00Z", param_hint="--now"
        )
    return value.epoch_us


def _variables(given: str | None, context: EvaluationContext) -> dict[str, Any]:
    if given is None:
        return {}
    text = given
    if given.startswith("@"):
        try:
            text = Path(given[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise click.BadParameter(f"{given[1:]} cannot be read: {error}", param_hint="--vars") from error
    value = _value_of("--vars", text, context)
    if not isinstance(value, dict):
        raise click.BadParameter(
            f"variables are a context such as {{x: 1}}, not a {kind_of(value)}", param_hint="--vars"
        )
    return value


def _value_of(option: str, text: str, context: EvaluationContext) -> Value:
    """A value written as JSON, else as FEEL."""
    as_json = EvaluationContext(limits=context.limits)
    value = _FROM_JSON.evaluate({"text": text}, as_json)
    if not as_json.warnings:
        return value
    as_feel = EvaluationContext(context.now_us, context.random, context.uuid, context.limits)
    try:
        value = compile_expression(text).evaluate({}, as_feel)
    except FeelSyntaxError as error:
        why = f"it is neither JSON ({as_json.warnings[0].cause}) nor FEEL: {error}"
        raise click.BadParameter(why, param_hint=option) from error
    if as_feel.warnings:
        raise click.BadParameter("\n".join(map(str, as_feel.warnings)), param_hint=option)
    return value


def _compiled(text: str, unary: bool, scope: Mapping[str, Any], as_json: bool) -> Expression:
    try:
        return (compile_unary_tests if unary else compile_expression)(text, names=scope)
    except FeelSyntaxError as error:
        if as_json:
            told = {"line": error.line, "column": error.column, "found": error.found, "expected": error.expected}
            click.echo(orjson.dumps({"error": told | {"hint": error.hint}}, option=orjson.OPT_INDENT_2))
        else:
            click.echo(f"not FEEL: {error}", err=True)
        raise click.exceptions.Exit(1) from None


# --- telling ------------------------------------------------------------------------------------------------------


def _tell(compiled: Expression, value: Value, context: EvaluationContext, as_json: bool) -> None:
    reads = sorted(compiled.names - {"?"})
    warnings = list(dict.fromkeys((*compiled.remarks, *context.warnings)))
    # Inside a list, a string shows its quotes and null its name.
    in_a_list = _IN_A_LIST.evaluate({"value": value})
    shown = in_a_list[1:-1] if isinstance(in_a_list, str) else kind_of(value)
    if as_json:
        document = {
            "result": _json(value),
            "feel": shown,
            "type": kind_of(value),
            "reads": reads,
            "steps": context.steps_spent,
            "warnings": [{"line": each.line, "column": each.column, "cause": each.cause} for each in warnings],
        }
        click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2))
        return
    click.echo(shown)
    click.echo(f"  type   {kind_of(value)}")
    if reads:
        click.echo(f"  reads  {', '.join(reads)}")
    if context.steps_spent:
        click.echo(f"  steps  {context.steps_spent} of {context.limits.max_steps}")
    for warning in warnings:
        click.echo(_indented(f"warning: {warning}"))


def _json(value: Value) -> Any:
    """JSON with exact numbers; null for what holds a function."""
    text = _TO_JSON.evaluate({"value": value})
    return orjson.Fragment(text) if isinstance(text, str) else None


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def _tell_functions(part: str, as_json: bool) -> None:
    found = [each for name, each in sorted(builtins().items()) if part.lower() in name]
    if not found:
        raise click.ClickException(f"no built-in function has {part!r} in its name; `conch feel --functions` lists all")
    if as_json:
        click.echo(orjson.dumps([_described(each) for each in found], option=orjson.OPT_INDENT_2))
        return
    for each in found:
        for usage in each.usage:
            click.echo(usage)
        click.echo(f"    {each.about}" + (" (Camunda)" if each.origin == "Camunda" else ""))


def _described(each: Builtin) -> dict[str, Any]:
    return {"name": each.name, "usage": list(each.usage), "about": each.about, "origin": each.origin}
