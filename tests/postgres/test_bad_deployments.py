"""Bad files over a good version: everything that is wrong is told at once, nothing changes, the old version serves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.bpmn import check
from engine.bpmn.definition import ElementType
from engine.errors import DefinitionInvalid
from engine.uploads import Resource
from tests.builders import Diagram
from tests.postgres.test_deployments import ROUTE, TOPICS, Gateway, answering, resource, running

pytestmark = pytest.mark.postgres

DIAGRAMS = sorted((Path(__file__).parents[1] / "diagrams").glob("*.bpmn"))


def entity_bomb() -> bytes:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    return f'<!DOCTYPE a [<!ENTITY e0 "boom">{entities}]><a b="&e11;">&e11;</a>'.encode()


def edited(old: str, new: str) -> bytes:
    """The good diagram with something replaced."""
    xml = answering().to_xml()
    assert old in xml
    return xml.replace(old, new).encode()


def looping() -> Diagram:
    """Two gateways that lead into each other without a wait."""
    diagram = Diagram(ROUTE).start().gateway("again").gateway("once_more").end()
    diagram.path("started", "again", "once_more").flow("once_more", "again", default=True)
    return diagram.flow("once_more", "ended", when="=done")


def approving() -> Diagram:
    return Diagram(ROUTE).start().user_task("approve").end().path("started", "approve", "ended")


def miscalculating() -> bytes:
    mapping = '<zeebe:ioMapping><zeebe:input source="=1 +" target="x"/></zeebe:ioMapping>'
    return edited("<zeebe:taskDefinition", f"{mapping}<zeebe:taskDefinition")


BAD = {
    "broken-xml": (answering().to_xml().encode()[:-20], {"not-xml"}),
    "empty": (b"", {"not-xml"}),
    "external-entity": (b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', {"doctype-forbidden"}),
    "entity-bomb": (entity_bomb(), {"doctype-forbidden"}),
    "50-mb": (b"<" * 50_000_000, {"file-too-large"}),
    "deep": (b"<a>" * 1_000 + b"</a>" * 1_000, {"file-too-complex"}),
    "not-bpmn": (b"<a/>", {"not-bpmn"}),
    "duplicate-id": (edited('id="ended"', 'id="ask"'), {"duplicate-id"}),
    "dangling-flow": (edited('targetRef="ended"', 'targetRef="nowhere"'), {"dangling-flow"}),
    "unknown-topic": (resource(answering("nobodys")).content, {"unknown-topic"}),
    "wrong-feel": (miscalculating(), {"feel-syntax"}),
    "unreachable": (resource(answering().task("tell").flow("tell", "ended")).content, {"unreachable"}),
    "endless-loop": (resource(looping()).content, {"endless-loop"}),
    "cyclic-call": (resource(answering("ask", ROUTE)).content, {"cyclic-call"}),
    "person": (resource(approving()).content, {"person-in-request"}),
    "long-id": (resource(Diagram("x" * 300).start().end().path("started", "ended")).content, {"invalid-id"}),
}


def test_each_kind_of_bad_file_is_refused_and_the_old_version_serves(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        await gateway.deploy(answering())
        serving = gateway.deployments.serving(ROUTE)
        for name, (content, rules) in BAD.items():
            told = await gateway.refused(Resource(f"{name}.bpmn", content))
            assert rules <= {rule for _, _, rule in told}, (name, told)
            assert gateway.deployments.serving(ROUTE) is serving
        assert len(await gateway.deployments.history(ROUTE)) == 1

    running(audit_url, scenario)


def test_every_bad_diagram_of_the_rules_is_refused_with_the_same_words_as_conch_check(audit_url: str) -> None:
    def bad() -> Iterator[tuple[Resource, set[str]]]:
        for path in DIAGRAMS:
            file = Resource(path.name, path.read_bytes())
            _, problems = check(file.content, file.name, TOPICS)
            if errors := {str(each) for each in problems if each.severity == "error"}:
                yield file, errors

    async def scenario(gateway: Gateway) -> None:
        await gateway.deploy(answering())
        files = list(bad())
        assert len(files) >= 20
        with pytest.raises(DefinitionInvalid) as refused:
            await gateway.deploy(*(file for file, _ in files), answering("tell"))
        told = {str(each) for each in refused.value.problems}
        assert set().union(*(errors for _, errors in files)) <= told
        assert not [each for each in refused.value.problems if each.file == "answer.bpmn"]
        assert gateway.serving() == (1, 0)

    running(audit_url, scenario)


def test_all_that_is_wrong_with_several_files_is_told_at_once(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        await gateway.deploy(answering())
        many = answering("nobodys", "nobody", process_id=ROUTE).task("lonely").flow("lonely", "ended")
        told = await gateway.refused(
            many,
            *(Resource(f"{name}.bpmn", content) for name, (content, _) in BAD.items() if name.startswith(("b", "e"))),
            Resource("robot.rpa", b""),
            Resource("form.form", b"[]"),
        )
        assert {rule for _, _, rule in told} >= {
            *("unknown-topic", "unknown-process", "unreachable", "not-xml", "doctype-forbidden"),
            *("endless-loop", "unsupported-file", "missing-id"),
        }
        assert gateway.serving() == (1, 0)

    running(audit_url, scenario)


def test_problems_name_elements_in_any_script(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        diagram = Diagram("工作").start().node("ماموریت", ElementType.TASK, name="Prüfung 审核 \U0001f409").end()
        diagram.path("started", "ended")
        with pytest.raises(DefinitionInvalid) as refused:
            await gateway.deploy(Resource("工作.bpmn", diagram.to_xml().encode()))
        (problem,) = [each for each in refused.value.problems if each.rule == "unreachable"]
        assert problem[:3] == ("工作.bpmn", "ماموریت", "Prüfung 审核 \U0001f409")

    running(audit_url, scenario)


def test_nothing_of_an_entity_or_a_file_reaches_what_is_told(audit_url: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret")

    async def scenario(gateway: Gateway) -> None:
        xml = f'<!DOCTYPE a [<!ENTITY x SYSTEM "file://{secret}">]><a>&x;</a>'
        with pytest.raises(DefinitionInvalid) as refused:
            await gateway.deploy(Resource("a.bpmn", xml.encode()), Resource("a.dmn", xml.encode()))
        assert "the secret" not in str(refused.value)

    running(audit_url, scenario)
