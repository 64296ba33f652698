"""Owns the scripts of golden logs: which files, what happens, and what the log is there to show.
Never changes what was recorded: a script may be added or dropped, its log stays.
Called by the recorder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.acts import (
    Act,
    aborted,
    cancelled,
    completed_late,
    done,
    failed,
    fired,
    given_retries,
    resolved,
    stopped,
    threw,
    wrote,
)
from tests.element_plays import PLAYS, files_of
from tests.golden.recording import Script

SHIPPED = Path(__file__).parents[2] / "processes" / "inference-request.bpmn"

# By element diagram: the name of each log that records one of its plays, with what it shows.
PLAYED: dict[str, tuple[tuple[str, str], ...]] = {
    "boundary-conditional": (("interrupted", "A condition becomes true and ends the task that it stands on."),),
    "boundary-error": (("caught", "A task throws an error that the event on its border catches."),),
    "boundary-escalation-non-interrupting": (("beside", "An escalation starts a path beside the sub-process."),),
    "boundary-message": (("interrupted", "A message ends the task, and its variables reach the process."),),
    "boundary-signal-non-interrupting": (("beside", "A signal starts a path beside the task."),),
    "boundary-timer": (("late", "A task is stopped because it takes too long."),),
    "boundary-timer-cycle-non-interrupting": (("twice", "A cycle fires twice while the task runs."),),
    "business-rule-task": (("decided", "A decision table is evaluated; its reasons are a row."),),
    "business-rule-task-required": (
        (
            "decided",
            "A decision requires a table and calls a knowledge model; a part of its value is null, with a cause.",
        ),
    ),
    "call-activity": (("all-variables", "A called process gets every variable and gives every one back."),),
    "call-activity-deployment": (("mapped", "Only mapped variables go into a called process, and come out."),),
    "call-activity-version-tag": (("tagged", "The version with a tag is called; its variables stay inside."),),
    "compensation-sub-process": (("undone", "What was done inside a completed sub-process is undone."),),
    "compensation-throw": (("all-undone", "All that was done is undone; the throw event waits for that."),),
    "conditional-catch": (("waited", "A condition holds after a variable was written from outside."),),
    "error-end": (("caught", "An error end event ends its sub-process and is caught at the border."),),
    "escalation-throw": (("beside", "An escalation that does not interrupt."),),
    "event-based-gateway": (
        ("message-first", "A message comes first; the other events are taken back."),
        ("signal-first", "A signal comes first."),
        ("timer-first", "Nothing comes within the hour."),
    ),
    "event-sub-process-error": (("caught", "An event sub-process catches an error of the process."),),
    "event-sub-process-message": (("interrupted", "A message interrupts the process."),),
    "event-sub-process-timer-non-interrupting": (("twice", "A cycle starts an event sub-process twice."),),
    "exclusive-gateway": (("condition", "A condition holds."), ("default", "No condition holds.")),
    "inclusive-gateway": (("two", "Two of three paths are taken and joined."), ("default", "No condition holds.")),
    "input-output-mappings": (("mapped", "A task sees its inputs and leaves its outputs."),),
    "link": (("jumped", "A link leads on without a flow."),),
    "manual-task": (("passed", "A manual task is passed at once."),),
    "message-catch": (("came", "A message brings a variable."),),
    "message-throw": (("sent", "A message is sent by a job."),),
    "multi-instance-call-activity": (("parallel", "A process is called for each item at once."),),
    "multi-instance-completion-condition": (("enough", "The first result is enough; the others are stopped."),),
    "multi-instance-parallel": (("null-item", "A task for each item at once; one item is null."),),
    "multi-instance-sequential": (("null-item", "A task for each item in turn; one item is null."),),
    "multi-instance-sub-process": (("in-turn", "A sub-process for each item in turn."),),
    "nested-sub-processes": (("nested", "A sub-process within a sub-process."),),
    "parallel-gateway": (("joined", "Two tasks run at once and are joined."),),
    "receive-task": (("came", "A receive task gets its message."),),
    "script-task": (("computed", "A script computes a variable."),),
    "send-task": (("sent", "A send task is a job."),),
    "service-task": (("completed", "A service task, as plain as can be."),),
    "several-outgoing-flows": (("split", "Two flows out of one task are two tokens."),),
    "signal-throw": (("broadcast", "A signal goes out to whoever waits for it."),),
    "start-message": (("started", "A message starts the instance."),),
    "start-timer-cycle": (("started", "A cycle starts the instance."),),
    "sub-process": (("mapped", "A sub-process has variables of its own."),),
    "terminate-end": (("terminated", "One path ends the whole instance while another still works."),),
    "timer-catch-duration": (("waited", "Half a second passes."),),
    "user-task": (("approved", "A person completes a task."),),
}


def _played() -> Iterator[tuple[str, Script]]:
    for element, recordings in PLAYED.items():
        for (name, says), play in zip(recordings, PLAYS[element], strict=False):
            files = tuple(files_of(element))
            yield f"{element}/{name}", Script(says, files, play.variables, play.acts, start=play.start)


def _told(element: str, says: str, variables: Mapping[str, Any], *acts: Act, **start: Any) -> Script:
    return Script(says, tuple(files_of(element)), variables, acts, start=start)


TOLD: dict[str, Script] = {
    "service-task/retried-by-hand": _told(
        "service-task",
        "A job fails, a person gives it more tries and resolves the incident, and it is done.",
        {},
        *(failed("work", retries=0), given_retries("work", 2), resolved("work"), done("work", result=1)),
    ),
    "service-task/backed-off": _told(
        "service-task",
        "A worker says that one try is left, in half a second; a variable stays local to the task until it is done.",
        {},
        *(failed("work", retries=1, back_off_ms=500, page=7), fired("work"), done("work", result=1)),
    ),
    "service-task/too-many-elements": _told(
        "service-task", "An instance that may have one activity instance only.", {}, max_activity_instances=1
    ),
    "business-rule-task-required/bounded": _told(
        "business-rule-task-required",
        "An instance is started with bounds of its own for its expressions.",
        {"amount": 250, "tier": "gold", "until": "2026-01-05"},
        feel_limits=(("max_list", 50), ("max_steps", 10_000)),
    ),
    "boundary-error/uncaught": _told(
        "boundary-error",
        "Nothing catches the error; a person resolves the incident and the task is tried again.",
        {},
        *(threw("work", "OTHER"), resolved("work"), done("work")),
    ),
    "exclusive-gateway/incident-resolved": _told(
        "exclusive-gateway",
        "A condition cannot be evaluated; a person mends the variable and resolves the incident.",
        {},
        *(wrote(amount=250), resolved("large"), done("check")),
    ),
    "exclusive-gateway/incident-cancelled": _told(
        "exclusive-gateway", "An instance with an open incident is cancelled.", {}, cancelled()
    ),
    "parallel-gateway/cancelled": _told(
        "parallel-gateway",
        "An instance is cancelled: one job stops, the other one is completed before it hears of it.",
        {},
        *(cancelled(), stopped("first"), completed_late("second", x=1)),
    ),
    "call-activity/aborted": _told("call-activity", "The owner died while a called process ran.", {}, aborted()),
    "sub-process/written-from-outside": _told(
        "sub-process",
        "Variables are written from outside at a sub-process, once local to it and once wherever they are.",
        {"order": "o-7"},
        *(wrote("inner", local=True, note="kept inside"), wrote("inner", part="o-8"), done("inner_work", result="y")),
    ),
    "nested-sub-processes/begun-inside": _told(
        "nested-sub-processes",
        "An instance begins before a task two sub-processes deep.",
        {},
        done("inner_work"),
        start_element_ids=("inner_work",),
    ),
    "link/ended-early": _told(
        "link", "An instance ends after the element that its start names.", {}, done("work"), terminate_after_id="work"
    ),
}


# --- the shipped process -----------------------------------------------------------------------------------------

REQUEST: dict[str, Any] = {
    "operation": "generate",
    "model": "chat",
    "model_version": "",
    "request_bytes": 512,
    "deadline_at": "2026-01-05T09:00:10.000Z",
    "streaming": False,
    "error": None,
    "fallback_model": None,
    "degraded": False,
    "attempts": 0,
}
ADMITTED = done("admit", fallback_model="chat-small", estimated_input_tokens=5, max_output_tokens=64)
ROUTED = (
    done("check_health", candidates=["a", "b"], unhealthy=[]),
    done("route", replica="a", pool="main", route_reason="fewest requests in flight"),
)
SETTLED = done("settle", cost_usd=None, total_tokens=17)


def _refused(attempts: int, code: str = "REPLICA_UNAVAILABLE") -> Act:
    error = {
        "code": code,
        "message": "connection refused",
        "retryable": True,
        "replica": "a",
        "grpc_status": "UNAVAILABLE",
        "retry_after_ms": None,
    }
    return threw("infer", code, attempts=attempts, error=error)


def _served(attempts: int) -> Act:
    return done("infer", attempts=attempts, error=None, served_by="b")


def _request(says: str, *acts: Act) -> Script:
    return Script(says, (SHIPPED,), REQUEST, acts, online=True)


REQUESTS: dict[str, Script] = {
    "inference-request/answered": _request(
        "A request is answered at the first try.", ADMITTED, *ROUTED, _served(1), SETTLED
    ),
    "inference-request/retried": _request(
        "Two attempts fail; the third one, after two back-offs, is answered.",
        *(ADMITTED, *ROUTED, _refused(1), fired("back_off")),
        *(*ROUTED, _refused(2), fired("back_off"), *ROUTED, _served(3), SETTLED),
    ),
    "inference-request/fell-back": _request(
        "The attempts of the model are spent; a smaller model answers, and the answer is marked as degraded.",
        *(ADMITTED, *ROUTED, _refused(1), fired("back_off"), *ROUTED, _refused(2), fired("back_off"), *ROUTED),
        *(_refused(3), done("fall_back", model="chat-small", degraded=True, attempts=0, error=None)),
        *(*ROUTED, _served(1), SETTLED),
    ),
    "inference-request/refused": _request(
        "Admission refuses a request.",
        threw(
            "admit",
            "QUEUE_FULL",
            attempts=0,
            error={"code": "QUEUE_FULL", "message": "64 requests wait", "retryable": True, "retry_after_ms": 250},
        ),
    ),
    "inference-request/deadline": _request(
        "The deadline stops the attempt that runs; what it used is settled.",
        *(ADMITTED, *ROUTED, fired("deadline_reached"), stopped("infer"), SETTLED),
    ),
    "inference-request/cancelled": _request(
        "The client goes away during the attempt.",
        *(ADMITTED, *ROUTED, cancelled("CLIENT_DISCONNECTED"), stopped("infer")),
    ),
    "inference-request/aborted": _request(
        "The process that served the request died during the attempt.", ADMITTED, *ROUTED, aborted()
    ),
    "inference-request/task-fault": _request(
        "A task fails for a reason that no diagram decides on: an incident ends the request.",
        *(ADMITTED, ROUTED[0], failed("route")),
    ),
}

SCRIPTS: dict[str, Script] = {**dict(_played()), **TOLD, **REQUESTS}
