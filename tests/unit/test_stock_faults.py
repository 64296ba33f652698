"""What stock SpiffWorkflow 3.2 gets wrong, shown on stock itself, and the same diagram done right here.

Stock answers in a process of its own. `docs/spiffworkflow.md` tells the story; its rows name these tests.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.bpmn import ElementType, check, parse
from engine.bpmn.spiff import Program
from engine.errors import DefinitionInvalid
from engine.records import ActivityEnded, BpmnErrorThrown, IncidentRaised, JobCompleted, JobFailed
from tests.builders import EMPTY_REPORT, Diagram, chain, compensation, each, link, signal, timer
from tests.driven import Driven
from tests.stock_faults import tell

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
QUESTIONS: dict[str, dict[str, Any]] = {}


def asked(name: str, diagram: Diagram | str, **question: Any) -> str:
    """Put a diagram on the list that stock is asked about; returns its XML, which ours runs too."""
    xml = diagram if isinstance(diagram, str) else diagram.to_xml()
    QUESTIONS[name] = {"xml": xml, **question}
    return xml


@pytest.fixture(scope="module")
def stock() -> Mapping[str, Any]:
    return dict(zip(QUESTIONS, tell(list(QUESTIONS.values())), strict=True))


def ours(xml: str, variables: Mapping[str, Any] | None = None, **start: Any) -> Driven:
    (definition,) = parse(xml.encode(), "process.bpmn")
    return Driven(Program(definition), variables, online=False, **start)


def straight(*elements: str) -> Diagram:
    return Diagram().start().end().path("started", *elements, "ended")


def worked() -> Diagram:
    return straight("work").task("work")


# --- errors -------------------------------------------------------------------------------------------------------

GUARDED = worked().on_error("work", "exact", "A").on_error("work", "every").end("by_code").end("by_any")
GUARDED.path("exact", "by_code").path("every", "by_any")
TWO_HANDLERS = asked("two handlers", GUARDED, happens=[("error", "A", {})])


def test_an_error_reaches_one_handler_where_stock_starts_every_one_that_matches(stock: Any) -> None:
    assert [name for name in stock["two handlers"]["passed"] if name in ("exact", "every")] == ["exact", "every"]

    run = ours(TWO_HANDLERS)
    run.throw("A")
    assert run.path == ["started:completed", "work:failed", "exact:completed", "by_code:completed"]


UNCAUGHT = asked(
    "uncaught",
    Diagram().start().task("work").end("broken", "X").path("started", "work", "broken"),
    happens=[("done", "work", {})],
)


def test_an_error_that_nothing_catches_is_an_incident_where_stock_counts_it_as_success(stock: Any) -> None:
    assert stock["uncaught"]["completed"]
    assert stock["uncaught"]["error"] is None

    run = ours(UNCAUGHT)
    run.done("work")
    (raised,) = run.facts(IncidentRaised)
    assert (raised.element_id, raised.error_code) == ("broken", "UNHANDLED_BPMN_ERROR")
    assert run.instance.outcome is None


SERVICE = asked("service", worked(), what="service")


def test_a_failed_call_says_why_where_stock_hides_it_behind_an_error_of_its_own(stock: Any) -> None:
    assert stock["service"]["error"] == "NameError"  # the call itself raised ConnectionError

    run = ours(SERVICE)
    run.do(JobFailed(run.key, run.job.key, "TASK_FAULT", "ConnectionError: refused", False, EMPTY_REPORT))
    (raised,) = run.facts(IncidentRaised)
    assert "ConnectionError: refused" in raised.message


# --- events -------------------------------------------------------------------------------------------------------


def reacting(*, interrupting: bool) -> Diagram:
    diagram = worked().event_sub_process("reaction")
    with diagram.inside("reaction"):
        diagram.start("alarmed", signal("alarm"), interrupting=interrupting).task("react").end("reacted")
        diagram.path("alarmed", "react", "reacted")
    return diagram


INTERRUPTING = asked("interrupting", reacting(interrupting=True), happens=[("signal", "alarm", {})])
BESIDE = asked("beside", reacting(interrupting=False), happens=[("signal", "alarm", {})])


def test_an_interrupting_event_sub_process_interrupts_where_stock_lets_both_run(stock: Any) -> None:
    assert stock["interrupting"]["waiting"] == stock["beside"]["waiting"] == ["work", "reaction", "react"]

    for xml, still_open in ((INTERRUPTING, ["reaction", "react"]), (BESIDE, ["work", "reaction", "react"])):
        run = ours(xml)
        run.receive("alarmed")
        if xml == INTERRUPTING:
            run.stopped("work")
        assert run.open == still_open


def watched() -> Diagram:
    diagram = worked().event_sub_process("reaction")
    with diagram.inside("reaction"):
        diagram.start("late", timer("PT1H")).task("react").end("reacted").path("late", "react", "reacted")
    return diagram


UNFIRED = asked("unfired", watched(), happens=[("done", "work", {})], python={"late": '"PT1H"'})


def test_a_timer_that_never_fires_does_not_hold_the_process_where_stock_never_completes(stock: Any) -> None:
    assert stock["unfired"]["passed"] == ["started", "work", "ended"]
    assert not stock["unfired"]["completed"]

    run = ours(UNFIRED)
    run.done("work")
    assert run.outcome.state == "completed"
    assert not run.instance.open_timers


LINKED = Diagram().start().throw("gone", link("there")).catch("back", link("there")).task("work").end()
LINK = asked("link", LINKED.path("started", "gone").path("back", "work", "ended"))


def test_a_link_leads_on_where_stock_ends_there_as_if_all_were_done(stock: Any) -> None:
    assert stock["link"]["completed"]
    assert stock["link"]["passed"] == ["started", "gone"]

    run = ours(LINK)
    assert run.open == ["work"]


BOOKED = straight("book", "undo").task("book").throw("undo", compensation())
COMPENSATION = asked("compensation", BOOKED, happens=[("done", "book", {})])
BOOKED.compensated_by("book", "cancel")
HANDLED = asked("handled compensation", BOOKED)


def test_compensation_undoes_where_stock_passes_its_throw_and_refuses_its_handler(stock: Any) -> None:
    assert stock["compensation"]["completed"]
    assert stock["handled compensation"]["error"] == "ValidationException"

    run = ours(HANDLED)
    run.done("book")
    assert run.open == ["undo", "cancel"]
    run.done("cancel")
    assert run.outcome.state == "completed"


# --- multi-instance -----------------------------------------------------------------------------------------------


def in_turn() -> Diagram:
    loop = each("=items", "item", sequential=True, into="found", result="=item")
    return straight("work", "after").script("work", "=1", "seen", loop=loop).task("after")


IN_TURN = asked("items", in_turn(), variables={"items": [1, 2, 3]})
asked("null item", in_turn(), variables={"items": [1, None, 3]})


def test_a_null_item_has_its_turn_where_stock_stalls_at_it(stock: Any) -> None:
    assert stock["items"]["waiting"] == ["after"]
    assert stock["null item"]["waiting"] == ["work"]  # and nothing will ever come

    run = ours(IN_TURN, {"items": [1, None, 3]})
    assert run.open == ["after"]
    assert run.instance.variables["found"] == [1, None, 3]


MANY = asked("many items", straight("work").task("work", loop=each("=items", "item")), variables={"items": [0] * 400})


def test_items_have_a_limit_where_stock_starts_however_many(stock: Any) -> None:
    assert stock["many items"]["waiting"].count("work [child]") == 400

    run = ours(MANY, {"items": [0] * 400}, max_activity_instances=100)
    (raised,) = run.facts(IncidentRaised)
    assert raised.error_code == "LIMIT_EXCEEDED"
    assert len(run.instance.open_jobs) < 100


# --- flows --------------------------------------------------------------------------------------------------------

FORKED = Diagram().start().task("work").task("a").task("b").end("a_ended").end("b_ended")
FORKED.path("started", "work", "a", "a_ended").path("work", "b", "b_ended")
FORK = asked("two flows", FORKED)


def test_two_flows_out_of_a_task_are_two_tokens_where_stock_refuses_the_diagram(stock: Any) -> None:
    assert stock["two flows"]["error"] == "ValidationException"

    run = ours(FORK)
    run.done("work")
    assert run.open == ["a", "b"]


def drawn(diagram: Diagram, heights: Mapping[str, int]) -> str:
    """The diagram with a picture, in which the elements stand at these heights."""
    shapes = "".join(
        f'<di:BPMNShape bpmnElement="{id}"><dc:Bounds x="0" y="{heights.get(id, 0)}" width="1" height="1"/>'
        "</di:BPMNShape>"
        for id in diagram.build().nodes
    )
    spaces = 'xmlns:di="http://www.omg.org/spec/BPMN/20100524/DI" xmlns:dc="http://www.omg.org/spec/DD/20100524/DC"'
    picture = f"<di:BPMNDiagram {spaces}><di:BPMNPlane>{shapes}</di:BPMNPlane></di:BPMNDiagram>"
    return diagram.to_xml().replace("</bpmn:definitions>", f"{picture}</bpmn:definitions>")


CHOICE = Diagram().start().gateway("choose").task("first").task("second").end().path("started", "choose")
CHOICE.flow("choose", "first", "=1 < 2").flow("choose", "second", "=1 < 2").path("first", "ended").path(
    "second", "ended"
)
FIRST_BELOW = asked("first below", drawn(CHOICE, {"first": 300, "second": 100}))
FIRST_ABOVE = asked("first above", drawn(CHOICE, {"first": 100, "second": 300}))


def test_conditions_are_tried_in_document_order_where_stock_goes_by_the_picture(stock: Any) -> None:
    assert stock["first above"]["waiting"] == ["first"]
    assert stock["first below"]["waiting"] == ["second"]  # the same process, drawn the other way round

    assert ours(FIRST_ABOVE).open == ours(FIRST_BELOW).open == ["first"]


JOINING = (
    Diagram().start().gateway("split", ElementType.PARALLEL_GATEWAY).task("a").task("b").task("c").gateway("merge")
)
JOINING.gateway("join", ElementType.PARALLEL_GATEWAY).task("after").end()
JOINING.path("started", "split", "a", "merge", "join", "after", "ended").path("split", "b", "merge").path(
    "split", "c", "join"
)
JOIN = asked("join", JOINING, happens=[("done", name, {}) for name in ("c", "a", "b", "after")])


def test_a_parallel_join_counts_tokens_by_flow_where_stock_passes_it_again_without_one(stock: Any) -> None:
    assert stock["join"]["passed"].count("join") == 2  # the second time over one flow of two
    assert stock["join"]["completed"]

    run = ours(JOIN)
    for name in ("c", "a", "b", "after"):
        run.done(name)
    assert run.path.count("join:completed") == 1
    (raised,) = run.facts(IncidentRaised)
    assert (raised.element_id, raised.error_code) == ("join", "JOIN_STUCK")


AWAITED = Diagram().start().gateway("some", ElementType.INCLUSIVE_GATEWAY).task("a").task("b").gateway("choose")
AWAITED.task("yes").task("no").gateway("joined", ElementType.INCLUSIVE_GATEWAY).task("after").end()
AWAITED.path("started", "some").flow("some", "a", "=1 < 2").flow("some", "b", "=1 < 2").path(
    "a", "joined", "after", "ended"
)
AWAITED.path("b", "choose").flow("choose", "yes", "=1 < 2").flow("choose", "no", default=True)
AWAITED.path("yes", "joined").path("no", "joined")
SOME = asked("some", AWAITED, happens=[("done", "a", {})])


def test_an_inclusive_join_waits_for_a_task_before_a_choice_where_stock_goes_on_without(stock: Any) -> None:
    assert stock["some"]["waiting"] == ["after", "b"]  # it has passed the join while b still works

    run = ours(SOME)
    run.done("a")
    assert run.open == ["b"]
    run.done("b")
    run.done("yes")
    assert run.open == ["after"]


# --- size and depth -----------------------------------------------------------------------------------------------

TURNING = Diagram().start().gateway("merge").script("work", "=turns + 1", "turns").gateway("again").end()
TURNING.path("started", "merge", "work", "again").flow("again", "merge", "=turns < 400").flow(
    "again", "ended", default=True
)
TURNS = asked("turns", TURNING, variables={"turns": 0})


def test_a_loop_runs_all_of_its_turns_where_stock_stops_in_silence_a_thousand_tasks_deep(stock: Any) -> None:
    told = stock["turns"]
    assert told["passed"].count("work") == 333
    assert "ended" not in told["passed"]
    assert (told["completed"], told["error"], told["waiting"]) == (True, None, [])

    run = ours(TURNS, {"turns": 0}, max_activity_instances=2_000)
    assert run.outcome.end_element_id == "ended"
    assert run.outcome.variables["turns"] == 400


SHALLOW_STACK, FAILURES = 250, 150
RETRYING = Diagram().start().gateway("merge").task("work").end().path("started", "merge", "work", "ended")
RETRYING.on_error("work", "failed", "X").path("failed", "merge")
RETRIES = asked("retries", RETRYING, happens=[("error", "X", {})] * FAILURES, recursion_limit=SHALLOW_STACK)


def test_a_loop_through_an_error_goes_on_for_ever_where_stock_recurses_deeper_on_each_turn(stock: Any) -> None:
    assert stock["retries"]["error"] == "RecursionError"
    assert 10 < stock["retries"]["passed"].count("failed") < FAILURES

    run = ours(RETRIES, max_activity_instances=10_000)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(SHALLOW_STACK + 100)  # pytest itself stands on the stack
    try:
        for _ in range(FAILURES):
            run.do(BpmnErrorThrown(run.key, run.job.key, "X", "", {}, EMPTY_REPORT))
    finally:
        sys.setrecursionlimit(limit)
    assert run.open == ["work"]


CHAIN = asked("chain", chain(500))


def test_a_chain_of_five_hundred_tasks_is_read_where_stock_recurses_for_each(stock: Any) -> None:
    assert stock["chain"]["error"] == "ValidationException"
    assert "RecursionError" in stock["chain"]["said"]

    assert ours(CHAIN).open == ["task_0"]


def fork(width: int) -> Diagram:
    diagram = Diagram().start().gateway("split", ElementType.PARALLEL_GATEWAY)
    diagram.gateway("join", ElementType.PARALLEL_GATEWAY).end().path("started", "split").path("join", "ended")
    for at in range(width):
        diagram.task(f"task_{at}").path("split", f"task_{at}", "join")
    return diagram


LONGER = [chain(length).to_xml() for length in (20, 40, 80)]
WIDER = [fork(width).to_xml() for width in (20, 40, 80)]
QUESTIONS["longer"] = {"what": "looks", "xmls": LONGER}
QUESTIONS["wider"] = {"what": "looks", "xmls": WIDER}


def calls_of(xml: str) -> int:
    """How many Python functions ours calls to run a diagram to its end: a cost that no machine changes."""
    calls = 0

    def count(_: Any, event: str, __: Any) -> None:
        nonlocal calls
        calls += event == "call"

    run = ours(xml)
    sys.setprofile(count)
    try:
        while run.step.outcome is None:
            job_key = next(iter(run.instance._course.agenda.jobs))
            run.step = run.instance.apply(JobCompleted(run.key, job_key, {}, EMPTY_REPORT), run.at_us)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(("shape", "xmls"), [("longer", LONGER), ("wider", WIDER)])
def test_twice_the_elements_cost_twice_as_much_where_stock_pays_four_times(stock: Any, shape: str, xmls: Any) -> None:
    small, medium, large = stock[shape]["looks"]
    assert large - medium > 3 * (medium - small)

    small, medium, large = map(calls_of, xmls)
    assert large - medium < 2.2 * (medium - small)


# --- data and names -----------------------------------------------------------------------------------------------

HISTORY = asked("history", worked(), what="history")


def test_what_a_finished_element_had_stays_where_stock_lets_a_later_one_rewrite_it(stock: Any) -> None:
    assert stock["history"]["paid_at_the_start"] is True  # it was false when the start event ended

    run = ours(HISTORY, {"order": {"bill": {"paid": False}}})
    run.job.variables["order"]["bill"]["paid"] = True  # a task may do what it likes with its copy
    run.done("work", {"order": {"bill": {"paid": True}}})
    started, work, _ = run.facts(ActivityEnded)
    assert started.variables is None
    assert work.variables == {"order": {"bill": {"paid": True}}}
    assert run.log[0][0].variables == {"order": {"bill": {"paid": False}}}  # type: ignore[union-attr]
    run.replayed()


BOTH = Diagram().start().gateway("split", ElementType.PARALLEL_GATEWAY).task("a").task("b")
BOTH.gateway("join", ElementType.PARALLEL_GATEWAY).end().path("started", "split", "a", "join", "ended").path(
    "split", "b", "join"
)
MERGED = asked(
    "merged", BOTH, happens=[("done", "a", {"from_a": [1, 2, 3], "l": [1, 2, 3]}), ("done", "b", {"l": [9]})]
)


def test_branches_share_one_scope_where_stock_merges_and_trims_lists_at_the_join(stock: Any) -> None:
    assert stock["merged"]["data"]["l"] == "[9]"

    run = ours(MERGED)
    run.done("a", {"l": [1, 2, 3]})
    seen = run.instance.variables["l"]  # by the other branch, at once
    run.done("b", {"l": [*seen, 9]})
    assert run.outcome.variables["l"] == [1, 2, 3, 9]


TYPENAME = asked("typename", straight("work").node("work", ElementType.MANUAL_TASK), what="saved")


def test_a_variable_may_have_an_entry_typename_where_stock_saves_what_it_cannot_read(stock: Any) -> None:
    assert stock["typename"]["error"] == "TypeError"

    run = ours(worked().to_xml(), {"shape": {"typename": "circle"}})
    assert run.replayed().variables == {"shape": {"typename": "circle"}}


NAMED = straight("Start").task("Start")
START = asked("Start", NAMED)


def test_an_element_may_be_called_start_where_stock_has_one_of_its_own(stock: Any) -> None:
    assert stock["Start"]["error"] == "ValidationException"

    assert ours(START).open == ["Start"]


SCRIPTED = straight("work").script("work", "=1", "pid").to_xml().replace("=1", "=__import__('os').getpid()")
PYTHON = asked("python", SCRIPTED)


def test_text_of_a_diagram_is_feel_where_stock_runs_it_as_python(stock: Any) -> None:
    assert int(stock["python"]["data"]["pid"]) > 0

    problems = check(PYTHON.encode(), "process.bpmn", None)[1]
    assert [problem.element_id for problem in problems] == ["work"]
    with pytest.raises(DefinitionInvalid):
        parse(PYTHON.encode(), "process.bpmn")


# --- the page -----------------------------------------------------------------------------------------------------

PAGE = ROOT / "docs" / "spiffworkflow.md"
TESTS = {
    node.name
    for path in (ROOT / "tests").rglob("test_*.py")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
}


def rows() -> Iterator[list[str]]:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| stock"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def test_every_row_of_the_page_names_tests_that_exist() -> None:
    for *_, proof in rows():
        names = re.findall(r"`(test_\w+)`", proof)
        assert names, f"no test: {proof}"
        assert set(names) <= TESTS, f"no such test: {sorted(set(names) - TESTS)}"


def test_every_fault_shown_here_is_on_the_page() -> None:
    told = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))
    here = {name for name in globals() if name.startswith("test_") and "_where_stock_" in name}
    assert here <= told, f"not on the page: {sorted(here - told)}"
