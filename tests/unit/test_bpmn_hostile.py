"""Files from strangers: whatever the bytes are, reading them ends quickly, with a reason and without side effects."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bpmn import check, draw, parse
from engine.bpmn.xml import MAX_BYTES, MAX_DEPTH, MAX_ELEMENTS
from engine.errors import DefinitionInvalid, Problem
from tests.every_element import every_element

pytestmark = pytest.mark.slow

EVERY = every_element().to_xml()
SHIPPED = (Path(__file__).parents[2] / "processes" / "inference-request.bpmn").read_bytes()


def refusal(xml: bytes) -> Problem:
    with pytest.raises(DefinitionInvalid) as refused:
        parse(xml, "hostile.bpmn")
    (problem,) = refused.value.problems
    with pytest.raises(DefinitionInvalid) as undrawn:
        draw(xml, None, "hostile.bpmn")
    assert undrawn.value.problems == (problem,)
    return problem


def test_entity_bomb_is_refused_before_anything_expands() -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<!DOCTYPE a [<!ENTITY e0 "boom">{entities}]><a b="&e11;">&e11;</a>'
    assert refusal(bomb.encode()).rule == "doctype-forbidden"


def test_external_entity_is_never_fetched(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    xml = f'<!DOCTYPE a [<!ENTITY x SYSTEM "file://{secret}">]><a>&x;</a>'
    problem = refusal(xml.encode())
    assert problem.rule == "doctype-forbidden"
    assert "the secret" not in str(problem)


def test_doctype_is_found_in_every_encoding() -> None:
    assert refusal('<!DOCTYPE a SYSTEM "http://localhost/a.dtd"><a/>'.encode("utf-16")).rule == "doctype-forbidden"


def test_too_large_file_is_refused_unread() -> None:
    problem = refusal(b"<" * 50_000_000)
    assert problem.rule == "file-too-large"
    assert "50,000,000" in problem.message
    assert f"{MAX_BYTES:,}" in problem.message


def test_size_limit_can_be_set() -> None:
    parse(SHIPPED, "a.bpmn", max_bytes=len(SHIPPED))
    with pytest.raises(DefinitionInvalid):
        parse(SHIPPED, "a.bpmn", max_bytes=len(SHIPPED) - 1)


def test_too_deep_and_too_many_elements_are_refused() -> None:
    assert refusal(b"<a>" * (MAX_DEPTH + 1)).rule == "file-too-complex"
    assert refusal(b"<a>" + b"<b/>" * MAX_ELEMENTS + b"</a>").rule == "file-too-complex"


@pytest.mark.parametrize(
    ("xml", "where"),
    [
        (b"", "line 1, column 1"),
        (b"<a>\n  <b></a>", "line 2, column 8"),
        (b"<a>\n&x;</a>", "line 2, column 1"),
        (b"<a>\n<b:c/></a>", "line 2, column"),
        (b"\x00\xff\xfe", "line 1, column"),
        (b'<?xml version="1.0" encoding="no-such"?><a/>', "line 1, column"),
        (b'<?xml version="1.0" encoding="base64"?><a/>', "line 1, column"),
        (b'<?xml version="1.0" encoding="gbk"?><a/>', "line 1, column"),
        (b'{"this": "is JSON"}', "line 1, column 1"),
    ],
)
def test_broken_xml_is_refused_with_line_and_column(xml: bytes, where: str) -> None:
    problem = refusal(xml)
    assert problem.rule == "not-xml"
    assert problem.message.startswith(where)


PIECES = [
    b"bpmn:serviceTask",
    b"bpmn:startEvent",
    b"bpmn:boundaryEvent",
    b"bpmn:exclusiveGateway",
    b"bpmn:sequenceFlow",
    b"bpmn:subProcess",
    b"zeebe:taskDefinition",
    b"zeebe:ioMapping",
    b"timeDuration",
    b'id="infer"',
    b'id=""',
    b"=error.retryable",
    b"=((((((((((((((((((((",
    b"admit",
    b"infer",
    b'source="="',
    b'x="nan"',
    b'x="1e999"',
    b'width="-1"',
    b"<!DOCTYPE a>",
    b"&lt;",
    b"\xff",
    b"",
]


@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(SHIPPED)), st.integers(0, 60), st.sampled_from(PIECES) | st.binary(max_size=3)),
        min_size=1,
        max_size=4,
    )
)
def test_a_cut_and_pasted_file_is_read_or_refused_and_nothing_else(edits: list[tuple[int, int, bytes]]) -> None:
    xml = SHIPPED
    for at, length, piece in edits:
        xml = xml[:at] + piece + xml[at + length :]
    _read_judged_and_drawn(xml)


@given(st.sampled_from(PIECES), st.sampled_from(PIECES), st.integers(1, 3))
def test_a_file_with_words_exchanged_is_read_or_refused_and_nothing_else(old: bytes, new: bytes, times: int) -> None:
    _read_judged_and_drawn(SHIPPED.replace(old, new, times))


WORDS = sorted(set(re.findall(r"(?:bpmn|zeebe):\w+|\"[^\"]*\"", EVERY)))


@given(st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(WORDS), st.integers(1, 2)), min_size=1, max_size=5))
def test_a_file_of_every_element_with_words_exchanged_is_read_or_refused(edits: list[tuple[str, str, int]]) -> None:
    xml = EVERY
    for old, new, times in edits:
        if old.startswith('"') == new.startswith('"'):
            xml = xml.replace(old, new) if ":" in old else xml.replace(old, new, times)
    definitions, problems = check(xml.encode(), "mutated.bpmn", None)
    assert definitions or problems
    assert all(problem.message and problem.remedy for problem in problems)


def _read_judged_and_drawn(xml: bytes) -> None:
    refusals = []
    for read in (lambda: parse(xml, "mutated.bpmn"), lambda: draw(xml, None)):
        try:
            read()
        except DefinitionInvalid as refused:
            refusals.append(refused)
    assert all(refused.problems for refused in refusals)
    definitions, problems = check(xml, "mutated.bpmn", {}, serves_route=True)
    assert problems  # at least that no task serves its topics
    assert not definitions
