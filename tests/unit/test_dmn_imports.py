"""Files that import others: found by namespace, named by their prefix, bounded, and told where they cannot be used."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bpmn import check_paths
from engine.dmn import DecisionModel, Library, check_decisions, parse_decisions
from engine.errors import DefinitionInvalid, Problem
from engine.feel import Date, EvaluationContext
from tests.dmn_builders import DMN_13, decision, evaluated, literal, table

RATES = "https://example.com/rates"
RATE = (
    '<businessKnowledgeModel id="rate" name="Rate Of"><variable name="Rate Of"/><encapsulatedLogic>'
    f'<formalParameter name="order" typeRef="tOrder"/>{literal("order.tokens * order.unit price")}'
    "</encapsulatedLogic></businessKnowledgeModel>"
)
ORDER = (
    '<itemDefinition name="tOrder"><itemComponent name="tokens"><typeRef>number</typeRef></itemComponent>'
    '<itemComponent name="unit price"><typeRef>number</typeRef></itemComponent></itemDefinition>'
)


def file(namespace: str, *elements: str) -> bytes:
    return (
        f'<definitions xmlns="{DMN_13}" id="graph" name="Graph" namespace="{namespace}">{"".join(elements)}'
        "</definitions>"
    ).encode()


def imported(name: str, namespace: str, location: str = "") -> str:
    at = f' locationURI="{location}"' if location else ""
    return f'<import name="{name}" namespace="{namespace}" importType="{DMN_13}"{at}/>'


def of(namespace: str, decided: str) -> str:
    """The decision, with the requirements of it that have a `!` meaning those of a namespace."""
    return decided.replace("#!", f"{namespace}#")


def model(xml: bytes, **files: bytes) -> DecisionModel:
    return parse_decisions(xml, "main.dmn", {f"{name}.dmn": content for name, content in files.items()})


def value(read: DecisionModel, decision_id: str, **variables: Any) -> Any:
    return evaluated(read.decisions[decision_id], **variables).value


def problem(xml: bytes, **files: bytes) -> Problem:
    (found,) = check_decisions(xml, "main.dmn", {f"{name}.dmn": content for name, content in files.items()})
    assert found.severity == "error"
    with pytest.raises(DefinitionInvalid):
        model(xml, **files)
    return found


def test_knowledge_and_types_have_the_name_of_the_import_before_theirs() -> None:
    data = '<inputData id="order" name="Order"><variable name="Order" typeRef="my rates.tOrder"/></inputData>'
    logic = literal("if Order instance of my rates.tOrder then my rates.Rate Of(Order) else 0")
    price = of(RATES, decision("Price", logic, ["Input:order"], ["!rate"]))
    main = file("main", imported("my rates", RATES), data, price)
    read = model(main, rates=file(RATES, ORDER, RATE))
    assert value(read, "price", Order={"tokens": 3, "unit price": 2}) == 6
    assert read.decisions["price"].reads == {"Order"}
    assert check_decisions(main, "main.dmn", {"rates.dmn": file(RATES, ORDER, RATE)}) == []


def test_an_import_without_a_name_needs_no_prefix() -> None:
    rates = file(RATES, decision("Base", literal("7")), ORDER)
    main = file(
        "main",
        imported("", RATES),
        decision("Price", literal("Base + 1"), ["Decision:base"], kind="number").replace("#base", f"{RATES}#base"),
        decision("Order", literal("{tokens: 1, unit price: 2}"), kind="tOrder"),
    )
    read = model(main, rates=rates)
    assert value(read, "price") == 8
    assert value(read, "order") == {"tokens": 1, "unit price": 2}


INNER = file(
    "inner",
    '<inputData id="day" name="Day"><variable name="Day" typeRef="date"/></inputData>',
    decision("Year", literal("Day.year"), ["Input:day"]),
)
MIDDLE = file(
    "middle", imported("deep", "inner"), of("inner", decision("Next", literal("deep.Year + 1"), ["Decision:!year"]))
)
OUTER = file(
    "outer", imported("mid", "middle"), of("middle", decision("Last", literal("mid.Next + 1"), ["Decision:!next"]))
)


def test_imports_are_nested_and_input_data_is_found_by_its_own_name_or_along_the_imports() -> None:
    read = model(OUTER, middle=MIDDLE, inner=INNER)
    assert value(read, "last", Day="2024-05-06") == 2026
    assert value(read, "last", Day=Date(2024, 5, 6)) == 2026
    assert value(read, "last", mid={"deep": {"Day": "2030-01-01"}}, Day="2024-05-06") == 2032
    assert value(read, "last") is None
    result = evaluated(read.decisions["last"], Day="2024-05-06")
    assert [each.id for each in result.evaluated] == ["inner.dmn#year", "middle.dmn#next", "last"]
    assert result.details()["required"]["inner.dmn#year"] == {
        "inputs": {"Day": "2024-05-06"},
        "rules": [],
        "value": 2024,
    }


def test_input_data_of_an_import_can_be_required_itself() -> None:
    main = file(
        "main", imported("deep", "inner"), of("inner", decision("Month", literal("deep.Day.month"), ["Input:!day"]))
    )
    read = model(main, inner=INNER)
    assert value(read, "month", Day="2024-05-06") == 5
    assert value(read, "month", deep={"Day": "2024-07-06"}) == 7
    assert value(read, "month") is None


def test_two_files_may_have_the_same_ids_and_one_file_two_names() -> None:
    one = file("one", decision("Same", literal("1")))
    two = file("two", decision("Same", literal("2")))
    wanted = of("one", decision("Sum", literal("a.Same + b.Same"), ["Decision:!same"])).replace(
        "<informationRequirement>",
        '<informationRequirement><requiredDecision href="two#same"/></informationRequirement><informationRequirement>',
        1,
    )
    assert value(model(file("main", imported("a", "one"), imported("b", "two"), wanted), one=one, two=two), "sum") == 3
    twice = of("one", decision("Sum", literal("a.Same + b.Same"), ["Decision:!same"]))
    assert value(model(file("main", imported("a", "one"), imported("b", "one"), twice), one=one), "sum") == 2


def test_an_imported_service_is_called_with_its_inputs() -> None:
    services = file(
        "services",
        '<inputData id="n" name="n"><variable name="n" typeRef="number"/></inputData>',
        decision("Double It", literal("n * 2"), ["Input:n"]),
        '<decisionService id="doubling" name="doubling"><outputDecision href="#double_it"/><inputData href="#n"/>'
        "</decisionService>",
    )
    called = of("services", decision("Answer", literal("s.doubling(n: 21)"), knows=["!doubling"]))
    assert value(model(file("main", imported("s", "services"), called), services=services), "answer", n=1) == 42


def test_of_several_files_with_the_namespace_the_location_decides() -> None:
    files = {f"rates-{usd}.dmn": file(RATES, decision("Base", literal(str(usd)))) for usd in (1, 2)}
    wanted = of(RATES, decision("Answer", literal("r.Base"), ["Decision:!base"]))
    main = file("main", imported("r", RATES, "./somewhere/rates-2.dmn"), wanted)
    assert value(parse_decisions(main, "main.dmn", files), "answer") == 2
    (found,) = check_decisions(file("main", imported("r", RATES), wanted), "main.dmn", files)
    assert (found.rule, found.message) == (
        "ambiguous-import",
        f"the file imports `{RATES}` as `r`, which is the namespace of several files: rates-1.dmn, rates-2.dmn",
    )


def test_a_file_that_is_not_there_is_told_once_with_the_remedy() -> None:
    found = problem(OUTER)
    assert (found.rule, found.element_id) == ("missing-import", "graph")
    assert "`middle` as `mid`" in found.message
    assert "deploy both together" in found.remedy


def test_what_is_wrong_with_an_imported_file_is_told_of_the_import() -> None:
    found = problem(OUTER, middle=MIDDLE)
    assert found.rule == "wrong-import"
    assert found.message.startswith(
        "the imported file middle.dmn has 1 error(s); the first is the missing-import of `graph`: "
    )
    assert found.message.endswith("no file with that namespace is there")


def test_a_requirement_of_what_the_imported_file_does_not_hold_is_told() -> None:
    gone = file("main", imported("deep", "inner"), of("inner", decision("A", literal("deep.B"), ["Decision:!gone"])))
    found = problem(gone, inner=INNER)
    assert (found.rule, found.element_id) == ("dangling-reference", "a")
    assert "`gone`, which is not in the imported file" in found.message


def test_circles_and_depth_and_number_are_bounded() -> None:
    a = file("a", imported("b", "b"), decision("One", literal("1")))
    b = file("b", imported("a", "a"), decision("One", literal("1")))
    (found,) = check_decisions(a, "a.dmn", {"a.dmn": a, "b.dmn": b})
    assert (found.rule, found.message) == ("cyclic-import", "`a.dmn` imports `b.dmn` imports `a.dmn`")
    (found,) = check_decisions(a, "a.dmn", {"a.dmn": a, "b.dmn": file("b", imported("b", "b"), ORDER)})
    assert found.rule == "cyclic-import"

    chain = {f"{n}.dmn": file(f"n{n}", imported("x", f"n{n + 1}"), ORDER) for n in range(200)}
    (found,) = check_decisions(chain["0.dmn"], "0.dmn", chain)
    assert found.rule == "imports-too-deep"
    library = Library(chain | {"200.dmn": file("n200", ORDER)})
    assert parse_decisions(chain["190.dmn"], "190.dmn", library).imported.keys() == {
        f"{n}.dmn" for n in range(191, 201)
    }

    many = {f"{n}.dmn": file(f"n{n}", ORDER) for n in range(60)}
    main = file("main", *(imported(f"x{n}", f"n{n}") for n in range(51)), decision("One", literal("1")))
    assert [each.rule for each in check_decisions(main, "main.dmn", many)] == ["too-many-imports"]


def test_the_content_hash_covers_what_is_imported_and_the_model_names_it() -> None:
    read = model(OUTER, middle=MIDDLE, inner=INNER, other=file("other", ORDER))
    assert read.imported == {"middle.dmn": MIDDLE, "inner.dmn": INNER}
    assert read.decisions["last"].content_hash == read.content_hash
    again = parse_decisions(OUTER, "main.dmn", read.imported)
    assert again.content_hash == read.content_hash
    changed = model(OUTER, middle=MIDDLE, inner=INNER.replace(b"Day.year", b"Day.month"))
    assert changed.content_hash != read.content_hash
    alone = parse_decisions(INNER, "inner.dmn", {"middle.dmn": MIDDLE})
    assert (alone.content_hash, alone.imported) == (hashlib.sha256(INNER).hexdigest(), {})


def test_a_file_of_knowledge_and_types_alone_is_whole() -> None:
    assert check_decisions(file(RATES, ORDER, RATE), "rates.dmn") == []


def test_checking_finds_imports_beside_the_file_and_below_the_folder(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "outer.dmn").write_bytes(OUTER)
    (tmp_path / "middle.dmn").write_bytes(MIDDLE)
    (tmp_path / "shared" / "inner.dmn").write_bytes(INNER)
    assert check_paths([tmp_path], None) == []
    assert [each.rule for each in check_paths([tmp_path / "outer.dmn"], None)] == ["wrong-import"]
    (tmp_path / "inner.dmn").write_bytes(INNER)
    assert check_paths([tmp_path / "outer.dmn"], None) == []


def test_files_that_are_checked_together_import_one_another_before_those_beside_them(tmp_path: Path) -> None:
    files = {"one/outer.dmn": OUTER, "two/middle.dmn": MIDDLE, "two/inner.dmn": INNER}
    for name, xml in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(xml)
    named = [tmp_path / name for name in files]
    assert check_paths(named, None) == []
    (tmp_path / "one" / "inner.dmn").write_bytes(INNER)
    assert check_paths(named, None) == []
    assert check_paths([*named[:2], tmp_path / "two" / ".." / "two" / "middle.dmn"], None) == []


def test_tables_read_what_is_imported() -> None:
    limits = table(["deep.Year"], ["limit"], [["< 2025", "1"], [">= 2025", "2"]])
    main = file("main", imported("deep", "inner"), of("inner", decision("Limit", limits, ["Decision:!year"])))
    result = model(main, inner=INNER).decisions["limit"].evaluate({"Day": "2026-01-01"}, EvaluationContext())
    assert (result.value, result.inputs) == (2, {"deep.Year": 2026})


PIECES = ["import", 'namespace="', "inner", "outer", "middle", '"', "#year", "mid.", "<", "/>", "typeRef", ""]
EDITS = st.lists(
    st.tuples(st.integers(0, len(OUTER)), st.integers(0, 30), st.sampled_from(PIECES) | st.text(max_size=3)), max_size=3
)


@given(EDITS, EDITS)
def test_whatever_is_imported_a_file_is_read_or_refused(
    edits: list[tuple[int, int, str]], others: list[tuple[int, int, str]]
) -> None:
    xml, middle = OUTER, MIDDLE
    for at, length, piece in edits:
        xml = xml[:at] + piece.encode("utf-8", "replace") + xml[at + length :]
    for at, length, piece in others:
        middle = middle[:at] + piece.encode("utf-8", "replace") + middle[at + length :]
    files = {"middle.dmn": middle, "inner.dmn": INNER, "main.dmn": xml}
    if any(each.severity == "error" for each in check_decisions(xml, "main.dmn", files)):
        with pytest.raises(DefinitionInvalid):
            parse_decisions(xml, "main.dmn", files)
    else:
        read = parse_decisions(xml, "main.dmn", files)
        for each in read.decisions.values():
            assert each.evaluate({"Day": "2024-05-06"}, EvaluationContext()).evaluated
        assert parse_decisions(xml, "main.dmn", read.imported).content_hash == read.content_hash
