"""What `conch explain` says that an open process instance waits for."""

from __future__ import annotations

from typing import Any

import pytest

from engine.cli.waits import MOST_TOLD, waits
from tests.driven import Driven
from tests.element_plays import linked


def told(name: str, variables: dict[str, Any]) -> list[str]:
    return waits(Driven(linked(name).program, variables, online=False).instance)


@pytest.mark.parametrize(
    ("name", "variables", "expected"),
    [
        ("service-task", {}, ["“Work” waits for a worker: job", "of the type `work`"]),
        ("user-task", {"owner": "ada", "remind_at": None}, ["“Approve” waits for a person: user task"]),
        ("message-catch", {"order_id": "o-7"}, ["waits for the message `payment` with the correlation key 'o-7'"]),
        ("signal-catch", {}, ["waits for the signal `opening`."]),
        ("timer-catch-duration", {}, ["waits until 2023-11-14T22:13:20"]),
    ],
)
def test_each_kind_of_waiting_is_named(name: str, variables: dict[str, Any], expected: list[str]) -> None:
    (sentence,) = told(name, variables)
    assert all(part in sentence for part in expected), sentence


def test_an_incident_is_named_by_its_key() -> None:
    run = Driven(linked("service-task").program, {}, online=False)
    run.fail(retryable=False)
    (incident,) = run.instance.open_incidents
    assert waits(run.instance) == [
        f"“Work” is stopped: mend the cause, then POST /v2/incidents/{incident.key}/resolution."
    ]


def test_of_many_the_first_are_told_and_how_many_more_there_are() -> None:
    sentences = told("multi-instance-parallel", {"items": list(range(MOST_TOLD + 5))})
    assert len(sentences) == MOST_TOLD + 1
    assert sentences[-1] == "And 5 more like these."
