"""Each failure of a call means one code, told by status and text as real servers and the client library write them."""

import pytest

from engine import Code
from tasks.verdicts import TABLE, failure_within, row_for

READ_FROM_REAL_SERVERS = [
    (
        "UNAVAILABLE",
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:8001: "
        "Failed to connect to remote host: Connection refused",
        Code.REPLICA_UNAVAILABLE,
        True,
    ),
    ("UNAVAILABLE", "Stream removed (recvmsg:Connection reset by peer (104))", Code.REPLICA_UNAVAILABLE, True),
    ("UNAVAILABLE", "Socket closed", Code.REPLICA_UNAVAILABLE, True),
    ("UNAVAILABLE", "GOAWAY received", Code.REPLICA_UNAVAILABLE, True),
    ("UNAVAILABLE", "[request id: x] Exceeds maximum queue size", Code.REPLICA_OVERLOADED, False),
    ("UNAVAILABLE", "Request timeout expired", Code.REPLICA_TIMEOUT, False),
    ("UNAVAILABLE", "Server is stopping, scheduler for model has stopped", Code.REPLICA_UNAVAILABLE, True),
    (
        "UNAVAILABLE",
        "Request for unknown model: 'embed' version 1 is not at ready state",
        Code.MODEL_NOT_READY,
        True,
    ),
    ("UNAVAILABLE", "a model said so", Code.REPLICA_UNAVAILABLE, False),
    ("INVALID_ARGUMENT", "unexpected inference input 'nope' for model 'embed'", Code.INPUT_REFUSED, False),
    ("INVALID_ARGUMENT", "Request for unknown model: 'm' is not at ready state", Code.MODEL_NOT_READY, True),
    ("NOT_FOUND", "Request for unknown model: 'embed' has no available versions", Code.MODEL_NOT_READY, True),
    ("NOT_FOUND", "Request for unknown model: 'embed' is not found", Code.MODEL_NOT_READY, True),
    ("NOT_FOUND", "Request for unknown model: 'embed' version 9 is not found", Code.MODEL_NOT_FOUND, False),
    ("DEADLINE_EXCEEDED", "Deadline Exceeded", Code.REPLICA_TIMEOUT, False),
    ("CANCELLED", "", Code.REPLICA_UNAVAILABLE, False),
    (
        "UNIMPLEMENTED",
        "ModelInfer RPC doesn't support models with decoupled transaction policy",
        Code.UNSUPPORTED,
        False,
    ),
    ("INTERNAL", "Stub process 'faulty_0_0' is not healthy.", Code.REPLICA_UNAVAILABLE, True),
    ("INTERNAL", "fault error", Code.REPLICA_ERROR, False),
    ("UNKNOWN", "", Code.REPLICA_ERROR, False),
    ("RESOURCE_EXHAUSTED", "Received message larger than max (5 vs. 4)", Code.INPUT_REFUSED, False),
    ("RESOURCE_EXHAUSTED", "no room", Code.REPLICA_OVERLOADED, False),
]


@pytest.mark.parametrize(("status", "text", "code", "takes_out"), READ_FROM_REAL_SERVERS)
def test_status_and_text_name_the_code(status: str, text: str, code: Code, takes_out: bool) -> None:
    row = row_for(status, text)
    assert (row.code, row.takes_out) == (code, takes_out)


def test_every_row_can_be_reached() -> None:
    assert [row for row in TABLE if row_for(row.status or "OTHER", row.text) is not row] == []


def test_an_error_within_a_stream_is_told_by_its_text_alone() -> None:
    assert failure_within("Stub process 'chat_0_0' is not healthy.").takes_out
    assert failure_within("Exceeds maximum queue size").code is Code.REPLICA_OVERLOADED
    assert failure_within("the model's own words: connection refused, keepalive, GOAWAY").code is Code.REPLICA_ERROR
    failure = failure_within("fault invalid after 0 tokens")
    assert (failure.code, failure.grpc_status, failure.takes_out) == (Code.REPLICA_ERROR, None, False)
