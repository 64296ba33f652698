"""Owns every error code of Conch and the one table of what a code means at each border.
Never raises by itself, formats a protocol body or logs.
Called by every room; the api reads the table to answer, the runtime to decide, telemetry to choose a log level.

    ConchError
    ├── Rejected           the command or request is refused; nothing changed
    ├── TaskError          a task failed for a technical reason: an incident once its job retries are spent
    ├── BpmnError          an outcome that the diagram decides on: caught by an error boundary event
    ├── DefinitionInvalid  a diagram cannot be deployed: every problem at once
    ├── SettingsInvalid    the configuration cannot be used: every problem at once
    └── LeaseLost          another process owns this instance now: stop it here
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Code(StrEnum):
    """What went wrong, in one word that API clients, diagrams and audit rows share."""

    # the request itself
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    MALFORMED_JSON = "MALFORMED_JSON"
    INVALID_HEADER = "INVALID_HEADER"
    BODY_TOO_LARGE = "BODY_TOO_LARGE"
    UNSUPPORTED = "UNSUPPORTED"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    # admission
    QUEUE_FULL = "QUEUE_FULL"
    QUEUE_TIMEOUT = "QUEUE_TIMEOUT"
    OVERLOADED = "OVERLOADED"
    DRAINING = "DRAINING"
    JOURNAL_UNAVAILABLE = "JOURNAL_UNAVAILABLE"
    # replicas
    NO_REPLICA = "NO_REPLICA"
    REPLICA_UNAVAILABLE = "REPLICA_UNAVAILABLE"
    REPLICA_OVERLOADED = "REPLICA_OVERLOADED"
    REPLICA_TIMEOUT = "REPLICA_TIMEOUT"
    REPLICA_ERROR = "REPLICA_ERROR"
    MODEL_NOT_READY = "MODEL_NOT_READY"
    INPUT_REFUSED = "INPUT_REFUSED"
    OUTPUT_INVALID = "OUTPUT_INVALID"
    STREAM_BROKEN = "STREAM_BROKEN"
    # the life of an instance
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    CLIENT_DISCONNECTED = "CLIENT_DISCONNECTED"
    ABORTED = "ABORTED"
    CANCELLED = "CANCELLED"
    # incidents: faults of the diagram, of a task or of the engine
    STALE = "STALE"
    UNHANDLED_BPMN_ERROR = "UNHANDLED_BPMN_ERROR"
    NO_RETRIES_LEFT = "NO_RETRIES_LEFT"
    CONDITION_FAILED = "CONDITION_FAILED"
    EXPRESSION_FAILED = "EXPRESSION_FAILED"
    DECISION_FAILED = "DECISION_FAILED"
    JOIN_STUCK = "JOIN_STUCK"
    PERSON_NEEDED = "PERSON_NEEDED"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    TASK_FAULT = "TASK_FAULT"
    ENGINE_FAULT = "ENGINE_FAULT"


class Family(StrEnum):
    """Who has to act on an error."""

    CALLER = "caller"  # the request is wrong: repeating it unchanged cannot help
    CAPACITY = "capacity"  # the request is fine: repeat it later
    REPLICA = "replica"  # a replica failed: another one may answer
    LIFECYCLE = "lifecycle"  # the instance was ended from outside
    INCIDENT = "incident"  # a person has to look


class Meaning(NamedTuple):
    """One row of the table: what a code means at each border."""

    family: Family
    retryable: bool  # another attempt, on another replica or later, may succeed
    http_status: int
    grpc_status: str
    log_level: str


_CALLER, _CAPACITY, _REPLICA = Family.CALLER, Family.CAPACITY, Family.REPLICA
_LIFECYCLE, _INCIDENT = Family.LIFECYCLE, Family.INCIDENT

MEANINGS: dict[Code, Meaning] = {
    Code.INVALID_ARGUMENT: Meaning(_CALLER, False, 400, "INVALID_ARGUMENT", "info"),
    Code.MALFORMED_JSON: Meaning(_CALLER, False, 400, "INVALID_ARGUMENT", "info"),
    Code.INVALID_HEADER: Meaning(_CALLER, False, 400, "INVALID_ARGUMENT", "info"),
    Code.BODY_TOO_LARGE: Meaning(_CALLER, False, 413, "INVALID_ARGUMENT", "info"),
    Code.UNSUPPORTED: Meaning(_CALLER, False, 501, "UNIMPLEMENTED", "info"),
    Code.NOT_FOUND: Meaning(_CALLER, False, 404, "NOT_FOUND", "info"),
    Code.ALREADY_EXISTS: Meaning(_CALLER, False, 409, "ALREADY_EXISTS", "info"),
    Code.MODEL_NOT_FOUND: Meaning(_CALLER, False, 404, "NOT_FOUND", "info"),
    Code.QUEUE_FULL: Meaning(_CAPACITY, True, 429, "RESOURCE_EXHAUSTED", "warning"),
    Code.QUEUE_TIMEOUT: Meaning(_CAPACITY, True, 503, "UNAVAILABLE", "warning"),
    Code.OVERLOADED: Meaning(_CAPACITY, True, 429, "RESOURCE_EXHAUSTED", "warning"),
    Code.DRAINING: Meaning(_CAPACITY, True, 503, "UNAVAILABLE", "info"),
    Code.JOURNAL_UNAVAILABLE: Meaning(_CAPACITY, True, 503, "UNAVAILABLE", "error"),
    Code.NO_REPLICA: Meaning(_REPLICA, True, 503, "UNAVAILABLE", "error"),
    Code.REPLICA_UNAVAILABLE: Meaning(_REPLICA, True, 503, "UNAVAILABLE", "warning"),
    Code.REPLICA_OVERLOADED: Meaning(_REPLICA, True, 503, "UNAVAILABLE", "warning"),
    Code.REPLICA_TIMEOUT: Meaning(_REPLICA, True, 504, "DEADLINE_EXCEEDED", "warning"),
    Code.REPLICA_ERROR: Meaning(_REPLICA, True, 500, "INTERNAL", "warning"),
    Code.MODEL_NOT_READY: Meaning(_REPLICA, True, 503, "UNAVAILABLE", "warning"),
    Code.INPUT_REFUSED: Meaning(_CALLER, False, 400, "INVALID_ARGUMENT", "info"),
    Code.OUTPUT_INVALID: Meaning(_REPLICA, False, 502, "INTERNAL", "error"),
    Code.STREAM_BROKEN: Meaning(_REPLICA, False, 502, "UNAVAILABLE", "warning"),
    Code.DEADLINE_EXCEEDED: Meaning(_LIFECYCLE, False, 504, "DEADLINE_EXCEEDED", "warning"),
    Code.CLIENT_DISCONNECTED: Meaning(_LIFECYCLE, False, 499, "CANCELLED", "info"),
    Code.ABORTED: Meaning(_LIFECYCLE, True, 503, "ABORTED", "error"),
    Code.CANCELLED: Meaning(_LIFECYCLE, False, 409, "CANCELLED", "info"),
    Code.STALE: Meaning(_CALLER, False, 409, "ABORTED", "debug"),
    Code.UNHANDLED_BPMN_ERROR: Meaning(_INCIDENT, False, 500, "INTERNAL", "error"),
    Code.NO_RETRIES_LEFT: Meaning(_INCIDENT, False, 500, "INTERNAL", "error"),
    Code.CONDITION_FAILED: Meaning(_INCIDENT, False, 500, "INTERNAL", "error"),
    Code.EXPRESSION_FAILED: Meaning(_INCIDENT, False, 500, "INTERNAL", "error"),
    Code.DECISION_FAILED: Meaning(_INCIDENT, False, 500, "INTERNAL", "error"),
    Code.JOIN_STUCK: Meaning(_INCIDENT, False, 500, "INTERNAL", "error"),
    Code.PERSON_NEEDED: Meaning(_INCIDENT, False, 500, "INTERNAL", "error"),
    Code.LIMIT_EXCEEDED: Meaning(_INCIDENT, False, 500, "INTERNAL", "error"),
    Code.TASK_FAULT: Meaning(_INCIDENT, False, 500, "INTERNAL", "error"),
    Code.ENGINE_FAULT: Meaning(_INCIDENT, False, 500, "INTERNAL", "critical"),
}


# Control characters, and those that turn the direction of what follows: a name could forge a line of a terminal.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Problem(NamedTuple):
    """One thing wrong with a file, and what to do about it."""

    file: str
    element_id: str  # BPMN element id, settings key path, or "" for the file as a whole
    element_name: str
    rule: str  # kebab-case id of the rule that was broken
    message: str
    remedy: str
    severity: str = "error"  # error: refused; warning: deployed all the same

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.file, self.element_id) if part)
        name = f' "{self.element_name}"' if self.element_name else ""
        # What a message quotes stands in lines of its own, indented: the problem itself is always one line.
        said, *quoted = self.message.split("\n  ")
        line = f"{where}{name}: {self.severity}: {said} [{self.rule}] {self.remedy}".rstrip()
        return "\n    ".join(_UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", each) for each in (line, *quoted))


class ConchError(Exception):
    """Any error that Conch raises on purpose."""


class CodedError(ConchError):
    """An error with a code of the table, a message for a person and fields for a machine."""

    def __init__(self, code: Code | str, message: str, *, retry_after_ms: int | None = None, **fields: object):
        super().__init__(message)
        self.code = str(code)
        self.message = message
        self.retry_after_ms = retry_after_ms
        self.fields = fields

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class Rejected(CodedError):
    """The command or request is refused and nothing changed."""


class TaskError(CodedError):
    """A task failed for a technical reason that no diagram decides on."""


class BpmnError(CodedError):
    """An outcome that the diagram decides on; `variables` reach the catching event's scope."""

    def __init__(
        self,
        code: Code | str,
        message: str,
        *,
        variables: dict[str, object] | None = None,
        retry_after_ms: int | None = None,
        **fields: object,
    ):
        super().__init__(code, message, retry_after_ms=retry_after_ms, **fields)
        self.variables = variables or {}


class _WithProblems(ConchError):
    def __init__(self, problems: Iterable[Problem]):
        # What refuses comes before what only warns: nobody should have to look for it.
        self.problems = tuple(sorted(problems, key=lambda problem: problem.severity != "error"))
        super().__init__("\n".join(map(str, self.problems)))


class DefinitionInvalid(_WithProblems):
    """A diagram cannot be deployed; `problems` names everything that is wrong with it."""


class SettingsInvalid(_WithProblems):
    """The configuration cannot be used; `problems` names everything that is wrong with it."""


class LeaseLost(ConchError):
    """Another process owns this process instance now."""


def refuse_if(*rules: tuple[bool, str]) -> None:
    """Raises Rejected(INVALID_ARGUMENT) with the text of every rule that is broken, if any is."""
    problems = [text for broken, text in rules if broken]
    if problems:
        raise Rejected(Code.INVALID_ARGUMENT, "; ".join(problems))


def meaning_of(code: Code | str) -> Meaning:
    """The table's row for `code`; a code that a diagram's author invented counts as a final 500."""
    try:
        return MEANINGS[Code(code)]
    except ValueError:
        return Meaning(Family.INCIDENT, False, 500, "INTERNAL", "error")
