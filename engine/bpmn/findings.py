"""Owns the list of problems that reading one file collects.
Never decides what is wrong.
Called by the readers of the dialect.
"""

from __future__ import annotations

from lxml import etree

from engine.errors import Problem


class Findings:
    """Problems of one file, in the order they were found."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._found: dict[Problem, None] = {}
        self.complete = True  # every flow node, sequence flow and condition of every process could be read

    def add(
        self,
        element: etree._Element | None,
        rule: str,
        message: str,
        remedy: str,
        *,
        hole: bool = False,
        severity: str = "error",
    ) -> None:
        """Note a problem at `element`, or at the file as a whole; a hole is something that paths lead through."""
        element_id = "" if element is None else element.get("id", "")
        name = "" if element is None else name_of(element)
        self._found.setdefault(Problem(self.file, element_id, name, rule, message, remedy, severity))
        self.complete = self.complete and not hole

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Each once, even where an element breaks a rule twice in the same way."""
        return tuple(self._found)


def name_of(element: etree._Element) -> str:
    """The element's name with line breaks and runs of blanks as one blank."""
    return " ".join(element.get("name", "").split())
