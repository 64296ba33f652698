"""The encoders of the store without a database: exact JSON, exact commands, binary fields, one canonical form."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bpmn.spiff import Program
from engine.core.instance import ProcessInstance
from engine.core.replay import derive_records
from engine.errors import Rejected
from engine.records import (
    Abort,
    ActivityEnded,
    BpmnErrorThrown,
    CallTarget,
    Cancel,
    Command,
    DefinitionRef,
    EventReceived,
    EventTaken,
    IncidentEnded,
    IncidentResolved,
    InstanceEnded,
    JobCompleted,
    JobFailed,
    JobStopped,
    Record,
    RetriesGiven,
    RetriesSet,
    SignalThrown,
    Start,
    Step,
    TimerFired,
    TryFailed,
    VariablesSet,
    VariablesWritten,
)
from engine.store import binary, command_log, json_text
from engine.store.canonical import CanonicalRow, canonical_bytes, differences, rows_from_records
from engine.store.columns import COLUMNS, SAYS
from engine.store.encoding import EncodedRow, InstanceContext, encode_commands, encode_fact
from engine.store.schema import record
from tests.audit_samples import Life, job_report, keys, live, operational
from tests.builders import Diagram, start_command
from tests.driven import AT
from tests.golden.rows import REPEATED, readable

numbers = st.integers() | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def test_the_encoded_columns_are_the_tables_columns_in_order() -> None:
    assert tuple(record.c.keys()) == COLUMNS


@given(values)
def test_json_comes_back_with_exactly_the_numbers_that_went_in(value: Any) -> None:
    assert json_text.loads(json_text.dumps(value)) == value


@given(values)
def test_the_canonical_form_does_not_depend_on_how_it_was_written(value: Any) -> None:
    once = json_text.canonical(json_text.dumps(value))
    assert json_text.canonical(once) == once
    if isinstance(value, dict):
        assert json_text.canonical(json_text.dumps(dict(reversed(value.items())))) == once


@pytest.mark.parametrize(
    ("number", "written"),
    [("1.50", "1.50"), ("1E+2", "100"), ("1E-7", "0.0000001"), ("-0", "0"), ("-0.0", "0.0"), ("-2.5", "-2.5")],
)
def test_numbers_are_written_as_postgres_prints_them(number: str, written: str) -> None:
    assert json_text.dumps(Decimal(number)) == written.encode()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1E+7000"])
def test_what_is_no_number_is_refused(number: str) -> None:
    with pytest.raises(TypeError):
        json_text.dumps([Decimal(number)])


@pytest.mark.parametrize("poison", ["\0", "a\ud83d", {"\0": 1}, [{"x": ("\0",)}], [2**70, "\udc00"]])
def test_poison_is_found_at_any_depth_and_cleaned(poison: Any) -> None:
    with pytest.raises(json_text.Poison):
        json_text.dumps(poison)
    assert "\ufffd" in json_text.loads(json_text.dumps(json_text.clean(poison))).__repr__()


def start_of_all() -> Start:
    """A Start that says everything that one can."""
    start = live(keys()).records[0].body
    assert isinstance(start, Start)
    calls = (
        CallTarget("ab" * 32, "call", DefinitionRef(8, "called", 3, "cd" * 32)),
        CallTarget("cd" * 32, "decide", DefinitionRef(9, "decision", 1, "ef" * 32)),
    )
    return start._replace(
        calls=calls,
        business_id="order-7",
        start_event_id="ordered",
        start_element_ids=("one", "two"),
        terminate_after_id="two",
        feel_limits=(("max_list", 800), ("max_steps", 50_000)),
    )


def commands() -> list[Command]:
    report = job_report("infer", 1_700_000_000_000_000, 2)
    failed = job_report("infer", 1_700_000_000_000_000, 1, outcome="error")
    routed = job_report("route", 1_700_000_000_000_000, 1)
    variables = {"a": Decimal("0.10"), "b": [1, {"c": None}], "d": 2**80}
    return [
        live(keys()).records[0].body,  # type: ignore[list-item]
        JobCompleted(1, 2, variables, report),
        start_of_all(),
        start_of_all()._replace(calls=(), business_id=None, start_element_ids=(), terminate_after_id=""),
        JobFailed(1, 2, "TASK_FAULT", "Ärger", False, failed),
        JobFailed(1, 2, "TASK_FAULT", "Ärger", False, failed, 0),
        JobFailed(1, 2, "TASK_FAULT", "Ärger", False, failed, None, 5_000, variables),
        BpmnErrorThrown(1, 2, "X", "", {}, routed),
        JobStopped(1, 2, report),
        TimerFired(1, 2),
        EventReceived(1, 2, 3, variables),
        VariablesSet(1, 2, variables),
        VariablesSet(1, 2, {}, True),
        RetriesSet(1, 2, 3),
        IncidentResolved(1, 2),
        Cancel(1, "CANCELLED", "by hand"),
        Abort(1, "the owner is gone"),
    ]


@pytest.mark.parametrize("command", commands(), ids=lambda command: type(command).__name__)
def test_every_command_comes_back_as_it_went_in(command: Command) -> None:
    as_jsonb = json_text.canonical(command_log.pack([command_log.encode(command, 5), command_log.encode(command, 6)]))
    payload = json_text.loads(as_jsonb)
    first, second = command_log.unpack(3, payload)
    assert (first.ordinal, first.at_us, second.ordinal, second.at_us) == (3, 5, 4, 6)
    assert first.command == second.command == command
    assert type(first.command) is type(command)
    assert command_log.encode(first.command, 5) == command_log.encode(command, 5)


@pytest.mark.parametrize(
    "payload",
    [[["party", 1]], [["timer_fired", 1, 2]], [["timer_fired", 1, 2, 3, 4]], [["job_stopped", 1, 2, 3, [1, 2]]]],
)
def test_what_is_no_command_is_refused(payload: Any) -> None:
    with pytest.raises(ValueError, match="not a command"):
        command_log.unpack(1, payload)


def test_a_start_that_was_stored_before_it_said_its_limit_reads_with_the_limit_of_then() -> None:
    start = start_command(Diagram().start().end().path("started", "ended").build(), max_activity_instances=7)
    payload = json_text.loads(command_log.pack([command_log.encode(start, 5)]))
    assert command_log.unpack(1, payload)[0].command == start
    assert payload[0].pop() == 7
    assert command_log.unpack(1, payload)[0].command == start._replace(max_activity_instances=500)


STORED_BY_SCHEMA_1 = [
    b'["start",5,1000,[7,"process",1,"ab"],"0.1.0","01890000-0000-7000-8000-000000000000",'
    b'["acme","none","none","normal",30000],{"a":[1,null]},true,500]',
    b'["job_failed",6,1,2,"TASK_FAULT","lost",false,[1,2,3,[],[],[]]]',
]


@pytest.mark.parametrize("stored", STORED_BY_SCHEMA_1)
def test_what_the_first_schema_stored_is_read_and_written_again_byte_for_byte(stored: bytes) -> None:
    (logged,) = command_log.unpack(1, json_text.loads(command_log.pack([stored])))
    assert command_log.encode(logged.command, logged.at_us) == stored


def test_a_field_that_was_added_later_is_not_written_while_it_says_nothing() -> None:
    usual = start_of_all()._replace(calls=[], business_id=None, start_element_ids=[], feel_limits=[])  # type: ignore[arg-type]
    written = json_text.loads(command_log.encode(usual._replace(start_event_id=None, terminate_after_id=None), 5))
    assert len(written) == 2 + Start._fields.index("calls")
    assert json_text.loads(command_log.encode(usual._replace(terminate_after_id=None), 5))[-1] == "ordered"


def test_a_row_of_an_older_schema_agrees_with_what_its_commands_mean() -> None:
    life = live(keys())
    rows = rows_from_records(life.context, life.records)
    version = SAYS.index("schema_version")
    older = [row._replace(fields=(*row.fields[:version], b"\0\1", *row.fields[version + 1 :])) for row in rows]
    assert older != rows
    assert differences(life.key, older, rows) == []


def column(row: EncodedRow, name: str) -> bytes | None:
    return binary.fields_of(row.data, len(SAYS))[SAYS.index(name)]


def test_a_step_says_where_it_is_and_an_incident_how_it_ended() -> None:
    life = operational(keys(), incident="resolved", ended="completed")
    rows = [(each.body, encode_fact(life.context, each)) for each in life.facts]
    for fact, row in rows:
        if isinstance(fact, ActivityEnded):
            assert column(row, "scope_key") == (None if fact.scope_key is None else fact.scope_key.to_bytes(8))
            assert column(row, "called_process_id") == (None if fact.process_id is None else fact.process_id.encode())
        if isinstance(fact, IncidentEnded):
            assert (column(row, "kind"), column(row, "state")) == (b"incident_ended", b"resolved")
            assert column(row, "incident_key") == fact.incident_key.to_bytes(8)
            ended = encode_fact(life.context, Record(9, 0, fact._replace(resolved=False)))
            assert column(ended, "state") == b"ended"
        if isinstance(fact, (ActivityEnded, InstanceEnded)):
            assert column(row, "online") == b"\0"
    assert column(encode_fact(live(keys()).context, record_of(life, InstanceEnded)), "online") is None


SAID_BETWEEN: dict[str, tuple[Any, dict[str, Any]]] = {
    "job_failed": (
        TryFailed(5, "work", 6, AT, AT + 1, AT + 2, 2, 1, "NO_PAPER", "empty", AT + 9, {"page": 7}, 8, "called"),
        {
            "activity_instance_key": 5,
            "element_id": "work",
            "job_key": 6,
            "job_queued_at": "2023-11-14T22:13:20.000000Z",
            "job_started_at": "2023-11-14T22:13:20.000001Z",
            "job_finished_at": "2023-11-14T22:13:20.000002Z",
            "scope_key": 8,
            "called_process_id": "called",
            "error_code": "NO_PAPER",
            "message": "empty",
            "attempt_no": 2,
            "variables": {"page": 7},
            "details": {"retries": 1, "again_at_us": AT + 9},
        },
    ),
    "event_received": (
        EventTaken(None, "paid", "message", "payment", "o-7", 6, 2**62, {}, None, None),
        {
            "element_id": "paid",
            "details": {
                "event": "message",
                "name": "payment",
                "correlation_key": "o-7",
                "event_key": str(2**62),
                "subscription_key": "6",
            },
        },
    ),
    "signal_thrown": (
        SignalThrown(5, "tell", "news", 6, {"a": 1}, None, None),
        {
            "activity_instance_key": 5,
            "element_id": "tell",
            "variables": {"a": 1},
            "details": {"event": "signal", "name": "news", "event_key": "6"},
        },
    ),
    "variables_set": (
        VariablesWritten(5, "work", {"a": 1}, True, 8, None),
        {
            "activity_instance_key": 5,
            "element_id": "work",
            "scope_key": 8,
            "variables": {"a": 1},
            "details": {"local": True},
        },
    ),
    "retries_set": (
        RetriesGiven(5, "work", 6, 3, None, None),
        {"activity_instance_key": 5, "element_id": "work", "job_key": 6, "details": {"retries": 3}},
    ),
}


@pytest.mark.parametrize("kind", SAID_BETWEEN)
def test_what_happens_in_between_fills_the_columns_that_say_it_and_no_other(kind: str) -> None:
    fact, says = SAID_BETWEEN[kind]
    (row,) = rows_from_records(operational(keys()).context, [Record(4, AT, fact)])
    own = {name: value for name, value in readable(row).items() if name not in REPEATED}
    assert own == {"position": 4, "recorded_at": "2023-11-14T22:13:20.000000Z", "kind": kind, **says}


def test_poison_in_what_came_from_outside_is_cleaned_and_flagged() -> None:
    fact = EventTaken(None, "paid", "message", "pay\0ment", "\ud83d", 6, 7, {"\0": 1}, None, None)
    row = encode_fact(operational(keys()).context, Record(4, AT, fact))
    assert row.sanitized
    assert "pay\ufffdment".encode() in (column(row, "details") or b"")


def test_an_item_says_which_it_is_and_an_end_that_nobody_waited_for_has_no_status() -> None:
    context = operational(keys()).context
    item = ActivityEnded(5, "work", "SERVICE_TASK", "Work", "completed", 1, 2, loop_counter=3)
    assert column(encode_fact(context, Record(4, 0, item)), "details") == b'\1{"loop_counter":3}'
    end = InstanceEnded("completed", "ended", None, None, 1, 2, 0, 3)
    assert column(encode_fact(context, Record(5, 0, end)), "http_status") == (200).to_bytes(2)
    nobody = encode_fact(context, Record(5, 0, end._replace(answered=False)))
    assert (column(nobody, "http_status"), column(nobody, "online")) == (None, b"\0")


def record_of(life: Life, kind: type[Any]) -> Record:
    return next(each for each in life.facts if isinstance(each.body, kind))


@pytest.mark.parametrize("life", [live(keys(), failing_attempts=1), operational(keys(), incident="ended", ended="x")])
def test_every_row_has_every_column(life: Life) -> None:
    tail = binary.NULL + b"".join((binary.int2(2, 1), binary.int8(8, 1), binary.int8(8, 1), binary.int4(4, 1)))
    rows = [encode_fact(life.context, each) for each in life.facts]
    rows.append(encode_commands(life.context, 1, 0, [b"[]"], False))
    for row in rows:
        assert len(binary.fields_of(row.data + tail)) == len(COLUMNS)


def test_differences_name_the_row_and_its_columns() -> None:
    life = live(keys())
    rows = rows_from_records(life.context, life.records)
    assert differences(life.key, rows, rows) == []
    assert len({canonical_bytes(row) for row in rows}) == len(rows)
    fields = list(rows[3].fields)
    fields[SAYS.index("state")] = b"failed"
    changed = [*rows[:3], rows[3]._replace(fields=tuple(fields)), *rows[5:]]
    found = differences(life.key, changed, rows)
    assert [(each.position, each.what, each.columns) for each in found] == [
        (4, "different", ("state",)),
        (5, "missing", ()),
    ]
    assert "position 4: different: state" in str(found[0])


def test_a_context_survives_poison_in_its_tags() -> None:
    life = live(keys())
    context = InstanceContext(life.key, life.context.tags._replace(tenant="\0"), None)
    assert context.sanitized


def changes_of(value: Any) -> list[Any]:
    """`value` with each one of its leaves changed in turn."""
    if isinstance(value, dict):
        return [{**value, name: other} for name, item in value.items() for other in changes_of(item)]
    if isinstance(value, (list, tuple)):
        made = getattr(type(value), "_make", type(value))
        parts = [(at, other) for at, item in enumerate(value) for other in changes_of(item)]
        return [made([*value[:at], other, *value[at + 1 :]]) for at, other in parts]
    if isinstance(value, bool):
        return [not value]
    if value is None:
        return []
    return [value + "x"] if isinstance(value, str) else [value + 1]


def cancelled_life() -> tuple[Program, list[tuple[Command, int]]]:
    """Its first job returns what a mapping leaves out, its second is stopped: no other fact repeats all of that."""
    diagram = Diagram().start().task("one", outputs={"kept": "=kept"}).task("two").end()
    program = Program(diagram.path("started", "one", "two", "ended").build())
    instance = ProcessInstance(program)
    commands: list[tuple[Command, int]] = []

    def apply(command: Command) -> Step:
        commands.append((command, 1_800_000_000_000_000 + len(commands)))
        return instance.apply(*commands[-1])

    (one,) = apply(start_command(program.definition, {"model": "chat"})).start
    result = {"kept": 1, "dropped": {"a": Decimal("0.5"), "b": [True, "text"]}}
    report = job_report("infer", 1_800_000_000_000_000, 1)
    (two,) = apply(JobCompleted(2_000, one.key, result, report)).start
    apply(Cancel(3_000, "CANCELLED", "by hand"))
    apply(JobStopped(4_000, two.key, report))
    return program, commands


def test_a_change_of_any_value_of_any_command_changes_a_row() -> None:
    program, commands = cancelled_life()

    def rows(commands: list[tuple[Command, int]]) -> list[CanonicalRow]:
        return rows_from_records(InstanceContext.of_commands(commands[:1]), derive_records(program, commands))

    original, found = rows(commands), 0
    assert original == rows(commands)
    for at, (command, at_us) in enumerate(commands):
        for other in [*[(each, at_us) for each in changes_of(command)], (command, at_us + 1)]:
            with suppress(Rejected, ValueError):
                changed = rows([*commands[:at], other, *commands[at + 1 :]])
                assert differences(1_000, original, changed) != [], other
            found += 1
    assert found > 80
