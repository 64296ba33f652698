"""Owns decisions: DMN files, read and compiled over FEEL, evaluated as Camunda 8 and DMN 1.5 mean them.
Never knows BPMN, reads no clock, random source or file, and never runs anything but FEEL.
Called by the BPMN definition side (for checks) and the core (for business rule tasks).
"""

from engine.dmn.decision import Decision, DecisionModel, DecisionResult, EvaluatedDecision
from engine.dmn.entry import check_decisions, parse_decisions
from engine.dmn.hit_policy import Hit
from engine.dmn.library import Library
from engine.dmn.logic import DecisionFailed
from engine.dmn.table import Table

__all__ = [
    "Decision",
    "DecisionFailed",
    "DecisionModel",
    "DecisionResult",
    "EvaluatedDecision",
    "Hit",
    "Library",
    "Table",
    "check_decisions",
    "parse_decisions",
]
