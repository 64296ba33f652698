"""Embedded, event and called sub-processes: scopes, what ends them, what interrupts them, what leaves them."""

from __future__ import annotations

import pytest

from engine.bpmn.definition import ElementType
from engine.bpmn.spiff import Program
from engine.errors import Rejected
from engine.records import ActivityEnded, Cancel, IncidentRaised, VariablesSet
from tests.builders import TERMINATE, Diagram, error, escalation, mappings, message, signal, timer
from tests.driven import Driven


def nested(**fields: object) -> Diagram:
    """started -> sub (inner_started -> work -> inner_ended) -> after -> ended"""
    diagram = (
        Diagram().start().sub_process("sub", **fields).task("after").end().path("started", "sub", "after", "ended")
    )
    with diagram.inside("sub"):
        diagram.start("inner_started").task("work").end("inner_ended").path("inner_started", "work", "inner_ended")
    return diagram


def test_a_sub_process_goes_on_when_its_last_token_has_ended() -> None:
    run = Driven(nested())
    assert run.open == ["sub", "work"]
    run.done("work")

    assert run.open == ["after"]
    inner, sub = (next(e for e in run.facts(ActivityEnded) if e.element_id == each) for each in ("work", "sub"))
    assert inner.scope_key == sub.activity_instance_key
    assert sub.scope_key is None
    run.replayed()


def test_variables_that_a_sub_process_declares_stay_inside_and_others_reach_the_process() -> None:
    run = Driven(nested(inputs=mappings({"mine": "=1"}), outputs=mappings({"kept": "=mine + 1"})))
    run.done("work", {"mine": 7, "theirs": 2})

    assert run.instance.variables == {"theirs": 2, "kept": 8}


def guarded(event: object, *, interrupting: bool = True) -> Diagram:
    diagram = nested().boundary("sub", "border", event, interrupting=interrupting).task("handle").end("handled")  # type: ignore[arg-type]
    return diagram.path("border", "handle", "handled")


def test_an_interrupting_boundary_event_ends_what_is_inside_before_its_path_begins() -> None:
    run = Driven(guarded(timer("PT1M")))
    run.fire()
    assert len(run.step.stop) == 1
    assert run.open == ["sub", "work"]
    run.stopped("work")

    assert run.open == ["handle"]
    assert {"work:terminated", "sub:terminated", "border:completed"} <= set(run.path)
    run.replayed()


def test_a_non_interrupting_boundary_event_runs_beside_what_is_inside() -> None:
    run = Driven(guarded(message("hint", '="x"'), interrupting=False))
    run.receive("border")
    run.receive("border")
    assert run.open == ["sub", "handle", "handle", "work"]
    run.done("work")
    for element_id in ("after", "handle", "handle"):
        run.done(element_id)

    assert run.outcome.state == "completed"
    run.replayed()


def test_an_error_inside_is_caught_at_the_border() -> None:
    run = Driven(guarded(error("BROKEN")))
    run.throw("BROKEN", {"why": "it broke"})

    assert run.open == ["handle"]
    assert "work:failed" in run.path
    assert run.instance.variables["why"] == "it broke"


def test_the_nearest_catch_wins_and_a_code_before_a_catch_all() -> None:
    diagram = guarded(error())
    with diagram.inside("sub"):
        diagram.on_error("work", "exact", "BROKEN").on_error("work", "every").end("e1").end("e2")
        diagram.path("exact", "e1").path("every", "e2")
    for code, caught in (("BROKEN", "exact"), ("OTHER", "every")):
        run = Driven(diagram)
        run.throw(code)
        assert f"{caught}:completed" in run.path
        assert "border:completed" not in run.path


def test_an_error_end_event_ends_the_sub_process_and_all_that_still_runs_in_it() -> None:
    diagram = guarded(error("BROKEN"))
    with diagram.inside("sub"):
        diagram.task("other").end("broken", "BROKEN").path("inner_started", "other", "broken")
    run = Driven(diagram)
    run.done("other")
    assert run.open == ["sub", "work"]
    run.stopped("work")

    assert run.open == ["handle"]
    assert "broken:failed" in run.path
    run.replayed()


def test_an_error_that_nothing_catches_is_an_incident() -> None:
    run = Driven(guarded(error("OTHER")), online=False)
    run.throw("BROKEN")

    (incident,) = run.instance.open_incidents
    assert (incident.element_id, incident.error_code) == ("work", "UNHANDLED_BPMN_ERROR")


@pytest.mark.parametrize("interrupting", [True, False])
def test_an_escalation_is_caught_at_the_border_and_goes_on_inside_unless_it_interrupts(interrupting: bool) -> None:
    diagram = nested().boundary("sub", "border", escalation("HELP"), interrupting=interrupting)
    diagram.end("told").path("border", "told")
    with diagram.inside("sub"):
        diagram.throw("tell", escalation("HELP")).task("more").end("e").path("inner_started", "tell", "more", "e")
    run = Driven(diagram)

    assert "border:completed" in run.path or interrupting
    if interrupting:
        run.stopped("work")
        assert run.outcome[:2] == ("completed", "told")
        assert "tell:terminated" in run.path
    else:
        assert run.open == ["sub", "work", "more"]
    run.replayed()


def test_an_escalation_that_nothing_catches_changes_nothing() -> None:
    diagram = Diagram().start().throw("tell", escalation("HELP")).end("e", event=escalation("ALSO"))
    run = Driven(diagram.path("started", "tell", "e"))

    assert run.outcome[:2] == ("completed", "e")


def test_a_terminate_end_event_ends_its_scope_and_no_more() -> None:
    diagram = nested()
    with diagram.inside("sub"):
        diagram.task("quick").end("stop", event=TERMINATE).path("inner_started", "quick", "stop")
    run = Driven(diagram)
    run.done("quick")
    run.stopped("work")

    assert run.open == ["after"]
    assert "sub:completed" in run.path


def test_a_terminate_end_event_of_the_process_completes_it() -> None:
    diagram = Diagram().start().task("a").task("b").end("stop", event=TERMINATE).end("e")
    diagram.path("started", "a", "stop").path("started", "b", "e")
    run = Driven(diagram)
    run.done("a")
    run.stopped("b")

    assert run.outcome[:3] == ("completed", "stop", None)


# --- event sub-processes ----------------------------------------------------------------------------------------


def reacting(event: object, *, interrupting: bool = True) -> Diagram:
    diagram = nested()
    with diagram.inside("sub"):
        diagram.event_sub_process("reaction")
    with diagram.inside("reaction"):
        diagram.start("reacted", event, interrupting=interrupting).task("react").end("done")  # type: ignore[arg-type]
        diagram.path("reacted", "react", "done")
    return diagram


def test_an_interrupting_event_sub_process_replaces_what_is_inside() -> None:
    run = Driven(reacting(message("stop", '="x"')))
    assert run.waiting == ["reacted", "work"]
    run.receive("reacted", {"why": "asked"})
    run.stopped("work")
    assert run.open == ["sub", "reaction", "react"]
    assert run.instance.open_subscriptions == ()
    run.done("react")

    assert run.open == ["after"]
    assert run.instance.variables["why"] == "asked"
    run.replayed()


def test_a_non_interrupting_event_sub_process_runs_each_time_and_its_scope_waits_for_it() -> None:
    run = Driven(reacting(signal("hint"), interrupting=False))
    run.receive("reacted")
    run.receive("reacted")
    run.done("work")
    assert run.open == ["sub", "reaction", "reaction", "react", "react"]
    run.done("react")
    run.done("react")

    assert run.open == ["after"]
    assert run.instance.open_subscriptions == ()


def test_an_unfired_event_sub_process_keeps_nobody_waiting() -> None:
    run = Driven(reacting(timer("PT1H")))
    run.done("work")

    assert run.open == ["after"]
    assert len(run.step.disarm) == 1


def test_a_cycle_fires_a_non_interrupting_event_sub_process_as_often_as_it_says() -> None:
    from engine.bpmn.definition import TimerKind

    run = Driven(reacting(timer("R3/PT10S", TimerKind.CYCLE), interrupting=False))
    for _ in range(3):
        run.fire("reacted")

    assert run.instance.open_timers == ()
    assert run.open.count("react") == 3


def test_an_error_event_sub_process_catches_what_its_scope_throws_but_not_what_it_throws_itself() -> None:
    diagram = reacting(error("BROKEN"))
    run = Driven(diagram, online=False)
    run.throw("BROKEN")
    assert run.open == ["sub", "reaction", "react"]
    run.throw("BROKEN")

    assert [incident.element_id for incident in run.instance.open_incidents] == ["react"]


def test_an_event_sub_process_of_the_process_itself_may_end_the_instance() -> None:
    diagram = Diagram().start().task("work").end().path("started", "work", "ended").event_sub_process("reaction")
    with diagram.inside("reaction"):
        diagram.start("failed", error()).end("repaired").path("failed", "repaired")
    run = Driven(diagram)
    run.throw("ANY")

    assert run.outcome[:2] == ("completed", "repaired")
    run.replayed()


# --- call activities --------------------------------------------------------------------------------------------


def called(*, all_in: bool = True, all_out: bool = True, **fields: object) -> Driven:
    child = Diagram("child").start("child_started").task("child_work").end("child_ended")
    child.path("child_started", "child_work", "child_ended")
    parent = Diagram().start().call("call", "child", all_in=all_in, all_out=all_out, **fields).task("after").end()
    parent.on_error("call", "border", "BROKEN").end("handled").path("border", "handled")
    parent.path("started", "call", "after", "ended")
    return Driven(Program(parent.build(), {"call": Program(child.build())}), {"given": 1})


def test_a_called_process_is_an_instance_of_its_own_within_the_log_of_its_caller() -> None:
    run = called()
    opened = {each.element_id: each for each in run.instance.open_activities}
    child = opened["child"]
    assert child.element_type == ElementType.PROCESS
    assert opened["child_work"].process_instance_key == child.key != run.instance.key
    assert run.job.process_id == "child"
    run.done("child_work", {"made": 2})

    assert run.open == ["after"]
    assert run.instance.variables == {"given": 1, "made": 2}
    ended = next(each for each in run.facts(ActivityEnded) if each.element_type == "PROCESS")
    assert (ended.element_id, ended.process_id, ended.state) == ("child", "child", "completed")
    run.replayed()


def test_a_called_process_sees_only_the_inputs_where_it_shall_not_see_all() -> None:
    run = called(all_in=False, inputs=mappings({"mine": "=given + 1"}))

    assert dict(run.job.variables) == {"mine": 2}


def test_a_caller_gets_only_the_outputs_where_it_shall_not_get_all() -> None:
    run = called(all_out=False, outputs=mappings({"kept": "=made"}))
    run.done("child_work", {"made": 2, "scrap": 3})
    assert run.instance.variables == {"given": 1, "kept": 2}
    run = called(all_out=False)
    run.done("child_work", {"made": 2})

    assert run.instance.variables == {"given": 1}


def test_an_error_of_a_called_process_is_caught_by_its_caller() -> None:
    run = called()
    run.throw("BROKEN")

    assert run.outcome[:2] == ("completed", "handled")
    assert {"child:terminated", "call:terminated", "child_work:failed"} <= set(run.path)
    run.replayed()


def test_cancelling_an_instance_ends_what_it_called() -> None:
    run = called()
    run.do(Cancel(run.key, "CANCELLED", "asked"))
    run.stopped("child_work")

    assert run.outcome.state == "terminated"
    assert "child:terminated" in run.path


# --- writing from outside ---------------------------------------------------------------------------------------


def test_variables_can_be_set_at_an_activity_or_where_they_are() -> None:
    run = Driven(nested(inputs=mappings({"mine": "=1"})), {"theirs": 1})
    sub, work = run.instance.open_activities
    run.set({"mine": 2, "theirs": 2, "new": 2}, work.key)
    assert run.instance.scopes == {run.instance.key: {"theirs": 2, "new": 2}, sub.key: {"mine": 2}}
    run.do(VariablesSet(run.key, work.key, {"theirs": 3}, True))

    assert run.instance.scopes[work.key] == {"theirs": 3}
    assert run.instance.variables["theirs"] == 2
    run.replayed()


# --- where to begin and to end ----------------------------------------------------------------------------------


def test_an_instance_can_begin_before_an_element_inside_a_sub_process_and_end_after_it() -> None:
    run = Driven(nested(), online=False, start_element_ids=("work",), terminate_after_id="work")
    assert run.open == ["sub", "work"]
    assert "inner_started:completed" not in run.path
    run.done("work")

    assert run.outcome.state == "terminated"
    assert "work:completed" in run.path
    assert "sub:terminated" in run.path
    assert run.facts(IncidentRaised) == []
    run.replayed()


def test_an_element_of_a_called_process_is_not_the_one_after_which_the_instance_ends() -> None:
    called = Diagram("called").start().task("work").end().path("started", "work", "ended")
    caller = Diagram().start().call("call", "called").task("work").task("after").end()
    program = Program(
        caller.path("started", "call", "work", "after", "ended").build(), {"call": Program(called.build())}
    )
    run = Driven(program, online=False, terminate_after_id="work")
    run.done("work")
    assert run.open == ["work"]
    run.done("work")

    assert run.outcome.state == "terminated"
    assert run.path[-1] == "work:completed"
    run.replayed()


def test_why_an_instance_was_cancelled_stays_when_its_last_element_ends() -> None:
    run = Driven(nested(), online=False, terminate_after_id="work")
    run.do(Cancel(run.key, "DEADLINE_EXCEEDED", "too late"))
    run.stopped("work")

    assert run.outcome.error is not None
    assert run.outcome.error["code"] == "DEADLINE_EXCEEDED"
    run.replayed()


def test_a_process_that_only_a_message_starts_cannot_be_called() -> None:
    inner = Diagram("inner").start("ordered", message("order")).end().path("ordered", "ended")
    middle = Diagram("middle").start().call("fetch", "inner").end().path("started", "fetch", "ended")
    outer = Diagram().start().call("call", "middle").end().path("started", "call", "ended")
    called = Program(middle.build(), {"fetch": Program(inner.build())})

    with pytest.raises(Rejected, match="`fetch` calls `inner`, which has no start event without a symbol"):
        Driven(Program(outer.build(), {"call": called}))
