"""An inference request is a process instance like any other: what Modeler searches shows it."""

from __future__ import annotations

import pytest

from tests.gateway_fixtures import GatewayProcess
from tests.modeler.knocking import Modeler
from tests.system.bodies import texts

pytestmark = [pytest.mark.postgres, pytest.mark.triton, pytest.mark.modeler]


def test_an_inference_request_is_found_with_its_way_through_the_diagram(gateway: GatewayProcess) -> None:
    answered = gateway.post("/v2/models/embed/infer", texts("how was it"))
    assert answered.status_code == 200
    key = answered.headers["conch-process-instance"]
    modeler = Modeler(gateway.url)
    search = {"filter": {"processInstanceKey": key}}
    (instance,) = modeler.post("/v2/process-instances/search", search).json["items"]
    assert (instance["processDefinitionId"], instance["state"]) == ("inference-request", "COMPLETED")
    elements = modeler.post("/v2/element-instances/search", search).json["items"]
    assert {"admit", "check_health", "route", "infer", "settle"} <= {each["elementId"] for each in elements}
    assert {each["state"] for each in elements} == {"COMPLETED"}
    variables = {each["name"]: each["value"] for each in modeler.post("/v2/variables/search", search).json["items"]}
    assert variables["model"] == '"embed"'
    flows = modeler.get(f"/v2/process-instances/{key}/sequence-flows").json["items"]
    assert flows
