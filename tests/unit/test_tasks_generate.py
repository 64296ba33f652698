"""A generate body becomes inputs and parameters as Triton's extension maps them; every problem is named."""

import pytest

from engine import Tensor
from tasks.generate import InputSpec, ModelCard, body_of, fit_shape, map_body

CARD = ModelCard(
    {
        "text_input": InputSpec("BYTES", (1,), optional=False),
        "max_tokens": InputSpec("INT32", (1,), optional=True),
        "bias": InputSpec("FP32", (-1, 2), optional=True),
    },
    decoupled=True,
)


def test_fields_that_name_inputs_become_tensors_and_the_others_parameters() -> None:
    mapped = map_body(
        CARD, {"text_input": "hi", "max_tokens": 3, "seed": 7, "parameters": {"top_p": 0.5, "beam": True}}
    )
    assert mapped.problems == []
    assert [(tensor.name, tensor.shape, raw) for tensor, raw in mapped.tensors] == [
        ("text_input", (1,), b"\x02\x00\x00\x00hi"),
        ("max_tokens", (1,), b"\x03\x00\x00\x00"),
    ]
    assert mapped.parameters == {"seed": 7, "top_p": 0.5, "beam": True}


def test_a_list_fills_the_innermost_free_dimension() -> None:
    mapped = map_body(CARD, {"text_input": "hi", "bias": [1.0, 2.0, 3.0, 4.0]})
    assert [tensor.shape for tensor, _ in mapped.tensors] == [(1,), (2, 2)]


@pytest.mark.parametrize(
    ("shape", "count", "fitted"),
    [
        ((1,), 1, (1,)),
        ((1,), 2, None),
        ((-1, 1), 3, (3, 1)),
        ((-1, -1), 3, (1, 3)),
        ((-1, 2), 3, None),
        ((2, 2), 4, (2, 2)),
        ((), 1, ()),
        ((), 2, None),
        ((0,), 0, None),
    ],
)
def test_shapes_are_fitted_to_the_number_of_values(
    shape: tuple[int, ...], count: int, fitted: tuple[int, ...] | None
) -> None:
    assert fit_shape(shape, count) == fitted


def test_every_problem_of_a_body_is_named_at_once() -> None:
    body = {
        "max_tokens": ["x"],
        "bias": [1.0],
        "stop": ["a"],
        "triton_final_response": True,
        "seed": 1,
        "parameters": {"seed": 2},
    }
    assert sorted(map_body(CARD, body).problems) == [
        "`seed` is given twice, as a field and within `parameters`",
        "`stop` is no input of the model (`text_input`, `max_tokens`, `bias`), "
        "and a parameter must be a string, number or boolean",
        "`triton_final_response`: parameters that start with `triton_` are the server's own",
        "input `bias`: 1 values do not fit shape [-1, 2]",
        "input `max_tokens`: element 0 is a string, INT32 needs a whole number",
        "input `text_input` is missing",
    ]


def test_one_element_is_written_as_a_scalar_and_several_as_a_list() -> None:
    outputs = [Tensor("text_output", "BYTES", (1,), ["hi"]), Tensor("scores", "FP32", (2,), [0.5, 0.25])]
    assert body_of("chat", "1", outputs) == {
        "model_name": "chat",
        "model_version": "1",
        "text_output": "hi",
        "scores": [0.5, 0.25],
    }
