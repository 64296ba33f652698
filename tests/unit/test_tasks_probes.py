"""What a probe sends: the least that the model's own description allows."""

from __future__ import annotations

from tasks.generate import InputSpec, ModelCard
from tasks.probes import _smallest_inputs
from tasks.tensors import decode


def sent(**inputs: InputSpec) -> dict[str, tuple[tuple[int, ...], list[object]]]:
    made = [(tensor, raw) for tensor, raw in _smallest_inputs(ModelCard(inputs, False))]
    return {each.name: (each.shape, decode(each.name, each.datatype, each.shape, raw)) for each, raw in made}


def test_zeros_and_a_short_text_in_the_smallest_shape() -> None:
    assert sent(
        text=InputSpec("BYTES", (-1, 1), False),
        pixels=InputSpec("FP32", (-1, 2, 2), False),
        flag=InputSpec("BOOL", (1,), False),
        extra=InputSpec("INT32", (1,), True),
    ) == {"text": ((1, 1), ["probe"]), "pixels": ((1, 2, 2), [0.0] * 4), "flag": ((1,), [False])}


def test_a_text_model_is_asked_for_one_token_where_it_takes_a_number() -> None:
    assert sent(max_tokens=InputSpec("INT32", (1,), True)) == {"max_tokens": ((1,), [1])}
    assert sent(max_tokens=InputSpec("BYTES", (1,), True)) == {}
    assert sent(max_tokens=InputSpec("BYTES", (1,), False)) == {"max_tokens": ((1,), ["probe"])}
