"""A file as Camunda Modeler saves it: diagram, annotations, descriptions and attributes that mean nothing here."""

from __future__ import annotations

from engine.dmn import check_decisions, parse_decisions
from tests.dmn_builders import evaluated

SAVED = b"""<?xml version="1.0" encoding="UTF-8"?>
<definitions xmlns="https://www.omg.org/spec/DMN/20191111/MODEL/"
  xmlns:dmndi="https://www.omg.org/spec/DMN/20191111/DMNDI/" xmlns:dc="http://www.omg.org/spec/DMN/20180521/DC/"
  xmlns:di="http://www.omg.org/spec/DMN/20180521/DI/" xmlns:biodi="http://bpmn.io/schema/dmn/biodi/2.0"
  xmlns:modeler="http://camunda.org/schema/modeler/1.0" id="Limits" name="Limits of tenants"
  namespace="http://camunda.org/schema/1.0/dmn" exporter="Camunda Modeler" exporterVersion="5.30.0"
  modeler:executionPlatform="Camunda Cloud" modeler:executionPlatformVersion="8.7.0">
  <decision id="tier" name="Tier">
    <description>Who pays for what.</description>
    <informationRequirement id="Requirement_1"><requiredInput href="#tenant_data" /></informationRequirement>
    <authorityRequirement id="Requirement_3"><requiredAuthority href="#contracts" /></authorityRequirement>
    <decisionTable id="Table_1" hitPolicy="FIRST" biodi:annotationsWidth="200">
      <input id="Input_1" label="Tenant" biodi:width="192">
        <inputExpression id="Expression_1" typeRef="string"><text>tenant</text></inputExpression>
        <inputValues id="Values_1"><text>"acme","other"</text></inputValues>
      </input>
      <output id="Output_1" label="Tier" name="tier" typeRef="string" biodi:width="192" />
      <annotation name="Why" />
      <rule id="Rule_1">
        <description>By contract</description>
        <inputEntry id="Entry_1"><text>"acme"</text></inputEntry>
        <outputEntry id="Entry_2"><text>"gold"</text></outputEntry>
        <annotationEntry><text>paid</text></annotationEntry>
      </rule>
      <rule id="Rule_2">
        <inputEntry id="Entry_3"><text></text></inputEntry>
        <outputEntry id="Entry_4"><text>"basic"</text></outputEntry>
      </rule>
    </decisionTable>
  </decision>
  <decision id="limit" name="Limit">
    <variable id="Item_1" name="limit" typeRef="number" />
    <informationRequirement id="Requirement_2"><requiredDecision href="#tier" /></informationRequirement>
    <literalExpression id="Literal_1"><text>if tier = "gold" then 100 else 10</text></literalExpression>
  </decision>
  <inputData id="tenant_data" name="tenant" />
  <knowledgeSource id="contracts" name="Contracts" />
  <dmndi:DMNDI>
    <dmndi:DMNDiagram>
      <dmndi:DMNShape dmnElementRef="tier"><dc:Bounds height="80" width="180" x="160" y="100" /></dmndi:DMNShape>
      <dmndi:DMNEdge id="Edge_1" dmnElementRef="Requirement_2">
        <di:waypoint x="250" y="180" /><di:waypoint x="250" y="320" />
      </dmndi:DMNEdge>
    </dmndi:DMNDiagram>
  </dmndi:DMNDI>
</definitions>
"""


def test_a_saved_file_has_no_problem_and_runs() -> None:
    assert check_decisions(SAVED, "limits.dmn") == []
    model = parse_decisions(SAVED, "limits.dmn")
    assert (model.requirements_id, model.name) == ("Limits", "Limits of tenants")
    result = evaluated(model.decisions["limit"], tenant="acme")
    assert result.value == 100
    assert result.required == {"tier": "gold"}
    assert evaluated(model.decisions["tier"], tenant="else").details() == {
        "inputs": {"Tenant": "else"},
        "rules": [{"row": 2, "id": "Rule_2"}],
        "required": {},
        "warnings": ['input `Tenant`: \'else\' is none of the input values "acme","other"'],
    }


def test_what_only_camunda_7_reads_is_told() -> None:
    xml = SAVED.replace(
        b"<input id", b'<input xmlns:camunda="http://camunda.org/schema/1.0/dmn" camunda:inputVariable="t" id'
    )
    (problem,) = check_decisions(xml, "limits.dmn")
    assert (problem.rule, problem.severity, problem.element_id) == ("input-variable", "warning", "Input_1")
