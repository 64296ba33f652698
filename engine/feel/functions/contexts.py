"""Owns the built-in functions on contexts.
Never changes a context in place.
Called by compiled invocations through the table of built-ins.
"""

from __future__ import annotations

from typing import TypeAlias

from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.functions.registry import builtin
from engine.feel.values import Value, kind_of

Context: TypeAlias = dict[str, Value]


@builtin(
    "is empty",
    "list: any",
    gives="boolean",
    about="Whether a list, context or string has nothing in it",
    origin="Camunda",
)
def is_empty(env: Env, value: Value) -> Value:
    if isinstance(value, list | dict | str):
        return not value
    raise FeelFault(f"'list' must be a list, context or string, found {kind_of(value)}")


def _keys(env: Env, keys: Value) -> list[str]:
    path = keys if isinstance(keys, list) else [keys]
    if not 0 < len(path) <= env.limits.max_value_depth:
        raise FeelFault(f"'keys' must hold 1 to {env.limits.max_value_depth} keys, found {len(path)}")
    found: list[str] = []
    for key in path:
        if not isinstance(key, str):
            raise FeelFault(f"a key must be a string, found {kind_of(key)}")
        found.append(key)
    return found


@builtin(
    "get value",
    "context: context, key: string",
    "m: context, key: string",
    "context: context, keys: list",
    about="The entry of a context under a key, or at the end of a list of keys",
)
def get_value(env: Env, context: Context, key: Value) -> Value:
    value: Value = context
    for step in _keys(env, key):
        if not isinstance(value, dict) or step not in value:
            raise FeelFault(f"there is no entry {step!r}")
        value = value[step]
    return value


@builtin("get entries", "context: context", "m: context", about="The entries as a list of contexts with key and value")
def get_entries(env: Env, context: Context) -> Value:
    env.check_list(len(context))
    env.spend(len(context))
    return [{"key": key, "value": value} for key, value in context.items()]


@builtin(
    "context put",
    "context: context, key: string, value: any",
    "context: context, keys: list, value: any",
    about="The context with one entry set, under a key or at the end of a list of keys",
)
def context_put(env: Env, context: Context, key: Value, value: Value) -> Value:
    *steps, last = _keys(env, key)
    env.spend(len(steps))
    holders = [context]
    for step in steps:
        inner = holders[-1].get(step)
        if inner is not None and not isinstance(inner, dict):
            raise FeelFault(f"the entry {step!r} is a {kind_of(inner)}, not a context")
        holders.append(inner or {})
    made = value
    for holder, step in zip(reversed(holders), (last, *reversed(steps)), strict=True):
        env.check_list(len(holder))
        made = {**holder, step: made}
    return made


@builtin("context merge", "contexts: list", variadic=True, about="All entries of the contexts; the last of a key wins")
def context_merge(env: Env, contexts: list[Value]) -> Value:
    merged: Context = {}
    for context in contexts:
        if not isinstance(context, dict):
            raise FeelFault(f"'contexts' must hold contexts, found {kind_of(context)}")
        env.spend(1 + (len(context) >> 3))
        merged.update(context)
        if len(merged) > env.limits.max_list:
            env.check_list(len(merged))
    return merged


@builtin("context", "entries: list", about="The context of a list of contexts with key and value")
def context_of(env: Env, entries: list[Value]) -> Value:
    env.spend(len(entries) >> 1)
    made: Context = {}
    for entry in entries:
        if not isinstance(entry, dict):
            raise FeelFault(f"'entries' must hold contexts with 'key' and 'value', found {kind_of(entry)}")
        missing = next((name for name in ("key", "value") if name not in entry), None)
        if missing is not None:
            raise FeelFault(f"'entries' must hold contexts with 'key' and 'value', found one without {missing!r}")
        key = entry["key"]
        if not isinstance(key, str):
            raise FeelFault(f"a key must be a string, found {kind_of(key)}")
        if key in made:
            raise FeelFault(f"the keys must be different strings, found {key[:40]!r} twice")
        made[key] = entry["value"]
    return made
