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


@builtin("now", pure=False, gives="date and time", about="The date and time of the engine's clock, in UTC")
def now(env: Env) -> Value:
    return _now(env)


@builtin("today", pure=False, gives="date", about="The date of the engine's clock, in UTC")
def today(env: Env) -> Value:
    return _now(env).date


@builtin("random number", pure=False, gives="number", about="A number from 0 up to, not including, 1", origin="Camunda")
def random_number(env: Env) -> Value:
    if env.context is None or env.context.random is None:
        raise FeelFault("this evaluation has no random numbers")
    return admit(env, env.context.random())


@builtin("uuid", pure=False, gives="string", about="A UUID", origin="Camunda")
def uuid(env: Env) -> Value:
    if env.context is None or env.context.uuid is None:
        raise FeelFault("this evaluation has no UUIDs")
    return admit(env, env.context.uuid())
