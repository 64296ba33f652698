"""Owns search requests: filters, sorting and pages, as every Camunda 8 search takes them, over items that are given.
Never reads the audit or an instance; what it says of a filter lets others read less.
Called by the routes that search.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import orjson

from engine.api.camunda.problems import refused
from engine.api.camunda.reading import Body, JsonObject, as_key

Item: TypeAlias = dict[str, Any]  # one thing that was found, in Camunda's words

MAX_PAGE = 10_000
DEFAULT_PAGE = 100
_INT32 = 2**31


class Kind(Enum):
    """What the values of a field are."""

    TEXT = "text"
    KEY = "key"  # a decimal string
    NUMBER = "number"
    FLAG = "flag"
    INSTANT = "instant"  # ISO 8601


class Words(NamedTuple):
    """A field that holds one of a few words, or a list of texts that is told under `of`."""

    words: frozenset[str] = frozenset()
    of: str = ""  # where the item tells the list; a condition holds when it does for one of its texts


Fields: TypeAlias = Mapping[str, Kind | Words]


class SearchBody(Body):
    """The body of every search; what it holds is read by `read_query`, which knows the fields."""

    filter: JsonObject | None = None
    sort: list[JsonObject] | None = None
    page: JsonObject | None = None


_SCHEMAS: Mapping[Kind, dict[str, Any]] = {
    Kind.TEXT: {"type": "string"},
    Kind.KEY: {"type": "string", "pattern": "^[0-9]{1,19}$"},
    Kind.NUMBER: {"type": "integer", "format": "int32"},
    Kind.FLAG: {"type": "boolean"},
    Kind.INSTANT: {"type": "string", "format": "date-time"},
}


def described_search(fields: Fields) -> dict[str, Any]:
    """What OpenAPI says of a search: every field to filter and to sort by, and how pages are asked for."""
    told = "Each field is a value that it must equal, or an object of operators: "
    filter_ = {
        "type": "object",
        "description": f"{told}{', '.join(_OPERATORS)}. `$or` holds a list of filters. An unknown field is refused.",
        "properties": {name: _schema(kind) for name, kind in fields.items()},
    }
    order = {"type": "string", "enum": ["ASC", "DESC"], "default": "ASC"}
    sort = {"type": "object", "properties": {"field": {"type": "string", "enum": sorted(fields)}, "order": order}}
    page = {
        "limit": {"type": "integer", "minimum": 0, "maximum": MAX_PAGE, "default": DEFAULT_PAGE},
        "from": {"type": "integer", "minimum": 0, "default": 0},
        "after": {"type": "string", "description": "`endCursor` of the page before"},
        "before": {"type": "string", "description": "`startCursor` of the page after"},
    }
    schema = {
        "type": "object",
        "properties": {
            "filter": filter_,
            "sort": {"type": "array", "items": sort},
            "page": {"type": "object", "properties": page},
        },
    }
    return {"requestBody": {"content": {"application/json": {"schema": schema, "example": {"filter": {}}}}}}


def _schema(kind: Kind | Words) -> dict[str, Any]:
    value: dict[str, Any] = dict(_SCHEMAS[kind]) if isinstance(kind, Kind) else {"type": "string"}
    if isinstance(kind, Words) and kind.words:
        value["enum"] = sorted(kind.words)
    return {"oneOf": [value, {"type": "object", "description": "operators"}]}


class Condition(NamedTuple):
    """One field compared with one or several values."""

    field: str
    operator: str
    operand: Any
    of: str = ""  # the item's field that lists the values, where `field` is one of many

    def holds(self, item: Item) -> bool:
        compare = _OPERATORS[self.operator]
        if not self.of:
            return compare(item.get(self.field), self.operand)
        values = item.get(self.of) or [None]
        every = self.operator in ("$neq", "$notIn")
        return (all if every else any)(compare(value, self.operand) for value in values)


class Query(NamedTuple):
    """A search, read and checked."""

    conditions: tuple[Condition, ...]
    alternatives: tuple[tuple[Condition, ...], ...]  # at least one of them holds, where there is any
    sort: tuple[tuple[str, bool], ...]  # field and whether it descends
    limit: int
    offset: int
    after: str | None
    before: str | None

    def exact(self, field: str) -> str | None:
        """The one value that `field` must have; null when several or all are welcome."""
        for condition in self.conditions:
            if condition.field == field:
                if condition.operator == "$eq":
                    return str(condition.operand)
                if condition.operator == "$in" and len(condition.operand) == 1:
                    return str(condition.operand[0])
        return None

    def keys(self, field: str) -> tuple[int, ...]:
        """The keys that `field` must have one of; empty when all are welcome."""
        for condition in self.conditions:
            if condition.field == field and condition.operator in ("$eq", "$in"):
                operands = condition.operand if condition.operator == "$in" else [condition.operand]
                return tuple(int(each) for each in operands)
        return ()

    def matches(self, item: Item) -> bool:
        if not all(condition.holds(item) for condition in self.conditions):
            return False
        return not self.alternatives or any(all(each.holds(item) for each in one) for one in self.alternatives)


def read_query(body: SearchBody, fields: Fields) -> Query:
    """Check a search against the fields of what it looks for. Raises Rejected with one line per problem.

    A filter or sort field that is not known is refused: passing over it would find what was not asked for.
    """
    wrong: list[str] = []
    given = dict(body.filter or {})
    branches = given.pop("$or", [])
    conditions = _conditions(given, fields, "filter", wrong)
    alternatives: list[tuple[Condition, ...]] = []
    if not isinstance(branches, list) or not all(isinstance(each, dict) for each in branches):
        wrong.append("filter.$or must be a list of filters")
    else:
        alternatives = [_conditions(each, fields, f"filter.$or[{i}]", wrong) for i, each in enumerate(branches)]
    sort = _sort(body.sort or [], fields, wrong)
    limit, offset, after, before = _page(body.page or {}, wrong)
    if wrong:
        raise refused(wrong)
    return Query(conditions, tuple(alternatives), sort, limit, offset, after, before)


def _conditions(given: Mapping[str, Any], fields: Fields, where: str, wrong: list[str]) -> tuple[Condition, ...]:
    conditions = []
    for name, value in given.items():
        if name not in fields:
            wrong.append(f"{where}.{name} is not a field to filter by; there are {', '.join(sorted(fields))}")
            continue
        comparisons = value.items() if isinstance(value, dict) else [("$eq", value)]
        if isinstance(value, list) and isinstance(fields[name], Words):  # all of them
            comparisons = [("$eq", each) for each in value]
        for operator, operand in comparisons:
            try:
                kind = fields[name]
                of = kind.of if isinstance(kind, Words) else ""
                conditions.append(Condition(name, operator, _operand(operator, operand, kind), of))
            except ValueError as error:
                wrong.append(f"{where}.{name} {error}")
    return tuple(conditions)


def _operand(operator: str, operand: Any, kind: Kind | Words) -> Any:
    if operator not in _OPERATORS:
        raise ValueError(f"has no operator `{operator}`; there are {', '.join(_OPERATORS)}")
    if operator == "$exists":
        if not isinstance(operand, bool):
            raise ValueError("$exists must be true or false")
        return operand
    if operator in ("$in", "$notIn"):
        if not isinstance(operand, list):
            raise ValueError(f"{operator} must be a list")
        return [_value(each, kind) for each in operand]
    if operator == "$like":
        if not isinstance(operand, str):
            raise ValueError("$like must be a string")
        return _pattern(operand)
    return _value(operand, kind)


def _value(value: Any, kind: Kind | Words) -> Any:
    if isinstance(kind, Words):
        return _word(value, kind.words)
    match kind:
        case Kind.TEXT if isinstance(value, str):
            return value
        case Kind.KEY:
            return str(as_key(value))
        case Kind.NUMBER if type(value) is int and -_INT32 <= value < _INT32:
            return value
        case Kind.FLAG if isinstance(value, bool):
            return value
        case Kind.INSTANT if isinstance(value, str):
            return _instant(value)
    words = {Kind.TEXT: "a string", Kind.NUMBER: "a whole number", Kind.FLAG: "true or false"}
    raise ValueError(f"must be {words.get(kind, 'an instant in ISO 8601')}")


def _word(value: Any, words: frozenset[str]) -> str:
    if isinstance(value, str) and (not words or value in words):
        return value
    raise ValueError(f"must be one of {', '.join(sorted(words))}" if words else "must be a string")


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("must be an instant in ISO 8601") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _pattern(like: str) -> tuple[str, ...]:
    r"""Parts of a pattern: `*` is any text and `?` any character; a backslash before one takes its meaning away."""
    return tuple(re.findall(r"\\.|.", like, re.DOTALL))


def _like(value: str, parts: Sequence[str]) -> bool:
    """Whether all of `value` fits; going back to the last star only, so that no pattern takes long."""
    at = part = 0
    star = resume = -1
    while at < len(value):
        if part < len(parts) and parts[part] == "*":
            star, resume = part, at
            part += 1
        elif part < len(parts) and (parts[part] == "?" or parts[part][-1] == value[at]):
            at += 1
            part += 1
        elif star >= 0:
            resume += 1
            at, part = resume, star + 1
        else:
            return False
    return all(each == "*" for each in parts[part:])


def _comparable(value: Any, operand: Any) -> Any:
    return _instant(value) if isinstance(operand, datetime) and isinstance(value, str) else value


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def holds(value: Any, operand: Any) -> bool:
        if value is None:
            return False
        if isinstance(operand, str) and operand.isdigit() and str(value).isdigit():
            return compare(int(value), int(operand))
        return compare(_comparable(value, operand), operand)

    return holds


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda value, operand: bool(_comparable(value, operand) == operand),
    "$neq": lambda value, operand: bool(_comparable(value, operand) != operand),
    "$exists": lambda value, operand: (value is not None) == operand,
    "$in": lambda value, operand: any(_comparable(value, each) == each for each in operand),
    "$notIn": lambda value, operand: all(_comparable(value, each) != each for each in operand),
    "$like": lambda value, operand: isinstance(value, str) and _like(value, operand),
    "$gt": _ordered(lambda value, operand: bool(value > operand)),
    "$gte": _ordered(lambda value, operand: bool(value >= operand)),
    "$lt": _ordered(lambda value, operand: bool(value < operand)),
    "$lte": _ordered(lambda value, operand: bool(value <= operand)),
}


def _sort(given: Sequence[Mapping[str, Any]], fields: Fields, wrong: list[str]) -> tuple[tuple[str, bool], ...]:
    sort = []
    for i, each in enumerate(given):
        name, order = each.get("field"), str(each.get("order", "ASC")).upper()
        if not isinstance(name, str) or name not in fields:
            wrong.append(f"sort[{i}].field must be one of {', '.join(sorted(fields))}")
        elif order not in ("ASC", "DESC"):
            wrong.append(f"sort[{i}].order must be ASC or DESC")
        else:
            sort.append((name, order == "DESC"))
    return tuple(sort)


def _page(given: Mapping[str, Any], wrong: list[str]) -> tuple[int, int, str | None, str | None]:
    limit, offset = given.get("limit", DEFAULT_PAGE), given.get("from", 0)
    if type(limit) is not int or not 0 <= limit <= MAX_PAGE:
        wrong.append(f"page.limit must be a whole number from 0 to {MAX_PAGE}")
        limit = 0
    if type(offset) is not int or offset < 0:
        wrong.append("page.from must be a whole number from 0")
        offset = 0
    cursors: list[str | None] = []
    for name in ("after", "before"):
        cursor = given.get(name) or None
        if cursor is not None and _place(cursor) is None:
            wrong.append(f"page.{name} must be a cursor that a search gave")
            cursor = None
        cursors.append(cursor)
    if sum(each is not None for each in cursors) + (offset > 0) > 1:
        wrong.append("page has more than one of `from`, `after` and `before`")
    return limit, offset, cursors[0], cursors[1]


def page_of(items: Iterable[Item], query: Query, key: str, *, capped: bool = False) -> dict[str, Any]:
    """The answer of a search: those of `items` that match, sorted, one page of them.

    `key` is the field that tells items apart; it decides where the sort does not. `capped`: there are more than
    `items` holds, so the total is a lower bound.
    """
    found = sorted((item for item in items if query.matches(item)), key=lambda item: _rank(item[key]))
    for field, descending in reversed(query.sort):
        found.sort(key=lambda item: _rank(item.get(field)), reverse=descending)
    total = len(found)
    start, stop = query.offset, query.offset + query.limit
    if query.after is not None:
        start = _index_of(found, query.after, key) + 1
        stop = start + query.limit
    elif query.before is not None:
        stop = max(_index_of(found, query.before, key), 0)
        start = max(stop - query.limit, 0)
    page = found[start:stop]
    return {
        "items": page,
        "page": {
            "totalItems": total,
            "hasMoreTotalItems": capped,
            "startCursor": _cursor(page[0][key], start) if page else None,
            "endCursor": _cursor(page[-1][key], start + len(page) - 1) if page else None,
        },
    }


def _rank(value: Any) -> tuple[bool, Any]:
    """What is absent comes first; keys in the order of their numbers."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return True, f"{len(value):03}{value}"
    return value is not None, "" if value is None else value


def _cursor(key: Any, index: int) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([key, index])).decode()


def _place(cursor: object) -> tuple[Any, int] | None:
    try:
        key, index = orjson.loads(base64.urlsafe_b64decode(str(cursor)))
    except (ValueError, TypeError):
        return None
    return (key, index) if type(index) is int and index >= 0 else None


def _index_of(found: Sequence[Item], cursor: str, key: str) -> int:
    """Where the item of a cursor is; where it was, if it is not found any more."""
    place, index = _place(cursor) or ("", 0)
    return next((i for i, item in enumerate(found) if item[key] == place), min(index, len(found)) - 1)
