"""What `conch explain` says: of money only what is paid for, of steps what a reader has to know."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from engine.api.narrative import _usage, tell, walked
from engine.records import DefinitionRef, Start, Tags
from engine.store.command_log import LoggedCommand
from engine.store.queries import StoredInstance

AT = datetime(2030, 1, 31, tzinfo=UTC)


def usage(quantity: int, cost_usd: str | None, *, billable: bool) -> dict[str, Any]:
    fact = {"kind": "usage", "sku": "input_tokens", "quantity": Decimal(quantity), "billable": billable}
    return fact if cost_usd is None else fact | {"cost_usd": Decimal(cost_usd)}


def told(*facts: dict[str, Any]) -> list[str]:
    nothing: Any = None
    return list(_usage(StoredInstance(1, nothing, nothing, (), facts)))


def test_a_failed_attempt_that_nobody_pays_for_is_no_part_of_the_cost() -> None:
    assert told(usage(9, "0.9", billable=False), usage(4, "0.4", billable=True)) == [
        "Used: 4 input tokens; it cost 0.4 USD.",
        "Used by attempts that nobody pays for: 9 input tokens.",
    ]
    assert told(usage(9, "0.9", billable=False)) == [
        "Nothing billable was used.",
        "Used by attempts that nobody pays for: 9 input tokens.",
    ]


def test_an_unknown_price_is_not_a_cost_of_nothing() -> None:
    assert told(usage(4, None, billable=True)) == ["Used: 4 input tokens; it has no price."]
    assert told(usage(4, None, billable=True), usage(1, "0.1", billable=True)) == [
        "Used: 5 input tokens; it cost 0.1 USD, 1 line without a price."
    ]
    assert told() == ["Nothing billable was used."]


# --- steps ------------------------------------------------------------------------------------------------------


def ended(element_id: str, element_type: str, key: int, **more: Any) -> dict[str, Any]:
    fact = {"kind": "activity", "element_id": element_id, "element_name": element_id.capitalize(), "state": "completed"}
    return fact | {"element_type": element_type, "activity_instance_key": key, "duration_us": 1_500} | more


def instance(*facts: dict[str, Any]) -> StoredInstance:
    definition = DefinitionRef(1, "orders", 3, "00")
    start = Start(7, definition, "0.1.0", "", Tags(), {}, online=False, business_id="order-12")
    return StoredInstance(7, definition, start, (LoggedCommand(1, 1_896_048_000_000_000, start),), facts)


ITEMS = [ended("each", "SERVICE_TASK", 10 + n, scope_key=30) for n in range(3)]
BODY = ended("each", "MULTI_INSTANCE_BODY", 30, duration_us=2_000, taken_flow_ids=["out"])


def test_an_instance_that_is_no_request_is_told_as_what_it_is() -> None:
    first, *_, last = tell(instance())
    assert first == (
        "Process orders version 3 was started as instance 7, business id order-12 at 2030-01-31 00:00:00.000000 UTC "
        "by tenant default for product none, feature none."
    )
    assert last == "It has not ended yet."


def test_each_kind_of_step_has_its_words_and_what_only_passes_a_token_has_none() -> None:
    kinds = ["START_EVENT", "USER_TASK", "CALL_ACTIVITY", "PARALLEL_GATEWAY", "INTERMEDIATE_THROW_EVENT", "END_EVENT"]
    told = tell(instance(*(ended(f"step{n}", kind, n) for n, kind in enumerate(kinds))))[1:-1]
    assert told[:3] == [
        "“Step1” was done by a person after 1.5 ms.",
        "“Step2” came back from the called process after 1.5 ms.",
        "“Step4” was reached.",
    ]


def test_what_a_decision_gave_is_told_by_its_kind_where_it_is_no_word() -> None:
    def chosen(chosen: str | None, result: Any) -> str:
        made = {"kind": "decision", "activity_instance_key": 7, "element_id": "choose", "reason": "matched rule_1"}
        made |= {"decision": "limit", "chosen": chosen, "details": {"result": result}}
        (line,) = (each for each in tell(instance(made, ended("choose", "BUSINESS_RULE_TASK", 7))) if "chose" in each)
        return line

    assert chosen(None, {"a": 1}) == "“Choose” chose an object: matched rule_1."
    assert chosen(None, [1, 2]) == "“Choose” chose a list of 2: matched rule_1."
    assert chosen(None, None) == "“Choose” chose nothing: matched rule_1."
    assert chosen("gold", "gold") == "“Choose” chose gold: matched rule_1."


def test_a_multi_instance_is_told_once_however_many_items_it_had() -> None:
    inside = ended("inside", "SERVICE_TASK", 20, scope_key=10)
    told = tell(instance(inside, *ITEMS, BODY))
    assert [each for each in told if "Each" in each or "Inside" in each] == [
        "“Each” ran for each of its items, in 2.0 ms together."
    ]


def test_an_item_that_failed_is_told() -> None:
    failed = ended("each", "SERVICE_TASK", 10, scope_key=30, state="failed", error_code="X", message="no")
    assert "“Each” ended without completing after 1.5 ms: X, no." in tell(instance(failed, BODY))


def test_a_step_of_a_called_process_says_whose_it_is_and_is_not_on_the_callers_picture() -> None:
    step = ended("work", "SERVICE_TASK", 10, scope_key=8, called_process_id="ship", taken_flow_ids=["flow"])
    stored = instance(step, ended("call", "CALL_ACTIVITY", 9))
    assert "“Work” of the called process “ship” took 1.5 ms." in tell(stored)
    assert walked(stored) == ({"call": (1, 1_500)}, {}, frozenset())


def test_on_the_picture_a_multi_instance_ran_once_for_each_item_and_as_long_as_all_of_them() -> None:
    assert walked(instance(*ITEMS, BODY)) == ({"each": (3, 2_000)}, {"out": 1}, frozenset())
    assert walked(instance(BODY)) == ({"each": (0, 2_000)}, {"out": 1}, frozenset())


# --- what happens while an instance goes on ----------------------------------------------------------------------


def between(kind: str, key: int | None, element_id: str | None = None, **more: Any) -> dict[str, Any]:
    fact = {"kind": kind, "activity_instance_key": key, "element_id": element_id, "recorded_at": AT} | more
    return {name: value for name, value in fact.items() if value is not None}


def failure(try_no: int, retries: int, again_in_us: int | None = None) -> dict[str, Any]:
    again = {} if again_in_us is None else {"again_at_us": round(AT.timestamp()) * 1_000_000 + again_in_us}
    said = {"attempt_no": try_no, "error_code": "NO_PAPER", "message": "the tray is empty"}
    return between("job_failed", 5, "work", **said, details={"retries": retries, **again})


def test_a_task_that_was_done_at_the_second_try_is_told_with_the_first() -> None:
    assert tell(instance(failure(1, 2, 250_000), ended("work", "SERVICE_TASK", 5)))[1:3] == [
        "“Work” failed at try 1: NO_PAPER, the tray is empty; the next try was due 250 ms later, with 2 tries left.",
        "“Work” took 1.5 ms.",
    ]


def test_a_task_whose_tries_are_spent_is_told_with_who_helped() -> None:
    incident = between("incident", 5, "work", error_code="NO_RETRIES_LEFT", message="NO_PAPER", incident_key=9)
    resolved = between("incident_ended", 5, "work", state="resolved", incident_key=9)
    given = between("retries_set", 5, "work", details={"retries": 1})
    assert tell(instance(failure(3, 0), incident, given, resolved))[1:5] == [
        "“work” failed at try 3: NO_PAPER, the tray is empty; it was not tried again by itself.",
        "An incident was raised: NO_RETRIES_LEFT, NO_PAPER.",
        "Somebody outside gave the job of “work” 1 try.",
        "The incident of “work” was resolved.",
    ]


def test_events_and_what_was_written_from_outside_are_told_with_the_names_of_variables() -> None:
    paid = {"event": "message", "name": "payment", "correlation_key": "o-7", "event_key": "1"}
    news = {"event": "signal", "name": "news", "event_key": "2"}
    told = tell(
        instance(
            between("event_received", 5, "paid", details=paid, variables={"amount": 5, "currency": "EUR"}),
            between("event_received", None, "alarmed", details=news),
            between("signal_thrown", 6, "tell", details=news, variables={"what": "rain"}),
            between("variables_set", None, variables={"a": 1}),
            between("variables_set", 5, "paid", variables={"b": 2}, details={"local": True}),
        )
    )
    assert told[1:6] == [
        "The message “payment” for “o-7” reached “paid” with amount, currency.",
        "The signal “news” reached “alarmed” with nothing.",
        "“tell” threw the signal “news” with what.",
        "Somebody outside wrote a.",
        "Somebody outside wrote b at “paid”, for that step alone.",
    ]
