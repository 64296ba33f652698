"""Owns the names of the namespaces that a BPMN file uses; the safe reading of XML is one for all diagrams.
Never reads anything itself.
Called by the dialect (to read a diagram) and the picture (to draw it).
"""

from __future__ import annotations

from typing import Final

from engine.xml import MAX_BYTES, MAX_DEPTH, MAX_ELEMENTS, read_tree

__all__ = [
    "BPMN",
    "BPMNDI",
    "CAMUNDA_7",
    "DC",
    "DI",
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_ELEMENTS",
    "MODELER",
    "ZEEBE",
    "read_tree",
]

BPMN: Final = "http://www.omg.org/spec/BPMN/20100524/MODEL"
BPMNDI: Final = "http://www.omg.org/spec/BPMN/20100524/DI"
DC: Final = "http://www.omg.org/spec/DD/20100524/DC"
DI: Final = "http://www.omg.org/spec/DD/20100524/DI"
ZEEBE: Final = "http://camunda.org/schema/zeebe/1.0"
MODELER: Final = "http://camunda.org/schema/modeler/1.0"
CAMUNDA_7: Final = "http://camunda.org/schema/1.0/bpmn"
