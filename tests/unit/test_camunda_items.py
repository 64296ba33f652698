"""How things are written for Camunda 8 clients."""

from __future__ import annotations

import pytest

from engine.api.camunda.items import with_code


@pytest.mark.parametrize(
    ("code", "message", "told"),
    [
        ("TASK_FAULT", "TASK_FAULT: a variable is missing", "TASK_FAULT: a variable is missing"),
        ("NO_RETRIES_LEFT", "WORKER_FAILED: bank away", "NO_RETRIES_LEFT: WORKER_FAILED: bank away"),
        ("TASK_FAULT", "TASK_FAULTS are many", "TASK_FAULT: TASK_FAULTS are many"),
    ],
)
def test_a_code_stands_once_before_its_message(code: str, message: str, told: str) -> None:
    assert with_code(code, message) == told
