"""Owns the border between FEEL and the world of JSON: values in, values out, JSON text.
Never lets a value in or out that FEEL does not know, nor one that is too deep or too large.
Called by variable reads, by `Expression.evaluate` for its result, and by callers that store a result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from math import isfinite
from typing import Any

from engine.feel.environment import Env
from engine.feel.faults import FeelFault, FeelValueError, LimitExceeded
from engine.feel.numbers import D34, DIGITS, INT_LIMIT, bounded, decimal_result, narrowed, number_text
from engine.feel.temporal import Date, DateTime, DaysTimeDuration, Time, YearsMonthsDuration
from engine.feel.temporal_text import temporal_text
from engine.feel.values import FeelFunction, Range, Value, kind_of

# An unclosed string counts to the end of the text, so that the search stays linear.
_JSON_PARTS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)
# A day, a time or a range takes as long to write as some plain values.
_QUICKLY_WRITTEN = frozenset((str, int, bool, list, dict, type(None)))
_COSTLY_TEXT = 4
_AS_THEY_ARE = frozenset((Date, Time, DateTime, DaysTimeDuration, YearsMonthsDuration, FeelFunction))


def admit(env: Env, value: Any, depth: int = 0) -> Value:
    """A value of the caller as a FEEL value: floats become decimals, tuples lists, subclasses plain values.

    The very same object comes back when nothing has to change. Raises FeelFault for anything that is no FEEL value.
    """
    kind = type(value)
    known: Value = value
    if value is None or kind is str or kind is bool:
        return known
    if kind is int:
        return bounded(value)
    if kind is Decimal:
        if not value.is_finite():
            raise FeelFault(f"{value} is not a number of FEEL")
        return decimal_result(D34.plus, value)
    if depth > env.limits.max_value_depth:
        raise FeelFault(f"a value nested deeper than {env.limits.max_value_depth} levels")
    env.steps_left -= 1
    if env.steps_left < 0:
        raise env.exhausted()
    if (kind is dict or kind is list) and _as_it_is(env, value, env.limits.max_value_depth - depth):
        return known
    if kind is list:
        return _admit_list(env, value, depth)
    if kind is dict:
        return _admit_context(env, value, depth)
    if kind in _AS_THEY_ARE:
        return known
    if kind is Range:
        return _admit_range(env, value, depth)
    return _admit_other(env, value, kind, depth)


def _as_it_is(env: Env, value: Any, levels: int) -> bool:
    """Whether a list or dict surely needs no change, nor the `levels` below it; False where a closer look decides."""
    env.steps_left -= 1 + (len(value) >> 3)
    if env.steps_left < 0:
        raise env.exhausted()
    elements = value
    if type(value) is dict:
        for key in value:
            if type(key) is not str:
                return False
        elements = value.values()
    for element in elements:
        kind = type(element)
        if kind is str or kind is bool or element is None:
            continue
        if kind is int:
            if -1_000_000_000 < element < 1_000_000_000 or -INT_LIMIT < element < INT_LIMIT:
                continue
            return False
        if not ((kind is dict or kind is list) and levels and _as_it_is(env, element, levels - 1)):
            return False
    return True


def _admit_range(env: Env, value: Range, depth: int) -> Value:
    start, end = (admit(env, each, depth + 1) for each in (value.start, value.end))
    if start is value.start and end is value.end:
        return value
    return Range(start, end, value.start_included, value.end_included)


def _admit_other(env: Env, value: Any, kind: type[Any], depth: int) -> Value:
    # The type is asked and the methods of the plain types are called: the value's own may do anything.
    if issubclass(kind, float):
        number = float.__float__(value)
        if not isfinite(number):
            raise FeelFault(f"{number} is not a number of FEEL")
        return narrowed(Decimal(repr(number)))
    if issubclass(kind, int):
        return bounded(int.__int__(value))
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, Mapping):
        return _admit_context(env, _copied(env, value, dict), depth)
    if issubclass(kind, Sequence) and not issubclass(kind, bytes | bytearray | memoryview):
        return _admit_list(env, _copied(env, value, list), depth)
    raise FeelFault(f"a Python {kind.__name__} is no FEEL value")


def _copied(env: Env, value: Any, kind: type[Any]) -> Any:
    """A container of a foreign type as a plain one: read once, and no further than the limits."""
    most = env.limits.max_list + 1
    try:
        elements = islice(iter(value), most)
        return list(elements) if kind is list else {key: value[key] for key in elements}
    except Exception as error:  # whatever the methods of a foreign type raise, the value cannot be read
        raise FeelFault(f"a Python {type(value).__name__} that cannot be read") from error


def _admit_list(env: Env, value: list[Any], depth: int) -> Value:
    env.check_list(len(value))
    env.spend(len(value) >> 1)
    admitted = [admit(env, element, depth + 1) for element in value]
    return value if all(map(_same, admitted, value)) else admitted


def _admit_context(env: Env, value: dict[Any, Any], depth: int) -> Value:
    env.check_list(len(value))
    env.spend(len(value) >> 1)
    admitted: dict[str, Value] = {}
    plain = True
    for key, entry in value.items():
        if not isinstance(key, str):
            raise FeelFault("the keys of a context are strings")
        plain = plain and type(key) is str
        admitted[str.__str__(key)] = admit(env, entry, depth + 1)
    return value if plain and all(map(_same, admitted.values(), value.values())) else admitted


def _same(admitted: Value, original: Any) -> bool:
    return admitted is original or (type(admitted) is Decimal and type(original) is Decimal and admitted == original)


def measure(env: Env, value: list[Value] | dict[str, Value], depth: int = 0) -> None:
    """Walk a result and pay for each element and for its texts, so that none is deeper or larger than the limits.

    What stands in it twice counts twice: as JSON it is written twice.
    """
    if depth > env.limits.max_value_depth:
        raise LimitExceeded(f"a result nested deeper than {env.limits.max_value_depth} levels")
    env.steps_left -= 1 + len(value)
    if env.steps_left < 0:
        raise env.exhausted()
    elements: Iterable[Value] = value
    if type(value) is dict:
        elements = value.values()
        env.compare_string(sum(map(len, value)))
    for element in elements:
        kind = type(element)
        if kind is list or kind is dict:
            measure(env, element, depth + 1)  # type: ignore[arg-type]  # one of the two
        elif kind is not int and kind is not bool and element is not None:
            _measure_text(env, element)


def _measure_text(env: Env, element: Value) -> None:
    """Pay for the text that a scalar or a range is in JSON, where it may be long."""
    if type(element) is str:
        if len(element) > 127:
            env.spend(len(element) >> 7)
    elif type(element) is Decimal:
        env.spend(abs(element.adjusted()) >> 7)
    elif type(element) is Range:
        _measure_text(env, element.start)
        _measure_text(env, element.end)


def range_text(value: Range, text_of: Callable[[Value], str]) -> str:
    """A range as FEEL writes it."""
    if value.start is None:
        return f"({'<=' if value.end_included else '<'} {text_of(value.end)})"
    if value.end is None:
        return f"({'>=' if value.start_included else '>'} {text_of(value.start)})"
    opening, closing = "[" if value.start_included else "(", "]" if value.end_included else ")"
    return f"{opening}{text_of(value.start)}..{text_of(value.end)}{closing}"


def to_json(value: Value) -> Any:
    """A FEEL value as JSON: temporal values and ranges become their texts, numbers stay int or Decimal.

    Raises FeelValueError for a function, which has no JSON form. The result of an evaluation is bounded in size and
    depth, so this walk is too.
    """
    if isinstance(value, list):
        return [to_json(element) for element in value]
    if isinstance(value, dict):
        return {key: to_json(element) for key, element in value.items()}
    if isinstance(value, FeelFunction):
        raise FeelValueError("a function has no JSON form")
    if isinstance(value, Range):
        return range_text(value, feel_text)
    if isinstance(value, Date | Time | DateTime | DaysTimeDuration | YearsMonthsDuration):
        return temporal_text(value)
    if type(value) is Decimal and not value:
        return abs(value)  # there is one zero only
    return value


def feel_text(value: Value) -> str:
    """A scalar as it stands inside the text of a list, context or range."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | Decimal):
        return number_text(value)
    if isinstance(value, Date | Time | DateTime | DaysTimeDuration | YearsMonthsDuration):
        return temporal_text(value)
    return kind_of(value)


def _pay_for_text(env: Env, value: Value) -> None:
    """Pay for writing a scalar; a list or a context is paid by its elements."""
    env.spend(1 if type(value) in _QUICKLY_WRITTEN else _COSTLY_TEXT)
    if type(value) is str:
        env.check_string(len(value))


def text_of(env: Env, value: Value, depth: int = 0) -> str:
    """The text that `string()` gives inside lists and contexts; pays for each element."""
    if depth > env.limits.max_value_depth:
        raise LimitExceeded(f"a value nested deeper than {env.limits.max_value_depth} levels")
    _pay_for_text(env, value)
    if isinstance(value, list):
        text = f"[{', '.join(text_of(env, element, depth + 1) for element in value)}]"
    elif isinstance(value, dict):
        text = f"{{{', '.join(f'{key}:{text_of(env, entry, depth + 1)}' for key, entry in value.items())}}}"
    elif isinstance(value, Range):
        text = range_text(value, feel_text)
    else:
        text = feel_text(value)
    env.check_string(len(text))
    return text


def json_text(env: Env, value: Value, depth: int = 0) -> str:
    """Compact JSON text of a value; pays for each element. Raises FeelFault for a function."""
    if depth > env.limits.max_value_depth:
        raise LimitExceeded(f"a value nested deeper than {env.limits.max_value_depth} levels")
    _pay_for_text(env, value)
    if isinstance(value, list):
        text = f"[{','.join(json_text(env, element, depth + 1) for element in value)}]"
    elif isinstance(value, dict):
        pairs = (f"{json.dumps(key)}:{json_text(env, entry, depth + 1)}" for key, entry in value.items())
        text = f"{{{','.join(pairs)}}}"
    elif isinstance(value, FeelFunction):
        raise FeelFault("a function has no JSON form")
    elif isinstance(value, bool | int | Decimal) or value is None:
        text = feel_text(value)
    else:
        text = json.dumps(to_json(value))
    env.check_string(len(text))
    return text


def parse_json(env: Env, text: str) -> Value:
    """The value of a JSON text, numbers exact. Raises FeelFault with the place of the first error."""
    env.check_string(len(text))
    env.spend(2 + (len(text) >> 3))
    if _nesting(text) > env.limits.max_value_depth:
        raise FeelFault(f"JSON nested deeper than {env.limits.max_value_depth} levels")
    try:
        value = json.loads(
            text, parse_float=lambda text: narrowed(Decimal(text)), parse_int=_json_int, parse_constant=_no_constant
        )
    except ValueError as error:
        raise FeelFault(f"not JSON: {error}") from error
    except ArithmeticError as error:
        raise FeelFault("a number of the JSON is out of range") from error
    if "\\u" in text and not _has_characters(value):
        raise FeelFault("not JSON: half a surrogate pair is no character")
    return admit(env, value)


def _has_characters(value: Any) -> bool:
    """Whether the strings of a value can be written as UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return False
    return True


def _nesting(text: str) -> int:
    """How deep the brackets of a JSON text nest; those inside its strings do not count."""
    depth = deepest = 0
    for part in _JSON_PARTS.finditer(text):
        if part[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif part[0] in "]}":
            depth -= 1
    return deepest


def _json_int(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= DIGITS else Decimal(digits)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
