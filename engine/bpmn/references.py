"""Owns looking up what a file declares beside its processes: messages, signals, errors, escalations, associations.
Never reads a flow node.
Called by the readers of events and activities.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from lxml import etree

from engine.bpmn.xml import BPMN

_DECLARED: Final = ("message", "signal", "error", "escalation")


class References:
    """The declarations of one file, by kind and id."""

    def __init__(self, root: etree._Element) -> None:
        self._declared = {
            kind: {each.get("id", ""): each for each in root.iterfind(f"{{{BPMN}}}{kind}")} for kind in _DECLARED
        }
        self._associated = defaultdict[str, list[str]](list)
        for association in root.iter(f"{{{BPMN}}}association"):
            self._associated[association.get("sourceRef", "")].append(association.get("targetRef", ""))

    def find(self, kind: str, reference: str) -> etree._Element | None:
        """The declaration with that id; a prefix of the reference's qualified name is left out of account."""
        declared = self._declared[kind]
        return declared.get(reference, declared.get(reference.rpartition(":")[2]))

    def associated(self, source: str) -> list[str]:
        """Ids of the elements that associations lead to from `source`."""
        return self._associated[source]
