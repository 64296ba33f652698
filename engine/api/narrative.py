"""Owns the story of one request: plain sentences, and the walked path on the designer's own diagram, from rows alone.
Never reads the audit or a payload; the rows are given.
Called by `conch explain` and by the demo.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from engine.bpmn.picture import Walked
from engine.store.queries import StoredInstance

Fact = Mapping[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHARES_SHOWN = 3
_BODY = "MULTI_INSTANCE_BODY"
# What is told of an element that completed. Starts, ends, gateways and what only passes a token on go without saying.
_SAID = {
    "SERVICE_TASK": "took {}",
    "BUSINESS_RULE_TASK": "decided in {}",
    "SCRIPT_TASK": "computed its result in {}",
    "SEND_TASK": "sent its message in {}",
    "RECEIVE_TASK": "waited {} for its message",
    "USER_TASK": "was done by a person after {}",
    "SUB_PROCESS": "was done with all that it holds after {}",
    "EVENT_SUB_PROCESS": "reacted, which took {}",
    "CALL_ACTIVITY": "came back from the called process after {}",
    _BODY: "ran for each of its items, in {} together",
    "INTERMEDIATE_CATCH_EVENT": "waited {}",
    "INTERMEDIATE_THROW_EVENT": "was reached",
    "BOUNDARY_EVENT": "took over",
}


def tell(stored: StoredInstance) -> list[str]:
    """About ten sentences: what came, what was decided and why, what failed, what it cost, where the time went."""
    sentences = [*_arrival(stored)]
    attempts: list[Fact] = []
    decisions: list[Fact] = []
    repeated, names = _repeated(stored), _names(stored)
    for fact in stored.facts:
        match fact["kind"]:
            case "attempt":
                attempts.append(fact)
            case "decision":
                decisions.append(fact)
            case "job_failed":
                name = names[fact["activity_instance_key"]]
                sentences += [*_work(name, decisions, attempts), _failure(name, fact)]
                attempts, decisions = [], []
            case "event_received" | "signal_thrown" | "variables_set" | "retries_set":
                key = fact.get("activity_instance_key")
                if key not in repeated:
                    sentences.append(_between(names[key], fact))
            case "activity":
                if fact.get("activity_instance_key") not in repeated or fact["state"] == "failed":
                    sentences += _activity(fact, decisions, attempts)
                attempts, decisions = [], []
            case "incident":
                sentences.append(f"An incident was raised: {fact['error_code']}, {fact['message']}.")
            case "incident_ended" if fact["state"] == "resolved":
                sentences.append(f"The incident of {names[fact['activity_instance_key']]} was resolved.")
    sentences += _usage(stored)
    sentences += _time_split(stored)
    sentences.append(_ending(stored))
    return [" ".join(sentence.split()) for sentence in sentences]  # a model's error may have several lines


def walked(stored: StoredInstance) -> Walked:
    """How often and how long each element of the diagram ran, which flows were taken, and what failed. A multi-instance
    ran as often as it had items, and as long as all of them together took."""
    counts: Counter[str] = Counter()
    durations_us: defaultdict[str, int] = defaultdict(int)
    bodies_us: defaultdict[str, int] = defaultdict(int)
    flows: Counter[str] = Counter()
    failed = set()
    for fact in stored.facts:
        if fact["kind"] != "activity" or fact.get("called_process_id") is not None:
            continue  # a called process has a diagram of its own
        element_id = fact["element_id"]
        flows.update(fact.get("taken_flow_ids") or ())
        if fact["state"] != "completed":
            failed.add(element_id)
        if fact["element_type"] == _BODY:
            bodies_us[element_id] += fact.get("duration_us", 0)
        else:
            counts[element_id] += 1
            durations_us[element_id] += fact.get("duration_us", 0)
    durations_us |= bodies_us
    visits = {name: (counts[name], durations_us[name]) for name in durations_us}
    return Walked(visits, dict(flows), frozenset(failed))


def _repeated(stored: StoredInstance) -> set[int]:
    """The activities that ran for one item of a multi-instance each, with all that ran inside them."""
    activities = [fact for fact in stored.facts if fact["kind"] == "activity"]
    around = {fact["activity_instance_key"]: fact.get("scope_key") for fact in activities}
    bodies = {fact["activity_instance_key"] for fact in activities if fact["element_type"] == _BODY}
    inside: set[int] = set()
    for key in reversed(around):  # what is around an activity ends after it
        if around[key] in bodies or around[key] in inside:
            inside.add(key)
    return inside


def duration(us: int) -> str:
    """Microseconds as a person reads them."""
    if us < 1_000:
        return f"{us} µs"
    if us < 1_000_000:
        return f"{us / 1_000:.{1 if us < 100_000 else 0}f} ms"
    return f"{us / 1_000_000:.2f} s"


def _arrival(stored: StoredInstance) -> Iterator[str]:
    start, tags, definition = stored.start, stored.start.tags, stored.definition
    at = stored.started_at.strftime("%Y-%m-%d %H:%M:%S.%f UTC")
    process = f"Process {definition.process_id} version {definition.version}"
    paid_by = f"tenant {tags.tenant} for product {tags.product}, feature {tags.feature}"
    if not start.online:
        business = f", business id {start.business_id}" if start.business_id else ""
        yield f"{process} was started as instance {stored.key}{business} at {at} by {paid_by}."
        return
    variables = start.variables
    asked = f"{variables.get('operation', 'a call')} of model {variables.get('model', 'unknown')}"
    yield (
        f"Request {start.request_id} ({asked}, {variables.get('request_bytes', 0)} bytes) arrived at {at} "
        f"from {paid_by}, with {tags.priority} priority."
    )
    yield f"{process} governed it as instance {stored.key}; it had {duration(tags.deadline_ms * 1000)} to answer."


def _activity(fact: Fact, decisions: list[Fact], attempts: list[Fact]) -> Iterator[str]:
    name, took = fact["element_name"] or fact["element_id"], duration(fact.get("duration_us", 0))
    if fact.get("called_process_id") is not None:
        name = f"{name}” of the called process “{fact['called_process_id']}"
    yield from _work(f"“{name}”", decisions, attempts)
    if attempts or decisions:
        return
    kind = fact["element_type"]
    if fact["state"] != "completed" and kind != "BOUNDARY_EVENT":
        why = f": {fact['error_code']}, {fact.get('message', '')}" if "error_code" in fact else ""
        yield f"“{name}” ended without completing after {took}{why}."
    elif kind in _SAID:
        yield f"“{name}” {_SAID[kind].format(took)}{_noted(fact.get('variables') or {})}."


def _work(name: str, decisions: list[Fact], attempts: list[Fact]) -> Iterator[str]:
    for each in decisions:
        yield f"{name} chose {_chosen(each)}: {each['reason']}."
    for each in attempts:
        yield _attempt(name, each)


def _chosen(decision: Fact) -> str:
    """What was chosen in a word; a value of several parts is told by its kind."""
    result = (decision.get("details") or {}).get("result")
    if isinstance(result, Mapping):
        return "an object"
    if isinstance(result, list | tuple):
        return f"a list of {len(result)}"
    return str(decision.get("chosen") or "nothing")


def _names(stored: StoredInstance) -> dict[int | None, str]:
    """Activity instances by the names of their elements; an open one by its element's id."""
    names = {fact.get("activity_instance_key"): fact.get("element_id") for fact in stored.facts}
    for fact in stored.facts:
        if fact["kind"] == "activity" and fact["element_name"]:
            names[fact["activity_instance_key"]] = fact["element_name"]
    return {key: f"“{name}”" for key, name in names.items()}


def _failure(name: str, fact: Fact) -> str:
    again_at_us, left = fact["details"].get("again_at_us"), fact["details"]["retries"]
    said = (
        f"{name} failed at try {fact['attempt_no']}: {fact['error_code']}, {fact.get('message') or 'no reason given'}"
    )
    if again_at_us is None:
        return f"{said}; it was not tried again by itself."
    wait = duration(again_at_us - _between_us(_EPOCH, fact["recorded_at"]))
    return f"{said}; the next try was due {wait} later, with {_tries(left)} left."


def _between(name: str, fact: Fact) -> str:
    """What reached a step, or left it, while the instance went on."""
    details, variables = fact.get("details", {}), ", ".join(fact.get("variables", ())) or "nothing"
    match fact["kind"]:
        case "event_received":
            key = f" for “{details['correlation_key']}”" if "correlation_key" in details else ""
            return f"The {details['event']} “{details['name']}”{key} reached “{fact['element_id']}” with {variables}."
        case "signal_thrown":
            return f"{name} threw the signal “{details['name']}” with {variables}."
        case "variables_set":
            at = f" at {name}" if "element_id" in fact else ""
            return f"Somebody outside wrote {variables}{at}{', for that step alone' if at and details else ''}."
        case _:
            return f"Somebody outside gave the job of {name} {_tries(details['retries'])}."


def _tries(number: int) -> str:
    return "1 try" if number == 1 else f"{number} tries"


def _noted(variables: Mapping[str, Any]) -> str:
    """The few variables of a step that a reader wants to see in its sentence."""
    notes = []
    if queue_ms := variables.get("queue_time_ms"):
        notes.append(f"waited {queue_ms} ms in the queue")
    if (candidates := variables.get("candidates")) is not None:
        notes.append(f"healthy replicas: {', '.join(map(str, candidates)) or 'none'}")
    for each in variables.get("unhealthy") or ():
        notes.append(f"{each.get('replica')} is out: {each.get('reason')}")
    if reason := variables.get("degraded_reason"):
        notes.append(str(reason))
    return f" ({'; '.join(notes)})" if notes else ""


def _attempt(name: str, fact: Fact) -> str:
    took = duration(_between_us(fact["sent_at"], fact["done_at"]))
    said = f"Attempt {fact['attempt_no']} ({name}) on {fact['replica']}, model {fact['model']}"
    if fact["outcome"] == "ok":
        first = fact.get("first_token_at")
        tokens = f", first token after {duration(_between_us(fact['sent_at'], first))}" if first else ""
        return f"{said}, answered in {took}{tokens}."
    status = f", gRPC {fact['grpc_status']}" if "grpc_status" in fact else ""
    message = f": {fact['message']}" if fact.get("message") else ""
    partial = f" after {_counted(fact['chunks'], 'chunk')}" if fact.get("chunks") else ""
    return f"{said}, failed in {took}{partial} with {fact.get('error_code', fact['outcome'])}{status}{message}."


def _usage(stored: StoredInstance) -> Iterator[str]:
    lines = [fact for fact in stored.facts if fact["kind"] == "usage"]
    paid = [line for line in lines if line["billable"]]
    if paid:
        costs = [line["cost_usd"] for line in paid if "cost_usd" in line]
        unpriced = len(paid) - len(costs)
        cost = f"it cost {sum(costs, Decimal()).normalize():f} USD" if costs else "it has no price"
        missing = f", {_counted(unpriced, 'line')} without a price" if costs and unpriced else ""
        yield f"Used: {_totals(paid)}; {cost}{missing}."
    else:
        yield "Nothing billable was used."
    if len(paid) < len(lines):
        unpaid = [line for line in lines if not line["billable"]]
        yield f"Used by attempts that nobody pays for: {_totals(unpaid)}."


def _totals(lines: list[Fact]) -> str:
    totals: defaultdict[str, Decimal] = defaultdict(Decimal)
    for line in lines:
        totals[line["sku"].replace("_", " ")] += line["quantity"]
    return ", ".join(f"{quantity.normalize():f} {sku}" for sku, quantity in totals.items())


def _time_split(stored: StoredInstance) -> Iterator[str]:
    """Shares of the whole; flow nodes on one path do not overlap, except a boundary event with its activity."""
    ended = _ended(stored)
    if ended is None or not ended["duration_us"]:
        return
    walk = walked(stored)
    longest = sorted(walk.visits.items(), key=lambda item: -item[1][1])[:_SHARES_SHOWN]
    shares = [f"{name} {100 * us / ended['duration_us']:.0f} %" for name, (_, us) in longest if us]
    if shares:
        yield f"Where the time went: {', '.join(shares)}."


def _ending(stored: StoredInstance) -> str:
    ended = _ended(stored)
    if ended is None:
        return "It has not ended yet."
    took = duration(ended["duration_us"])
    tried = f"{_counted(ended['attempts'], 'attempt')}, {_counted(ended['activities'], 'step')}"
    if "error_code" in ended:
        return (
            f"It ended {ended['state']} after {took} ({tried}) with {ended['error_code']}: {ended.get('message', '')}."
        )
    return f"It ended at “{ended.get('element_id', ended['state'])}” after {took} ({tried})."


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _ended(stored: StoredInstance) -> Fact | None:
    return next((fact for fact in stored.facts if fact["kind"] == "instance_ended"), None)


def _between_us(start: datetime, end: datetime) -> int:
    return (end - start) // timedelta(microseconds=1)
