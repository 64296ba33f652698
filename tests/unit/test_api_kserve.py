"""KServe v2 bodies: what becomes a call, and that every problem of a wrong one is named at once."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.api.kserve import read_call, write_answer, write_error
from engine.errors import Code, Rejected
from engine.inference import InferenceAnswer, InferenceCall, Operation, Tensor


def infer(document: object) -> InferenceCall:
    return read_call(Operation.INFER, "embed", "", json.dumps(document).encode())


def tensor(**changes: Any) -> dict[str, Any]:
    return {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["hello"], **changes}


def refusal_of(document: object) -> Rejected:
    with pytest.raises(Rejected) as caught:
        infer(document)
    return caught.value


def test_a_call_keeps_tensors_outputs_parameters_and_the_clients_id() -> None:
    call = infer(
        {
            "id": "7",
            "inputs": [tensor(shape=[2, 1], data=[["a"], ["b"]])],
            "outputs": [{"name": "e"}],
            "parameters": {"p": 1},
        }
    )
    assert call.client_id == "7"
    assert call.inputs == (Tensor("text", "BYTES", (2, 1), ["a", "b"], {}),)
    assert call.outputs == ("e",)
    assert call.parameters == {"p": 1}


def test_malformed_json_names_line_and_column() -> None:
    with pytest.raises(Rejected) as caught:
        read_call(Operation.INFER, "embed", "", b'{"inputs": [\n  oops]}')
    assert caught.value.code == Code.MALFORMED_JSON
    assert "line 2, column 3" in caught.value.message


@pytest.mark.parametrize("document", [[], "text", 3, None, True])
def test_a_body_that_is_not_an_object_is_refused(document: object) -> None:
    assert refusal_of(document).code == Code.INVALID_ARGUMENT


def test_every_problem_is_named_at_once() -> None:
    problems = refusal_of(
        {
            "id": 5,
            "parameters": [],
            "inputs": [tensor(datatype="STRING"), tensor(shape=[3]), tensor(shape=[-1]), "x", tensor(name="")],
            "outputs": [{}],
        }
    ).fields["problems"]
    assert isinstance(problems, tuple)
    joined = "\n".join(map(str, problems))
    for part in (
        "`id` must be a string",
        "`parameters` must be an object",
        "inputs[0].datatype is 'STRING'",
        "inputs[1] (`text`) has 1 elements, but its shape [3] needs 3",
        "inputs[2].shape",
        "inputs[3] must be an object",
        "inputs[4].name",
        "outputs[0] must be an object with a `name`",
    ):
        assert part in joined


@pytest.mark.parametrize("data", [[["a"], ["b", "c"]], [["a"], "b"], [{"a": 1}], [None], [[["a"]], [["b"], ["c"]]]])
def test_ragged_or_mixed_data_is_refused(data: list[Any]) -> None:
    assert refusal_of({"inputs": [tensor(shape=[2], data=data)]}).code == Code.INVALID_ARGUMENT


def test_an_input_given_twice_is_refused() -> None:
    assert "more than once" in refusal_of({"inputs": [tensor(), tensor()]}).message


def test_shared_memory_is_refused_with_its_reason() -> None:
    refusal = refusal_of({"inputs": [tensor(parameters={"shared_memory_region": "r"})]})
    assert "would not exist on the replica" in refusal.message


@pytest.mark.parametrize("value", [None, [1], {"a": 1}])
def test_a_parameter_is_a_scalar(value: object) -> None:
    refusal = refusal_of({"parameters": {"p": value}, "inputs": [tensor(parameters={"q": value})]})
    assert refusal.code == Code.INVALID_ARGUMENT
    assert "`parameters`: `p` must be a string, number or boolean, not " in refusal.message
    assert "inputs[0].parameters: `q` must be a string, number or boolean, not " in refusal.message


def test_a_classification_is_refused_rather_than_forgotten() -> None:
    outputs = [{"name": "e", "parameters": {"classification": 3, "shared_memory_region": "r"}}]
    problems = refusal_of({"inputs": [tensor()], "outputs": outputs}).fields["problems"]
    assert isinstance(problems, tuple)
    assert len(problems) == 2


def test_a_generate_body_keeps_its_fields_and_gives_up_its_id() -> None:
    call = read_call(Operation.GENERATE, "chat", "2", b'{"text_input": "hi", "max_tokens": 3, "id": "q"}')
    assert (call.model, call.version, call.client_id) == ("chat", "2", "q")
    assert call.body == {"text_input": "hi", "max_tokens": 3}


def test_an_answer_has_tritons_fields() -> None:
    answer = InferenceAnswer("embed", "1", (Tensor("embedding", "FP32", (1, 2), [0.5, 1.0]),))
    assert json.loads(write_answer(answer, "7")) == {
        "id": "7",
        "model_name": "embed",
        "model_version": "1",
        "outputs": [{"name": "embedding", "datatype": "FP32", "shape": [1, 2], "data": [0.5, 1.0]}],
    }


def test_an_error_says_text_code_and_when_to_come_back() -> None:
    body = json.loads(write_error("QUEUE_FULL", "full", 250, replica=None))
    assert body == {"error": "full", "code": "QUEUE_FULL", "retry_after_ms": 250}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=8), children, max_size=4),
    max_leaves=12,
)


@given(
    inputs=st.lists(
        json_values
        | st.fixed_dictionaries(
            {
                "name": st.text(max_size=3),
                "shape": json_values,
                "datatype": st.sampled_from(["BYTES", "FP32", "?"]),
                "data": json_values,
            }
        ),
        max_size=3,
    ),
    more=json_values,
)
def test_any_json_becomes_a_call_or_a_refusal(inputs: list[Any], more: Any) -> None:
    for document in (more, {"inputs": inputs, "outputs": more, "parameters": more}):
        with suppress(Rejected):
            assert infer(document).inputs


@pytest.mark.parametrize("datatype", [["BYTES"], {"is": "BYTES"}, None, 7, "B" * 10_000])
def test_a_datatype_of_any_kind_is_refused_in_few_words(datatype: object) -> None:
    refusal = refusal_of({"inputs": [tensor(datatype=datatype)]})
    assert "inputs[0].datatype" in refusal.message
    assert len(refusal.message) < 500


def test_a_shape_of_more_dimensions_than_any_tensor_has_is_refused_without_multiplying_it() -> None:
    refusal = refusal_of({"inputs": [tensor(shape=[2**62] * 100_000)]})
    assert "inputs[0].shape has 100000 dimensions" in refusal.message
    assert len(refusal.message) < 500


@pytest.mark.parametrize("which", ["inputs", "outputs"])
def test_more_tensors_than_any_model_has_are_refused_without_reading_them(which: str) -> None:
    refusal = refusal_of({"inputs": [tensor()], which: [0] * 100_000})
    assert f"`{which}` has 100000 tensors" in refusal.message
    assert len(refusal.message) < 500
