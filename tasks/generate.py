"""Owns Triton's generate extension on top of the tensor protocol: JSON fields to inputs, outputs to JSON fields.
Never talks to a server; what a model takes is given as its card.
Called by infer, for the operations generate and generate_stream.

Protocol: Triton's extension_generate. A field that names an input becomes that tensor; every other field, and each
field of `parameters`, becomes a request parameter. One element is written as a scalar, several as a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from engine import Tensor
from tasks.tensors import encode

RESERVED = "triton_"
EXACTLY_ONE = (
    "generate expects model to produce exactly 1 response, "
    "use generate stream for model that generates various number of responses"
)


class InputSpec(NamedTuple):
    """One input of a model. -1 in `shape` is any length; the batch dimension, where there is one, is included."""

    datatype: str
    shape: tuple[int, ...]
    optional: bool


class ModelCard(NamedTuple):
    """What a replica says about a model that it serves."""

    inputs: Mapping[str, InputSpec]
    decoupled: bool


class Mapped(NamedTuple):
    tensors: list[tuple[Tensor, bytes]]
    parameters: dict[str, Any]
    problems: list[str]


def map_body(card: ModelCard, body: Mapping[str, Any]) -> Mapped:
    """Inputs (with raw contents) and parameters of a generate body, and everything that is wrong with it."""
    mapped = Mapped([], {}, [])
    nested = body.get("parameters")
    fields = dict(body)
    if isinstance(nested, Mapping) and "parameters" not in card.inputs:
        del fields["parameters"]
        for name in fields.keys() & nested.keys():
            mapped.problems.append(f"`{name}` is given twice, as a field and within `parameters`")
        fields |= nested
    for name, spec in card.inputs.items():
        if not spec.optional and name not in fields:
            mapped.problems.append(f"input `{name}` is missing")
    for name, value in fields.items():
        if name in card.inputs:
            _map_input(name, card.inputs[name], value, mapped)
        elif name.startswith(RESERVED):
            mapped.problems.append(f"`{name}`: parameters that start with `{RESERVED}` are the server's own")
        elif isinstance(value, str | bool | int | float):
            mapped.parameters[name] = value
        else:
            known = ", ".join(f"`{each}`" for each in card.inputs)
            mapped.problems.append(
                f"`{name}` is no input of the model ({known}), and a parameter must be a string, number or boolean"
            )
    return mapped


def _map_input(name: str, spec: InputSpec, value: Any, mapped: Mapped) -> None:
    values = value if isinstance(value, list | tuple) else [value]
    shape = fit_shape(spec.shape, len(values))
    if shape is None:
        mapped.problems.append(f"input `{name}`: {len(values)} values do not fit shape {list(spec.shape)}")
        return
    tensor = Tensor(name, spec.datatype, shape, values)
    raw, problems = encode(tensor)
    mapped.tensors.append((tensor, raw))
    mapped.problems.extend(problems)


def fit_shape(shape: Sequence[int], count: int) -> tuple[int, ...] | None:
    """`shape` with its innermost free dimension taking what the fixed ones leave of `count`, the others 1."""
    fixed = prod(d for d in shape if d != -1)
    if fixed == 0 or count % fixed:
        return None
    rest, fitted = count // fixed, list(shape)
    for axis in range(len(fitted) - 1, -1, -1):
        if fitted[axis] == -1:
            fitted[axis], rest = rest, 1
    return tuple(fitted) if rest == 1 else None


def body_of(model: str, version: str, outputs: Sequence[Tensor]) -> dict[str, Any]:
    """The JSON object that Triton's generate answers with."""
    body: dict[str, Any] = {"model_name": model, "model_version": version}
    for tensor in outputs:
        body[tensor.name] = tensor.data[0] if len(tensor.data) == 1 else list(tensor.data)
    return body
