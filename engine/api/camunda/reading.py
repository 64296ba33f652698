"""Owns reading a Camunda 8 request: its JSON body against a model, keys in paths, the tenant.
Never acts on what it reads; unknown fields are passed over, as Camunda does, and wrong ones named all at once.
Called by every Camunda 8 route that takes a body or a key.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from decimal import Decimal
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic.alias_generators import to_camel
from starlette.requests import Request

from engine.api.camunda.problems import refused
from engine.api.exchange import Disconnected, read_body
from engine.errors import Code, Rejected
from engine.store import json_text

DEFAULT_TENANT = "<default>"
MAX_KEY = 2**63 - 1
MAX_DEPTH = 64  # of objects and lists in each other; what is deeper, no FEEL expression could read
MAX_EXPONENT = 6_144  # of IEEE 754 decimal128, which FEEL counts with


class Body(BaseModel):
    """A request's JSON object. Fields are camelCase on the wire."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True, hide_input_in_errors=True)


B = TypeVar("B", bound=Body)


def as_key(value: object) -> int:
    """A key as a number. Raises ValueError for what is no key."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if type(value) is int and 0 < value <= MAX_KEY:
        return value
    raise ValueError("must be a key: a decimal string below 2^63")


def _is_default_tenant(value: str) -> str:
    if value != DEFAULT_TENANT:
        raise ValueError(f"must be `{DEFAULT_TENANT}`: tenants of Camunda 8 clients are not configured")
    return value


def _is_object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("must be a JSON object")
    return value


KeyField = Annotated[int, BeforeValidator(as_key), WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,19}$"})]
Tenant = Annotated[str, AfterValidator(_is_default_tenant)]
JsonObject = Annotated[dict[str, Any], BeforeValidator(_is_object)]
Milliseconds = Annotated[int, Field(ge=0, le=MAX_KEY // 1_000_000)]


def described(model: type[Body], **example: Any) -> dict[str, Any]:
    """What OpenAPI says of a route that reads `model`; the route reads the body itself, for exact numbers."""
    schema = model.model_json_schema()
    parts = schema.pop("$defs", {})
    content: dict[str, Any] = {"schema": _inlined(schema, parts)}
    if example:
        content["example"] = example
    return {"requestBody": {"content": {"application/json": content}}}


def _inlined(schema: Any, parts: Mapping[str, Any]) -> Any:
    """The schema with its parts in their places; no model here holds itself."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _inlined(parts[schema["$ref"].rpartition("/")[2]], parts)
        return {name: _inlined(each, parts) for name, each in schema.items()}
    return [_inlined(each, parts) for each in schema] if isinstance(schema, list) else schema


async def read_json(request: Request, model: type[B]) -> B:
    """The body as `model`; an absent body is an empty object.

    Numbers with a fraction become exact decimals. Raises Rejected with MALFORMED_JSON, BODY_TOO_LARGE or
    INVALID_ARGUMENT, the latter with one line per wrong field.
    """
    limit: int = request.app.state.max_body_bytes
    data = await read_body(request.scope, request.receive, limit)
    document = parsed(data) if data.strip() else None
    return validated({} if document is None else document, model)


def validated(document: object, model: type[B]) -> B:
    """`document` as `model`. Raises Rejected(INVALID_ARGUMENT) with one line per wrong field."""
    try:
        return model.model_validate(document)
    except ValidationError as invalid:
        errors = invalid.errors(include_url=False, include_input=False, include_context=False)
        raise refused(f"{_where(error['loc'])} {_what(error)}" for error in errors) from None


def parsed(data: bytes) -> Any:
    """A JSON document. Raises Rejected with MALFORMED_JSON, or INVALID_ARGUMENT for what no row could hold."""
    try:
        document = json.loads(data, parse_float=_number, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        message = f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise Rejected(Code.MALFORMED_JSON, message) from None
    except UnicodeDecodeError:
        raise Rejected(Code.MALFORMED_JSON, "the body is not JSON: it is not UTF-8") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # a number of too many digits, or NaN
        raise Rejected(Code.MALFORMED_JSON, f"the body is not JSON: {error}") from None
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _is_too_deep(document):
        raise _too_deep()
    if b"\\u" in data and json_text.clean(document) != document:
        raise refused(["the body holds a character that cannot be stored: U+0000, or half of a surrogate pair"])
    return document


def _is_too_deep(document: object) -> bool:
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH + 1):
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (dict, list))]
        level = [each for values in inner for each in values]
        if not level:
            return False
    return True


def _too_deep() -> Rejected:
    return Rejected(
        Code.MALFORMED_JSON, f"the body is nested too deeply: at most {MAX_DEPTH} objects and lists in each other"
    )


def _number(text: str) -> Decimal:
    number = Decimal(text)
    if abs(number.adjusted()) > MAX_EXPONENT:
        raise ValueError(f"{text[:40]} is larger or smaller than any number here")
    return number


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def _where(location: tuple[int | str, ...]) -> str:
    """`a.b[0]` for a place in the body."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.removeprefix(".") or "the body"


_WORDS = {
    "missing": "is missing",
    "string_type": "must be a string",
    "string_too_short": "must not be empty",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a JSON object",
    "model_type": "must be a JSON object",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
}


def _what(error: Mapping[str, Any]) -> str:
    words = _WORDS.get(error["type"])
    if words is not None:
        return words
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    return message[:1].lower() + message[1:]


def key_in_path(request: Request, name: str) -> int:
    """The key at `name` of the path. Raises Rejected(INVALID_ARGUMENT)."""
    text = request.path_params[name]
    try:
        return as_key(text)
    except ValueError as error:
        raise Rejected(Code.INVALID_ARGUMENT, f"`{text[:40]}` in the path {error}") from None


def flag_in_query(request: Request, name: str, default: bool) -> bool:
    """A true or false of the query string. Raises Rejected(INVALID_ARGUMENT)."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise Rejected(Code.INVALID_ARGUMENT, f"`{name}` must be true or false")
    return text.lower() == "true"


async def bounded_stream(request: Request) -> AsyncGenerator[bytes, None]:
    """The body in parts. Raises Rejected(BODY_TOO_LARGE) once it is too long, Disconnected when the client left."""
    limit: int = request.app.state.max_body_bytes
    size = int(text) if (text := request.headers.get("content-length", "")).isdigit() else 0
    read = 0
    more = True
    while more:
        if max(size, read) > limit:
            message = f"the body has at least {max(size, read)} bytes, and server.max_body_bytes is {limit}"
            raise Rejected(Code.BODY_TOO_LARGE, message)
        received = await request.receive()
        if received["type"] != "http.request":
            raise Disconnected
        part: bytes = received.get("body", b"")
        read += len(part)
        more = bool(received.get("more_body")) or read > limit
        if read <= limit:
            yield part
