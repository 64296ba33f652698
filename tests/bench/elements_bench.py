"""Owns the speed of the engine element by element, and as diagrams and the number of waiting instances grow.
Never asserts a duration; it checks that every instance that it timed has ended as its diagram says.
Called by `make bench`, or by hand: python -m tests.bench.elements_bench
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any

from engine.bpmn import parse
from engine.bpmn.definition import ElementType, TimerKind
from engine.bpmn.lint import check
from engine.bpmn.spiff import Program
from engine.core import ProcessInstance, replay
from engine.records import Command, EventReceived, JobCompleted, TimerFired
from tests.bench.engine_bench import AT_US, seconds_per_call
from tests.builders import (
    EMPTY_REPORT,
    Diagram,
    chain,
    compensation,
    conditional,
    each,
    error,
    escalation,
    link,
    message,
    signal,
    start_command,
    timer,
)
from tests.stock import ask

MANY = 40  # elements of one kind in a diagram
FEW = 6  # on stock, which predicts every path: forks in a row double its work each
ROOMY = 1_000_000  # activity instances
PARALLEL = ElementType.PARALLEL_GATEWAY
INCLUSIVE = ElementType.INCLUSIVE_GATEWAY
WAITING = 10_000


def run(program: Program, variables: Mapping[str, Any] | None = None) -> None:
    """One operational instance to its end: jobs are answered first, then what it waits for comes."""
    instance = ProcessInstance(program)
    at_us = AT_US
    step = instance.apply(
        start_command(program.definition, variables or {}, online=False, max_activity_instances=ROOMY), at_us
    )
    while step.outcome is None:
        command = _next(instance, step.next_key)
        if isinstance(command, TimerFired):
            at_us = max(at_us, instance.open_timers[0].due_at_us)
        step = instance.apply(command, at_us)
    if step.outcome.state != "completed":
        raise AssertionError(f"{program.definition.process_id}: {step.outcome}")


def _next(instance: ProcessInstance, key: int) -> Command:
    agenda = instance._course.agenda  # the public views copy, which is no part of what is measured
    job = next(iter(agenda.jobs), None)
    if job is not None:
        return JobCompleted(key, job, {}, EMPTY_REPORT)
    record = next(iter(agenda.waits.values())).record
    if record.key in {timer.key for timer in instance.open_timers}:
        return TimerFired(key, record.key)
    return EventReceived(key, record.key, 1, {})


# --- one element more ---------------------------------------------------------------------------------------------


def _row(add: Callable[[Diagram, str], tuple[str, str]], count: int = MANY) -> Diagram:
    """start, many of what `add` draws (it says where each begins and ends), end."""
    diagram = Diagram().start().end()
    last = "started"
    for i in range(count):
        first, then = add(diagram, f"e{i}")
        diagram.path(last, first)
        last = then
    return diagram.path(last, "ended")


def _one(add: Callable[[Diagram, str], Any]) -> Callable[[Diagram, str], tuple[str, str]]:
    def drawn(diagram: Diagram, id: str) -> tuple[str, str]:
        add(diagram, id)
        return id, id

    return drawn


def _exclusive(diagram: Diagram, id: str) -> tuple[str, str]:
    diagram.gateway(id).throw(f"{id}_after").flow(id, f"{id}_after", "=x < 3")
    diagram.flow(id, "ended", default=True, id=f"{id}_otherwise")
    return id, f"{id}_after"


def _fork(kind: ElementType) -> Callable[[Diagram, str], tuple[str, str]]:
    def drawn(diagram: Diagram, id: str) -> tuple[str, str]:
        diagram.gateway(id, kind).gateway(f"{id}_join", kind)
        for branch in ("a", "b"):
            diagram.throw(f"{id}_{branch}").flow(id, f"{id}_{branch}", "=x < 3" if kind is INCLUSIVE else None)
            diagram.path(f"{id}_{branch}", f"{id}_join")
        return id, f"{id}_join"

    return drawn


def _sub_process(diagram: Diagram, id: str) -> tuple[str, str]:
    diagram.sub_process(id)
    with diagram.inside(id):
        diagram.start(f"{id}_start").end(f"{id}_end").path(f"{id}_start", f"{id}_end")
    return id, id


def _event_sub_process(diagram: Diagram, id: str) -> tuple[str, str]:
    diagram.sub_process(id)
    with diagram.inside(id):
        diagram.start(f"{id}_start").end(f"{id}_end", "A").path(f"{id}_start", f"{id}_end").event_sub_process(f"{id}_r")
    with diagram.inside(f"{id}_r"):
        diagram.start(f"{id}_caught", error("A")).end(f"{id}_done").path(f"{id}_caught", f"{id}_done")
    return id, id


def _boundary(event: Any, thrown: Any) -> Callable[[Diagram, str], tuple[str, str]]:
    def drawn(diagram: Diagram, id: str) -> tuple[str, str]:
        diagram.sub_process(id).boundary(id, f"{id}_border", event)
        with diagram.inside(id):
            diagram.start(f"{id}_start").end(f"{id}_end", event=thrown).path(f"{id}_start", f"{id}_end")
        return id, f"{id}_border"

    return drawn


def _compensated(diagram: Diagram, id: str) -> tuple[str, str]:
    diagram.node(id, ElementType.MANUAL_TASK).throw(f"{id}_throw", compensation(id)).path(id, f"{id}_throw")
    diagram.node(f"{id}_undo", ElementType.MANUAL_TASK, for_compensation=True)
    diagram.boundary(id, f"{id}_border", compensation(), handler=f"{id}_undo")
    return id, f"{id}_throw"


def _first_event(diagram: Diagram, id: str) -> tuple[str, str]:
    diagram.gateway(id, ElementType.EVENT_BASED_GATEWAY).catch(f"{id}_m", message("m", "=x")).path(id, f"{id}_m")
    diagram.catch(f"{id}_t", timer("PT1H")).path(id, f"{id}_t", "ended")
    return id, f"{id}_m"


def _linked(diagram: Diagram, id: str) -> tuple[str, str]:
    diagram.throw(id, link(id)).catch(f"{id}_landed", link(id))
    return id, f"{id}_landed"


_KINDS: Mapping[str, Callable[[Diagram, str], tuple[str, str]]] = {
    "service_task": _one(lambda d, id: d.task(id)),
    "script_task": _one(lambda d, id: d.script(id, "=x + 1", "y")),
    "user_task": _one(lambda d, id: d.user_task(id)),
    "manual_task": _one(lambda d, id: d.node(id, ElementType.MANUAL_TASK)),
    "receive_task": _one(lambda d, id: d.receive(id, message("m", "=x"))),
    "send_task": _one(lambda d, id: d.node(id, ElementType.SEND_TASK, topic=id)),
    "exclusive_gateway": _exclusive,
    "parallel_gateways": _fork(PARALLEL),
    "inclusive_gateways": _fork(INCLUSIVE),
    "event_based_gateway": _first_event,
    "sub_process": _sub_process,
    "event_sub_process": _event_sub_process,
    "call_activity": _one(lambda d, id: d.call(id, "called")),
    "none_event": _one(lambda d, id: d.throw(id)),
    "timer_event": _one(lambda d, id: d.catch(id, timer('=duration("PT0.05S")'))),
    "cycle_at_border": _one(
        lambda d, id: d.task(id).boundary(id, f"{id}_tick", timer("R/PT1H", TimerKind.CYCLE), interrupting=False)
    ),
    "message_event": _one(lambda d, id: d.catch(id, message("m", "=x"))),
    "signal_event": _one(lambda d, id: d.catch(id, signal("s"))),
    "signal_throw": _one(lambda d, id: d.throw(id, signal("s"))),
    "conditional_event": _one(lambda d, id: d.catch(id, conditional("=x < 3"))),
    "link": _linked,
    "error_at_border": _boundary(error("A"), error("A")),
    "escalation_at_border": _boundary(escalation("A"), escalation("A")),
    "compensation": _compensated,
}


def element_costs() -> dict[str, float]:
    """Microseconds of one more element of each kind, everything that it takes to pass it included."""
    called = Program(Diagram("called").start().end().path("started", "ended").build())
    empty = Program(Diagram().start().end().path("started", "ended").build())
    base = seconds_per_call(lambda: run(empty, {"x": 1}))
    costs = {}
    for kind, add in _KINDS.items():
        definition = _row(add).build()
        program = Program(definition, {id: called for id, node in definition.nodes.items() if node.called})
        costs[f"elements.{kind}_us"] = (seconds_per_call(lambda: run(program, {"x": 1})) - base) / MANY * 1e6  # noqa: B023
    return costs


def stock_costs() -> dict[str, float]:
    """The same on stock SpiffWorkflow, for the kinds that it can run from the same file."""
    kinds = (
        "service_task",
        "exclusive_gateway",
        "parallel_gateways",
        "inclusive_gateways",
        "none_event",
    )
    python = {f"e{i}_to_e{i}_after": "x < 3" for i in range(MANY)}
    python |= {f"e{i}_to_e{i}_{branch}": "x < 3" for i in range(MANY) for branch in "ab"}
    return {
        f"elements.stock_{kind}_us": _stock_seconds(_row(_KINDS[kind], FEW), FEW, python) / FEW * 1e6 for kind in kinds
    }


def _stock_seconds(diagram: Diagram, answers: int, python: Mapping[str, str] | None = None) -> float:
    question = {
        "what": "speed",
        "xml": diagram.to_xml(),
        "python": dict(python or {}),
        "variables": {"x": 1},
        "answers": [{}] * answers,
        "batches": 2,
        "instances": 1,
    }
    return float(ask(question, timeout_s=300)["seconds"])


# --- as diagrams grow ---------------------------------------------------------------------------------------------


def branches(count: int) -> Diagram:
    """A fork into so many service tasks, and their join."""
    diagram = Diagram(f"parallel_{count}").start().gateway("fork", PARALLEL).gateway("join", PARALLEL).end()
    for i in range(count):
        diagram.task(f"task_{i}").path("fork", f"task_{i}", "join")
    return diagram.path("started", "fork").path("join", "ended")


def looped(turns: int) -> Diagram:
    diagram = Diagram("loop").start().task("work", outputs={"turns": "=turns + 1"}).gateway("again").end()
    diagram.path("started", "work", "again").flow("again", "work", f"=turns < {turns}")
    return diagram.flow("again", "ended", default=True)


def growth() -> dict[str, float]:
    figures = {}
    for length in (10, 100, 300, 1_000):
        program = Program(chain(length).build())
        figures[f"elements.growth.chain_{length}_us_per_task"] = _each(program, length)
    for count in (10, 100, 500):
        figures[f"elements.growth.parallel_{count}_us_per_branch"] = _each(Program(branches(count).build()), count)
    for name, sequential in (("parallel", False), ("sequential", True)):
        diagram = Diagram().start().end().path("started", "work", "ended")
        diagram.task("work", loop=each("=items", "item", sequential=sequential, into="all", result="=item"))
        figures[f"elements.growth.multi_instance_{name}_1000_us_per_item"] = _each(
            Program(diagram.build()), 1_000, {"items": list(range(1_000))}
        )
    figures["elements.growth.loop_1000_us_per_turn"] = _each(Program(looped(1_000).build()), 1_000, {"turns": 0})
    figures["elements.growth.stock_parallel_100_us_per_branch"] = _stock_seconds(branches(100), 100) / 100 * 1e6
    figures["elements.growth.stock_chain_300_us_per_task"] = _stock_seconds(chain(300), 300) / 300 * 1e6
    return figures


def _each(program: Program, count: int, variables: Mapping[str, Any] | None = None) -> float:
    return seconds_per_call(lambda: run(program, variables)) / count * 1e6


# --- waiting, resting, deploying ----------------------------------------------------------------------------------


def waiting() -> dict[str, float]:
    """What an instance that waits for a message costs in memory, and what it takes to bring one back from its log."""
    diagram = Diagram().start().task("work").catch("paid", message("payment", "=order_id")).end()
    program = Program(diagram.path("started", "work", "paid", "ended").build())

    def wait(key: int) -> tuple[ProcessInstance, list[tuple[Command, int]]]:
        instance = ProcessInstance(program)
        start = start_command(program.definition, {"order_id": f"order {key}"}, key=key, online=False)
        step = instance.apply(start, AT_US)
        job = JobCompleted(step.next_key, step.start[0].key, {"done": True}, EMPTY_REPORT)
        instance.apply(job, AT_US)
        return instance, [(start, AT_US), (job, AT_US)]

    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = [wait(1_000 + i * 100)[0] for i in range(WAITING)]
    gc.collect()
    memory = (tracemalloc.get_traced_memory()[0] - before) / len(kept)
    tracemalloc.stop()
    del kept
    log = wait(1_000)[1]
    return {
        "elements.waiting.live_10000_bytes_each": memory,
        "elements.waiting.resume_us": seconds_per_call(lambda: replay(program, log)) * 1e6,
    }


def deployment() -> dict[str, float]:
    """Reading, judging and compiling a diagram of 300 elements, and building its program."""
    xml = chain(298).to_xml().encode()
    topics = None

    def deploy() -> None:
        problems = check(xml, "chain.bpmn", topics)[1]
        if any(problem.severity == "error" for problem in problems):
            raise AssertionError(problems[0])
        Program(parse(xml, "chain.bpmn")[0])

    return {"elements.deployment.elements_300_ms": seconds_per_call(deploy) * 1e3}


def measure() -> dict[str, float]:
    return element_costs() | stock_costs() | growth() | waiting() | deployment()


def main() -> None:
    began = time.monotonic()
    for name, value in measure().items():
        print(f"{name:<48} {value:>12.1f}")
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
