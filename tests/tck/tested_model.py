"""Owns the models that test files name: found in the test's folder with what they import, and what of them can be run.
Never executes anything that the engine refuses; what is refused is remembered with the reason.
Called by the runner of test files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lxml import etree

from engine.dmn import Decision, DecisionModel, Library, parse_decisions
from engine.errors import DefinitionInvalid, Problem
from tests.tck.typed_value import children, name_of

_PARSER: Final = etree.XMLParser(resolve_entities=False, no_network=True)


@dataclass(frozen=True)
class TestedModel:
    """A model, less the parts that are refused; `refused` says why, by name, under "" for all of it."""

    decisions: Mapping[str, Decision]
    services: Mapping[str, Decision]
    outputs: Mapping[str, int]  # of each service, how many
    called: Mapping[str, Decision]  # business knowledge models, each as a decision that calls it with its parameters
    refused: Mapping[str, str]

    def why_not(self, name: str) -> str:
        """The reason why something cannot be run."""
        return self.refused.get(name) or self.refused.get("") or "the model has nothing of that name"


def refused_model(reason: str) -> TestedModel:
    """A model of which nothing can be run."""
    return TestedModel({}, {}, {}, {}, {"": reason})


def read_model(path: Path, *, to_call: bool = False) -> TestedModel:
    """The model of a file, on demand with its business knowledge models `to_call`.

    A refused part hides no other: it is taken out, and what remains is read again.
    """
    try:
        root = etree.parse(str(path), _PARSER).getroot()
    except OSError:
        return refused_model(f"there is no model {path.name}")
    except etree.XMLSyntaxError as error:
        return refused_model(f"{path.name} is not XML: {error}")
    outputs = {name_of(each): len(children(each, "outputDecision")) for each in children(root, "decisionService")}
    callers = _add_callers(root) if to_call else {}
    library = Library({each.name: each.read_bytes() for each in path.parent.glob("*.dmn") if each.is_file()})
    refused: dict[str, str] = {}
    while True:
        try:
            model = parse_decisions(etree.tostring(root), path.name, library)
        except DefinitionInvalid as invalid:
            if not _take_out(root, invalid.problems, refused):
                return TestedModel({}, {}, {}, {}, {"": _reason(invalid.problems[0]), **refused})
        except Exception as error:  # a fault of the engine is an outcome of this model's cases, and the next is tried
            return refused_model(f"the engine broke: {error!r}")
        else:
            return _tested(model, outputs, callers, refused)


def _tested(
    model: DecisionModel, outputs: dict[str, int], callers: dict[str, str], refused: dict[str, str]
) -> TestedModel:
    own = {each.name: each for key, each in model.decisions.items() if key not in callers}
    services = {each.name: each for each in model.services.values()}
    called = {callers[key]: each for key, each in model.decisions.items() if key in callers}
    return TestedModel(own, services, outputs, called, refused)


def _take_out(root: etree._Element, problems: tuple[Problem, ...], refused: dict[str, str]) -> bool:
    """Remove the parts with errors; false where an error lies in no part of its own."""
    found = False
    for problem in problems:
        part = _part(root, problem.element_id) if problem.severity == "error" else None
        if part is not None:
            refused[name_of(part)] = _reason(problem)
            root.remove(part)
            found = True
    return found


def _reason(problem: Problem) -> str:
    return f"refused: {problem.message} [{problem.rule}]"


def _part(root: etree._Element, element_id: str) -> etree._Element | None:
    found = next((each for each in root.iter() if element_id and each.get("id") == element_id), None)
    while found is not None and found is not root and found.getparent() is not root:
        found = found.getparent()
    return None if found is root else found


def _add_callers(root: etree._Element) -> dict[str, str]:
    """Give the model, for each business knowledge model, a decision that calls it; their ids, and what they call."""
    callers: dict[str, str] = {}
    for knowledge in children(root, "businessKnowledgeModel"):
        own_id = knowledge.get("id")
        if own_id:
            callers[f"call-{own_id}"] = name_of(knowledge)
            _add_caller(root, knowledge, own_id)
    return callers


def _add_caller(root: etree._Element, knowledge: etree._Element, own_id: str) -> None:
    """The decision invokes the model with an input for each of its parameters."""
    space = f"{{{etree.QName(knowledge).namespace}}}"
    decision = etree.SubElement(root, f"{space}decision", {"id": f"call-{own_id}", "name": f"call {own_id}"})
    names = [
        name_of(parameter)
        for function in children(knowledge, "encapsulatedLogic")
        for parameter in children(function, "formalParameter")
    ]
    for number, name in enumerate(names):
        given = etree.SubElement(root, f"{space}inputData", {"id": f"{number}-{own_id}", "name": name})
        etree.SubElement(given, f"{space}variable", {"name": name})
        requirement = etree.SubElement(decision, f"{space}informationRequirement")
        etree.SubElement(requirement, f"{space}requiredInput", {"href": f"#{number}-{own_id}"})
    requirement = etree.SubElement(decision, f"{space}knowledgeRequirement")
    etree.SubElement(requirement, f"{space}requiredKnowledge", {"href": f"#{own_id}"})
    invocation = etree.SubElement(decision, f"{space}invocation")
    _add_text(invocation, space, name_of(knowledge))
    for name in names:
        binding = etree.SubElement(invocation, f"{space}binding")
        etree.SubElement(binding, f"{space}parameter", {"name": name})
        _add_text(binding, space, name)


def _add_text(parent: etree._Element, space: str, text: str) -> None:
    literal = etree.SubElement(parent, f"{space}literalExpression")
    etree.SubElement(literal, f"{space}text").text = text
