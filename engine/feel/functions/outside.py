"""Owns the built-in functions whose value the caller supplies: the clock, random numbers, UUIDs.
Never has a source of its own, and is never folded.
Called by compiled invocations through the table of built-ins.
"""

from __future__ import annotations

from engine.feel.border import admit
from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.functions.registry import builtin
from engine.feel.temporal import NS_PER_US, DateTime, instant
from engine.feel.values import Value


def _now(env: Env) -> DateTime:
    if env.context is None or env.context.now_us is None:
        raise FeelFault("this evaluation has no clock")
    return instant(env.context.now_us * NS_PER_US)


@builtin("now", pure=False)
def now(env: Env) -> Value:
    return _now(env)


@builtin("today", pure=False)
def today(env: Env) -> Value:
    return _now(env).date


@builtin("random number", pure=False)
def random_number(env: Env) -> Value:
    if env.context is None or env.context.random is None:
        raise FeelFault("this evaluation has no random numbers")
    return admit(env, env.context.random())


@builtin("uuid", pure=False)
def uuid(env: Env) -> Value:
    if env.context is None or env.context.uuid is None:
        raise FeelFault("this evaluation has no UUIDs")
    return admit(env, env.context.uuid())
