"""Owns the requests that the system tests send: bodies in the form of KServe v2 and of Triton's generate.

Never sends one. Called by the system tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

INFER, CHAT = "/v2/models/embed/infer", "/v2/models/chat/generate_stream"


def tensor(name: str, datatype: str, data: Sequence[object]) -> dict[str, Any]:
    """An input of one element per row."""
    return {"name": name, "datatype": datatype, "shape": [len(data), 1], "data": list(data)}


def texts(*values: str, **more: str) -> dict[str, Any]:
    """An infer body with one text per row, and more BYTES inputs of as many rows."""
    named = [tensor(name, "BYTES", [value] * len(values)) for name, value in more.items()]
    return {"inputs": [tensor("text", "BYTES", values), *named]}


def prompt(text: str = "where does the tide go", **fields: Any) -> dict[str, Any]:
    """A generate body. Without more it asks for one whole answer."""
    return {"text_input": text, "stream": False, **fields}
