"""Element templates: one for each shipped topic, and the shipped diagram uses them unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lxml import etree

import tasks  # registers the topics
from engine.registry import REGISTRY

PROCESSES = Path(__file__).parents[2] / "processes"
BPMN, ZEEBE = "{http://www.omg.org/spec/BPMN/20100524/MODEL}", "{http://camunda.org/schema/zeebe/1.0}"


def templates() -> dict[str, dict[str, Any]]:
    """Element templates by topic."""
    path = PROCESSES / ".camunda" / "element-templates" / "conch.json"
    return {_bound(each, "type"): each for each in json.loads(path.read_text(encoding="utf-8"))}


def _bound(template: dict[str, Any], name: str) -> Any:
    """The value of the property that is bound to the task definition's attribute or the zeebe:property `name`."""
    (value,) = [
        p["value"] for p in template["properties"] if name in (p["binding"].get("property"), p["binding"].get("name"))
    ]
    return value


def test_each_topic_has_a_template_whose_example_shows_its_results() -> None:
    assert tasks.infer is not None
    assert set(templates()) == set(REGISTRY.specs)
    for topic, template in templates().items():
        assert set(json.loads(_bound(template, "camundaModeler:exampleOutputJson"))) == REGISTRY.specs[topic].outputs


def test_shipped_diagram_applies_the_templates_as_they_are() -> None:
    root = etree.parse(PROCESSES / "inference-request.bpmn").getroot()
    shipped = root.findall(f".//{BPMN}serviceTask")
    assert {task.get("id") for task in shipped} == set(templates())
    for task in shipped:
        template = templates()[task.get("id")]
        assert task.get(f"{ZEEBE}modelerTemplate") == template["id"]
        assert task.get(f"{ZEEBE}modelerTemplateVersion") == str(template["version"])
        definition = task.find(f".//{ZEEBE}taskDefinition")
        assert (definition.get("type"), definition.get("retries")) == (
            _bound(template, "type"),
            _bound(template, "retries"),
        )
        example = task.find(f".//{ZEEBE}property")
        assert json.loads(example.get("value")) == json.loads(_bound(template, example.get("name")))
