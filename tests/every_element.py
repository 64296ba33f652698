"""Owns one diagram that holds every element, every event and every marker of the dialect.
Never runs: its paths make little sense, and it is valid all the same.
Called by the tests of the dialect, the rules and the picture.
"""

from __future__ import annotations

from engine.bpmn.definition import ElementType, UserTask
from tests import builders
from tests.builders import Diagram, each, expression


def every_element() -> Diagram:
    diagram = Diagram("every_element", version_tag="v1").declares("items", "order", "amount")
    diagram.start()
    _activities(diagram)
    _events(diagram)
    _sub_processes(diagram)
    _gateways(diagram)
    diagram.path("started", "work", "decided", "computed", "sent", "received", "approved", "by_hand", "nothing")
    diagram.path("nothing", "called", "in_turn", "at_once", "a_timer", "a_message", "a_signal", "a_condition")
    diagram.path("a_condition", "a_milestone", "an_escalation", "a_notice", "a_broadcast", "an_undoing", "inner", "any")
    diagram.path("from_there", "stopped")
    for kind in ("late", "told", "signalled", "held", "raised"):
        diagram.path(kind, f"{kind}_ended")
    return diagram


def _activities(diagram: Diagram) -> None:
    diagram.task("work", inputs={"total": "=amount * 2"}, outputs={"result": "=answer"}, headers={"kind": "a"})
    diagram.decide("decided", "price", "price")
    diagram.script("computed", "=price + 1", "sum")
    diagram.node("sent", ElementType.SEND_TASK, topic="sent")
    diagram.receive("received", builders.message("order-paid", "=order"))
    due = UserTask(expression("=order.owner"), expression("clerks"), due_date=expression("2030-01-31T12:00:00Z"))
    diagram.user_task("approved", due)
    diagram.node("by_hand", ElementType.MANUAL_TASK).node("nothing", ElementType.TASK)
    diagram.call("called", "another_process", all_out=False, outputs=builders.mappings({"answer": "=answer"}))
    in_turn = each("=items", "item", sequential=True, into="results", result="=item + 1", until="=loopCounter > 3")
    diagram.task("in_turn", loop=in_turn)
    diagram.call("at_once", "another_process", loop=each("=items", "item"))
    diagram.compensated_by("decided", "undone")


def _events(diagram: Diagram) -> None:
    diagram.catch("a_timer", builders.timer("PT0.5S")).catch("a_message", builders.message("=order.kind", "=order.id"))
    diagram.catch("a_signal", builders.signal("opened")).catch("a_condition", builders.conditional("=amount > 10"))
    diagram.throw("a_milestone").throw("an_escalation", builders.escalation("HIGH"))
    diagram.throw("a_notice", builders.message("done"), topic="a_notice")
    diagram.throw("a_broadcast", builders.signal("closed")).throw("an_undoing", builders.compensation("decided"))
    diagram.throw("to_there", builders.link("there")).catch("from_there", builders.link("there"))
    diagram.end("stopped", event=builders.TERMINATE)
    boundaries = {
        "late": builders.timer('=duration("PT1S")'),
        "told": builders.message("told", "=order"),
        "signalled": builders.signal("hurry"),
        "held": builders.conditional("=amount < 0"),
    }
    for id, event in boundaries.items():
        diagram.boundary("inner", id, event, interrupting=False).end(f"{id}_ended")
    diagram.boundary("called", "failed", builders.error("FAILED")).end("failed_ended", "FAILED")
    diagram.boundary("called", "raised", builders.escalation()).end("raised_ended", event=builders.signal("raised"))
    diagram.path("failed", "failed_ended")


def _sub_processes(diagram: Diagram) -> None:
    diagram.sub_process("inner")
    with diagram.inside("inner"):
        diagram.start("inner_started").task("inner_work").end("inner_ended", event=builders.escalation("LOW"))
        diagram.path("inner_started", "inner_work", "inner_ended")
    starts = {
        "on_error": (builders.error(), True),
        "on_timer": (builders.timer("PT1H"), False),
        "on_message": (builders.message("stop", "=order"), True),
        "on_signal": (builders.signal("news"), False),
        "on_escalation": (builders.escalation("LOW"), False),
        "on_condition": (builders.conditional("=amount = 0"), True),
    }
    for id, (event, interrupting) in starts.items():
        diagram.event_sub_process(id)
        with diagram.inside(id):
            diagram.start(f"{id}_started", event, interrupting=interrupting).end(f"{id}_ended")
            diagram.path(f"{id}_started", f"{id}_ended")


def _gateways(diagram: Diagram) -> None:
    diagram.gateway("any", ElementType.INCLUSIVE_GATEWAY).gateway("any_joined", ElementType.INCLUSIVE_GATEWAY)
    diagram.gateway("all", ElementType.PARALLEL_GATEWAY).gateway("all_joined", ElementType.PARALLEL_GATEWAY)
    diagram.gateway("one").gateway("first", ElementType.EVENT_BASED_GATEWAY)
    diagram.flow("any", "any_joined", "=amount > 1").flow("any", "any_joined", default=True, id="otherwise")
    diagram.path("any_joined", "all", "all_joined").flow("all", "all_joined", id="beside").path("all_joined", "one")
    diagram.flow("one", "to_there", "=amount > 2").flow("one", "first", default=True)
    diagram.wait("waited", "PT1M").catch("heard", builders.message("heard", "=order")).end("waited_ended")
    diagram.path("first", "waited", "waited_ended").path("first", "heard", "waited_ended")
