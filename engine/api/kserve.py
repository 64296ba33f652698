"""Owns the wire form of KServe v2 inference and of Triton's generate extension: JSON to call, answer to JSON.
Never touches a model, a replica or the engine.
Called by the inference routes. Protocol: KServe "Open Inference Protocol" v2 and Triton's generate extension.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import orjson

from engine.errors import Code, Rejected
from engine.inference import InferenceAnswer, InferenceCall, Operation, Tensor

DATATYPES = frozenset(
    {"BOOL", "BYTES", "FP16", "BF16", "FP32", "FP64"}
    | {f"{kind}{bits}" for kind in ("INT", "UINT") for bits in (8, 16, 32, 64)}
)
_SCALARS = frozenset((str, bool, int, float))
_CLASSIFICATION = "classification"
_SHARED_MEMORY = "shared_memory_region"
_MAX_DIMENSIONS = 32
_MAX_TENSORS = 1_000  # of one request; without a limit a body of zeros would earn an answer fifty times its size
_SHOWN_CHARS = 60  # of a client's value in a message


def read_call(operation: Operation, model: str, version: str, body: bytes) -> InferenceCall:
    """The call that a request body stands for.

    Raises Rejected(MALFORMED_JSON) with the place, or Rejected(INVALID_ARGUMENT) naming every problem.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        message = f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise Rejected(Code.MALFORMED_JSON, message) from None
    if not isinstance(document, dict):
        raise Rejected(Code.INVALID_ARGUMENT, f"the body must be a JSON object, not {_kind(document)}")
    if operation is Operation.INFER:
        return _read_infer(model, version, document, len(body))
    client_id = document.pop("id", "")
    if not isinstance(client_id, str):
        raise Rejected(Code.INVALID_ARGUMENT, f"`id` must be a string, not {_kind(client_id)}")
    return InferenceCall(operation, model, version, client_id, body=document, size_bytes=len(body))


def _read_infer(model: str, version: str, document: dict[str, Any], size_bytes: int) -> InferenceCall:
    problems: list[str] = []
    client_id = document.get("id", "")
    if not isinstance(client_id, str):
        problems.append(f"`id` must be a string, not {_kind(client_id)}")
    parameters = document.get("parameters", {})
    _check_parameters("`parameters`", parameters, problems)
    inputs = document.get("inputs")
    tensors: list[Tensor] = []
    if not isinstance(inputs, list) or not inputs:
        problems.append("`inputs` must be a non-empty list of tensors")
    elif _few_enough("inputs", inputs, problems):
        tensors = [tensor for at, item in enumerate(inputs) if (tensor := _read_tensor(at, item, problems))]
        names = [tensor.name for tensor in tensors]
        if len(set(names)) < len(names):
            problems += [
                f"input `{name}` is given more than once" for name, times in Counter(names).items() if times > 1
            ]
    outputs = _read_outputs(document.get("outputs", []), problems)
    if problems:
        raise Rejected(Code.INVALID_ARGUMENT, "; ".join(problems), problems=tuple(problems))
    return InferenceCall(
        Operation.INFER, model, version, client_id, tuple(tensors), outputs, {}, parameters, size_bytes=size_bytes
    )


def _few_enough(what: str, tensors: list[Any], problems: list[str]) -> bool:
    if len(tensors) > _MAX_TENSORS:
        problems.append(f"`{what}` has {len(tensors)} tensors; at most {_MAX_TENSORS} are accepted")
    return len(tensors) <= _MAX_TENSORS


def _read_tensor(at: int, item: Any, problems: list[str]) -> Tensor | None:
    where = f"inputs[{at}]"
    if not isinstance(item, dict):
        problems.append(f"{where} must be an object, not {_kind(item)}")
        return None
    before = len(problems)
    name, datatype, shape = item.get("name"), item.get("datatype"), item.get("shape")
    data, parameters = item.get("data"), item.get("parameters", {})
    if not isinstance(name, str) or not name:
        problems.append(f"{where}.name must be a non-empty string")
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        shown = repr(datatype[:_SHOWN_CHARS]) if isinstance(datatype, str) else _kind(datatype)
        problems.append(f"{where}.datatype is {shown}; it must be one of {', '.join(sorted(DATATYPES))}")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        problems.append(f"{where}.shape must be a list of integers that are not negative")
    elif len(shape) > _MAX_DIMENSIONS:
        problems.append(f"{where}.shape has {len(shape)} dimensions; at most {_MAX_DIMENSIONS} are accepted")
    _check_parameters(f"{where}.parameters", parameters, problems)
    if isinstance(parameters, dict) and _SHARED_MEMORY in parameters:
        problems.append(f"{where} names a shared memory region; it would not exist on the replica: send `data`")
    if not isinstance(data, list):
        problems.append(f"{where}.data must be a list (binary tensor data is not supported over HTTP)")
    if len(problems) > before or not isinstance(data, list) or not isinstance(shape, list):
        return None
    flat = _flat(data, where, problems)
    if flat is not None and len(flat) != prod(shape):
        problems.append(f"{where} (`{name}`) has {len(flat)} elements, but its shape {shape} needs {prod(shape)}")
    return Tensor(str(name), str(datatype), tuple(shape), flat or (), parameters) if len(problems) == before else None


def _check_parameters(where: str, parameters: Any, problems: list[str]) -> None:
    if not isinstance(parameters, dict):
        problems.append(f"{where} must be an object, not {_kind(parameters)}")
        return
    problems += [
        f"{where}: `{name}` must be a string, number or boolean, not {_kind(value)}"
        for name, value in parameters.items()
        if type(value) not in _SCALARS
    ]


def _flat(data: list[Any], where: str, problems: list[str]) -> list[Any] | None:
    """Row-major elements of a flat or nested list."""
    if not data or not isinstance(data[0], list):
        if any(isinstance(element, (list, dict)) or element is None for element in data):
            problems.append(f"{where}.data mixes elements with lists, objects or null")
            return None
        return data
    level: list[Any] = data
    for _ in range(_MAX_DIMENSIONS):
        if not level or not isinstance(level[0], list):
            return _flat(level, where, problems)
        if not all(isinstance(part, list) and len(part) == len(level[0]) for part in level):
            problems.append(f"{where}.data is ragged: nested lists of one level must have one length")
            return None
        level = [element for part in level for element in part]
    problems.append(f"{where}.data is nested more than {_MAX_DIMENSIONS} levels deep")
    return None


def _read_outputs(outputs: Any, problems: list[str]) -> tuple[str, ...]:
    if not isinstance(outputs, list):
        problems.append(f"`outputs` must be a list, not {_kind(outputs)}")
        return ()
    if not _few_enough("outputs", outputs, problems):
        return ()
    names: list[str] = []
    for at, item in enumerate(outputs):
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            problems.append(f"outputs[{at}] must be an object with a `name`")
            continue
        parameters = item.get("parameters")
        asked = parameters.keys() if isinstance(parameters, dict) else ()
        if _SHARED_MEMORY in asked:
            problems.append(f"outputs[{at}] names a shared memory region; it would not exist on the replica")
        if _CLASSIFICATION in asked:
            problems.append(f"outputs[{at}] asks for a classification, which is not supported: ask for the tensor")
        names.append(item["name"])
    return tuple(names)


def write_answer(answer: InferenceAnswer, client_id: str) -> bytes:
    """The body of a successful answer, with Triton's field names and order."""
    document: dict[str, Any] = {"id": client_id} if client_id else {}
    document["model_name"] = answer.model
    document["model_version"] = answer.version
    if answer.parameters:
        document["parameters"] = answer.parameters
    if answer.outputs:
        document["outputs"] = list(_written(answer))
    else:
        document.update(answer.body)
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)


def _written(answer: InferenceAnswer) -> Iterator[Mapping[str, Any]]:
    for tensor in answer.outputs:
        yield {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": list(tensor.shape),
            **({"parameters": tensor.parameters} if tensor.parameters else {}),
            "data": tensor.data,
        }


def write_error(code: str, message: str, retry_after_ms: int | None = None, **more: object) -> bytes:
    """Triton's error object with our code beside it, so that clients of either understand it."""
    document: dict[str, object] = {"error": message, "code": code}
    if retry_after_ms is not None:
        document["retry_after_ms"] = retry_after_ms
    document.update({name: value for name, value in more.items() if value is not None})
    return orjson.dumps(document)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
