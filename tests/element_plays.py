"""Owns what happens to an instance of each element diagram, and the way that it has to take.
Never checks it.
Called by the tests of the element diagrams and by the golden logs.
"""

from __future__ import annotations

from pathlib import Path

from tests.acts import Play, came, done, fired, stopped, threw, wrote
from tests.linked import Files, Linked

DIAGRAMS = Path(__file__).parent / "diagrams"
FOLDER = DIAGRAMS / "elements"
CALLED = {
    "business-rule-task": DIAGRAMS / "called" / "discount.dmn",
    "business-rule-task-required": DIAGRAMS / "called" / "offer.dmn",
    "call-activity-version-tag": DIAGRAMS / "called" / "called-process-stable.bpmn",
}


def files_of(name: str) -> list[Path]:
    """The file of an element diagram and those that it calls."""
    return [FOLDER / f"{name}.bpmn", *([CALLED[name]] if name in CALLED else [])]


def linked(name: str) -> Linked:
    return Files(files_of(name)).link()


HOT, ORDER = {"temperature": 90}, {"order_id": "o-7"}
ITEMS = {"items": ["a", None, "c"]}

PLAYS: dict[str, tuple[Play, ...]] = {
    "boundary-conditional-non-interrupting": (
        Play(
            {"temperature": 20},
            (wrote(**HOT), done("react"), done("work")),
            "started happened react reacted work ended",
        ),
    ),
    "boundary-conditional": (
        Play(
            {"temperature": 20},
            (wrote(**HOT), stopped("work"), done("react")),
            "started work:terminated happened react reacted",
        ),
    ),
    "boundary-error-every-code": (
        Play({}, (threw("work", "ANYTHING", why="smoke"), done("react")), "started work:failed happened react reacted"),
    ),
    "boundary-error": (
        Play({}, (threw("work", "BROKEN"), done("react")), "started work:failed happened react reacted"),
        Play({}, (done("work"),), "started work ended"),
    ),
    "boundary-escalation-non-interrupting": (
        Play(
            {},
            (done("inner_work"), done("react")),
            "started inner_started escalated happened inner_work inner_ended inner ended react reacted",
        ),
    ),
    "boundary-escalation": (
        Play(
            {}, (done("react"),), "started inner_started escalated:terminated inner:terminated happened react reacted"
        ),
    ),
    "boundary-message-non-interrupting": (
        Play(
            ORDER,
            (came("happened"), came("happened"), done("react"), done("work"), done("react")),
            "started happened happened react reacted work ended react reacted",
        ),
    ),
    "boundary-message": (
        Play(
            ORDER,
            (came("happened", reason="sold out"), stopped("work"), done("react")),
            "started work:terminated happened react reacted",
        ),
    ),
    "boundary-signal-non-interrupting": (
        Play({}, (came("happened"), done("work"), done("react")), "started happened work ended react reacted"),
    ),
    "boundary-signal": (
        Play({}, (came("happened"), stopped("work"), done("react")), "started work:terminated happened react reacted"),
    ),
    "boundary-timer-cycle-non-interrupting": (
        Play(
            {},
            (fired("happened"), fired("happened"), done("react"), done("react"), done("work")),
            "started happened happened react reacted react reacted work ended",
        ),
    ),
    "boundary-timer-date": (
        Play(
            {"deadline_at": "2030-01-31T12:00:00Z"},
            (fired("happened"), stopped("work"), done("react")),
            "started work:terminated happened react reacted",
        ),
    ),
    "boundary-timer-non-interrupting": (
        Play({}, (fired("happened"), done("react"), done("work")), "started happened react reacted work ended"),
    ),
    "boundary-timer": (
        Play({}, (fired("happened"), stopped("work"), done("react")), "started work:terminated happened react reacted"),
    ),
    "business-rule-task-job": (Play({}, (done("decide", result=1),), "started decide ended"),),
    "business-rule-task-required": (
        Play({"amount": 250, "tier": "gold", "until": "some day"}, (), "started offer ended"),
    ),
    "business-rule-task": (Play({"amount": 250}, (), "started discount ended"),),
    "call-activity-deployment": (
        Play(
            {"question": "why", "secret": 1},
            (done("called_work", answer=42),),
            "started called_started called_work called_ended called-beside call ended",
        ),
    ),
    "call-activity-version-tag": (
        Play(
            {"question": "why"},
            (done("steady_work", answer=42),),
            "started called_started steady_work called_ended called-process call ended",
        ),
    ),
    "call-activity": (
        Play(
            {"question": "why"},
            (done("called_work", answer=42),),
            "started called_started called_work called_ended called-process call ended",
        ),
    ),
    "compensation-end": (
        Play({}, (done("book_hotel"), done("cancel_hotel")), "started book_hotel cancel_hotel undone"),
    ),
    "compensation-sub-process": (
        Play(
            {},
            (done("book_hotel"), done("cancel_hotel")),
            "started trip_started book_hotel trip_ended trip cancel_hotel undo_trip ended",
        ),
    ),
    "compensation-throw-activity": (
        Play(
            {},
            (done("book_hotel"), done("book_car"), done("cancel_hotel")),
            "started book_hotel book_car cancel_hotel undo_hotel ended",
        ),
    ),
    "compensation-throw": (
        Play(
            {},
            (done("book_hotel"), done("book_car"), done("cancel_car"), done("cancel_hotel")),
            "started book_hotel book_car cancel_car cancel_hotel undo_all ended",
        ),
    ),
    "conditional-catch": (
        Play({"temperature": 30}, (wrote(temperature=15), done("after")), "started cool after ended"),
        Play({"temperature": 10}, (done("after"),), "started cool after ended"),
    ),
    "drawing": (Play({}, (done("work"),), "started work ended"),),
    "error-end": (
        Play(
            {},
            (done("inner_work"), done("repair")),
            "started inner_started inner_work failed:failed inner:terminated caught repair repaired",
        ),
    ),
    "escalation-end": (
        Play(
            {},
            (done("inner_work"), done("hurry")),
            "started inner_started inner_work escalated:terminated inner:terminated caught hurry hurried",
        ),
    ),
    "escalation-throw": (
        Play(
            {},
            (done("inform"),),
            "started inner_started escalated informed inner_ended inner ended inform was_informed",
        ),
    ),
    "event-based-gateway": (
        Play(ORDER, (came("paid", amount=12.5),), "started what_first paid was_paid"),
        Play(ORDER, (came("closed"),), "started what_first closed was_closed"),
        Play(ORDER, (fired("waited"),), "started what_first waited gave_up"),
    ),
    "event-sub-process-conditional-non-interrupting": (
        Play(
            {"temperature": 20},
            (wrote(**HOT), done("work"), done("react")),
            "started reaction_started work ended react reaction_ended reaction",
        ),
    ),
    "event-sub-process-conditional": (
        Play(
            {"temperature": 20},
            (wrote(**HOT), stopped("work"), done("react")),
            "started work:terminated reaction_started react reaction_ended reaction",
        ),
    ),
    "event-sub-process-error": (
        Play(
            {},
            (threw("work", "BROKEN"), done("react")),
            "started work:failed reaction_started react reaction_ended reaction",
        ),
    ),
    "event-sub-process-escalation-non-interrupting": (
        Play(
            {},
            (done("react"), done("inner_work")),
            "started inner_started escalated reaction_started react reaction_ended reaction inner_work "
            "inner_ended inner ended",
        ),
    ),
    "event-sub-process-escalation": (
        Play(
            {},
            (done("react"),),
            "started inner_started escalated:terminated inner:terminated reaction_started react "
            "reaction_ended reaction",
        ),
    ),
    "event-sub-process-message-non-interrupting": (
        Play(
            ORDER,
            (came("reaction_started"), came("reaction_started"), done("react"), done("work"), done("react")),
            "started reaction_started reaction_started react reaction_ended reaction work ended react "
            "reaction_ended reaction",
        ),
    ),
    "event-sub-process-message": (
        Play(
            ORDER,
            (came("reaction_started"), stopped("work"), done("react")),
            "started work:terminated reaction_started react reaction_ended reaction",
        ),
    ),
    "event-sub-process-signal-non-interrupting": (
        Play(
            {},
            (came("reaction_started"), done("react"), done("work")),
            "started reaction_started react reaction_ended reaction work ended",
        ),
    ),
    "event-sub-process-signal": (
        Play(
            {},
            (came("reaction_started"), stopped("work"), done("react")),
            "started work:terminated reaction_started react reaction_ended reaction",
        ),
    ),
    "event-sub-process-timer-non-interrupting": (
        Play(
            {},
            (fired("reaction_started"), fired("reaction_started"), done("react"), done("work"), done("react")),
            "started reaction_started reaction_started react reaction_ended reaction work ended react "
            "reaction_ended reaction",
        ),
    ),
    "event-sub-process-timer": (
        Play(
            {},
            (fired("reaction_started"), stopped("work"), done("react")),
            "started work:terminated reaction_started react reaction_ended reaction",
        ),
        Play({}, (done("work"),), "started work ended"),
    ),
    "exclusive-gateway": (
        Play({"amount": 250}, (done("check"),), "started large check decided ended"),
        Play({"amount": 50}, (done("accept"),), "started large accept decided ended"),
    ),
    "inclusive-gateway": (
        Play({"paper": True, "letter": True}, (done("mail"), done("print")), "started wanted mail print joined ended"),
        Play({"paper": False, "letter": False}, (done("archive"),), "started wanted archive joined ended"),
    ),
    "input-output-mappings": (Play({"price": 1.25, "count": 4}, (done("work", receipt="r-1"),), "started work ended"),),
    "link": (Play({}, (done("work"), done("finish")), "started work to_the_end from_before finish ended"),),
    "manual-task": (Play({}, (), "started phone_customer ended"),),
    "message-catch": (Play(ORDER, (came("paid", amount=12.5), done("after")), "started paid after ended"),),
    "message-end": (Play({}, (done("work"), done("notify")), "started work notify"),),
    "message-throw": (Play({"greeting": "hello"}, (done("notify"), done("after")), "started notify after ended"),),
    "multi-instance-call-activity": (
        Play(
            ITEMS,
            (done("called_work", answer=1), done("called_work", answer=2), done("called_work", answer=3)),
            "started called_started called_started called_started called_work called_ended called-for-each "
            "call called_work called_ended called-for-each call called_work called_ended called-for-each "
            "call call ended",
        ),
    ),
    "multi-instance-completion-condition": (
        Play(
            ITEMS | {"found": False},
            (done("work", found=True), stopped("work"), stopped("work")),
            "started work work:terminated work:terminated work ended",
        ),
    ),
    "multi-instance-parallel": (
        Play(
            ITEMS,
            (done("work", result=1), done("work", result=2), done("work", result=3)),
            "started work work work work ended",
        ),
    ),
    "multi-instance-sequential": (
        Play(
            ITEMS,
            (done("work", result=1), done("work", result=2), done("work", result=3)),
            "started work work work work ended",
        ),
    ),
    "multi-instance-sub-process": (
        Play(
            {"items": [1, 2]},
            (done("pick"), done("pack")) * 2,
            "started each_started pick pack each_ended each_item each_started pick pack each_ended each_item "
            "each_item ended",
        ),
    ),
    "nested-sub-processes": (
        Play(
            {},
            (done("inner_work"),),
            "started outer_started inner_started inner_work inner_ended inner outer_ended outer ended",
        ),
    ),
    "none-throw": (Play({}, (done("after"),), "started half_way after ended"),),
    "parallel-gateway": (Play({}, (done("second"), done("first")), "started split second first joined ended"),),
    "receive-task": (Play(ORDER, (came("await_payment"),), "started await_payment ended"),),
    "script-task-job": (Play({}, (done("transform"),), "started transform ended"),),
    "script-task": (Play({"price": 19.99}, (), "started add_tax ended"),),
    "send-task": (Play({}, (done("send_offer"),), "started send_offer ended"),),
    "service-task": (Play({}, (done("work", result=1),), "started work ended"),),
    "several-outgoing-flows": (
        Play({}, (done("work"), done("second"), done("first")), "started work second second_ended first first_ended"),
    ),
    "several-starts": (
        Play({}, (done("work"),), "started work ended"),
        Play({"order": 1}, (done("work"),), "ordered work ended", {"start_event_id": "ordered"}),
        Play({}, (done("work"),), "opened work ended", {"start_event_id": "opened"}),
    ),
    "signal-catch": (Play({}, (came("opened"), done("after")), "started opened after ended"),),
    "signal-end": (Play({}, (done("work"),), "started work announced"),),
    "signal-throw": (Play({"headline": "rain"}, (done("after"),), "started announced after ended"),),
    "start-message": (
        Play({"order": {"id": 7}}, (done("work"),), "ordered work ended", {"start_event_id": "ordered"}),
    ),
    "start-signal": (Play({}, (done("work"),), "opened work ended", {"start_event_id": "opened"}),),
    "start-timer-cron": (Play({}, (done("work"),), "began work ended", {"start_event_id": "began"}),),
    "start-timer-cycle": (Play({}, (done("work"),), "began work ended", {"start_event_id": "began"}),),
    "start-timer-date": (Play({}, (done("work"),), "began work ended", {"start_event_id": "began"}),),
    "sub-process": (
        Play(
            {"order": "o-7"},
            (done("inner_work", result="packed"),),
            "started inner_started inner_work inner_ended inner ended",
        ),
    ),
    "task": (Play({}, (), "started think ended"),),
    "terminate-end": (Play({}, (done("first"), stopped("second")), "started split first stopped second:terminated"),),
    "timer-catch-date": (
        Play({"due_at": "2030-01-31T12:00:00Z"}, (fired("waited"), done("after")), "started waited after ended"),
    ),
    "timer-catch-duration": (Play({}, (fired("waited"), done("after")), "started waited after ended"),),
    "user-task-job": (Play({}, (done("approve", approved=True),), "started approve ended"),),
    "user-task": (
        Play(
            {"owner": "ada", "remind_at": "2030-01-30T12:00:00Z"},
            (done("approve", approved=True),),
            "started approve ended",
        ),
    ),
}
