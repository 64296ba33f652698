"""The runner of compliance suites: what is right counts as passed, and everything else as failed, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tck import Outcome, counted_by_file, counted_by_level, files_of, outcomes_of
from tests.tck.__main__ import main
from tests.tck.report import report

MODEL_SPACE = "https://www.omg.org/spec/DMN/20230324/MODEL/"
CASE_SPACE = "http://www.omg.org/spec/DMN/20160719/testcase"
NIL = '<value xsi:nil="true"/>'
INPUT = '<inputData id="_in" name="in put"><variable name="in put"/></inputData>'
SERVICE = (
    '<decisionService id="_s" name="both"><outputDecision href="#_d0"/><outputDecision href="#_d1"/></decisionService>'
    '<decisionService id="_t" name="first"><outputDecision href="#_d0"/></decisionService>'
)
KNOWLEDGE = (
    '<businessKnowledgeModel id="_k" name="twice as much"><variable name="twice as much"/><encapsulatedLogic>'
    '<formalParameter name="a number"/><literalExpression><text>2 * a number</text></literalExpression>'
    "</encapsulatedLogic></businessKnowledgeModel>"
)


def decision(number: int, expression: str, *, reads: bool = False) -> str:
    escaped = expression.replace("&", "&amp;").replace("<", "&lt;")
    required = '<informationRequirement><requiredInput href="#_in"/></informationRequirement>' if reads else ""
    return (
        f'<decision id="_d{number}" name="d{number}"><variable name="d{number}"/>{required}'
        f"<literalExpression><text>{escaped}</text></literalExpression></decision>"
    )


def result(expected: str, name: str = "d0", attributes: str = "") -> str:
    return f'<resultNode name="{name}" {attributes}><expected>{expected}</expected></resultNode>'


def typed(kind: str, text: str) -> str:
    return f'<value xsi:type="xsd:{kind}">{text}</value>'


def case(content: str, attributes: str = "") -> str:
    return f'<testCase id="c1" {attributes}>{content}</testCase>'


def write(folder: Path, parts: str, cases: str, *, model_name: str = "<modelName>m.dmn</modelName>") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "m.dmn").write_text(
        f'<definitions xmlns="{MODEL_SPACE}" id="m" name="m" namespace="m">{parts}</definitions>'
    )
    test = folder / "m-test-01.xml"
    test.write_text(
        f'<testCases xmlns="{CASE_SPACE}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        f' xmlns:xsd="http://www.w3.org/2001/XMLSchema">{model_name}{cases}</testCases>'
    )
    return test


def run(folder: Path) -> list[Outcome]:
    return [outcome for file in files_of(folder) for outcome in outcomes_of(file)]


def only(folder: Path, parts: str, cases: str) -> Outcome:
    write(folder, parts, cases)
    (outcome,) = run(folder)
    return outcome


def items(*values: str) -> str:
    return f"<list>{''.join(f'<item>{value}</item>' for value in values)}</list>"


ONE_ENTRY = items(f'<component name="c">{typed("decimal", "1")}</component>')
RIGHT = [
    ("1 + 1", typed("decimal", "2")),
    ("1 + 1", typed("integer", " 2 ")),
    ("1.50", typed("double", "1.5E0")),
    ("10 / 3", typed("decimal", "3.33333333333333")),
    ('"a "', typed("string", "a ")),
    ('"<b>"', "<value><![CDATA[<b>]]></value>"),
    ('""', typed("string", "")),
    ("true", typed("boolean", "1")),
    ("null", NIL),
    ("null", ""),
    ("null", '<list xsi:nil="true"/>'),
    ("[]", "<list/>"),
    ('date("2024-02-29")', typed("date", "2024-02-29")),
    ('date("-0044-03-15")', typed("date", "-0044-03-15")),
    ('time("10:00:00+00:00")', typed("time", "10:00:00Z")),
    ('date and time("2024-07-01T10:00:00@Europe/Berlin")', typed("dateTime", "2024-07-01T10:00:00+02:00")),
    ('duration("PT36H")', typed("duration", "P1DT12H")),
    ('duration("P12M")', typed("yearMonthDuration", "P1Y")),
    ("[1, [null]]", items(typed("decimal", "1"), items(NIL))),
    (
        '{"a b": [{c: 1}], n: null}',
        f'<component name="n" xsi:nil="true"/><component name="a b">{ONE_ENTRY}</component>',
    ),
]
WRONG = [
    ("3", typed("decimal", "2")),
    ("2.001", typed("decimal", "2.00")),
    ("3.333333333", typed("decimal", "3.33333333333333")),
    ('"2"', typed("decimal", "2")),
    ("2", typed("string", "2")),
    ("true", typed("decimal", "1")),
    ('"a"', typed("string", "a ")),
    ('"true"', typed("boolean", "true")),
    ("false", NIL),
    ("0", NIL),
    ('""', NIL),
    ("[]", NIL),
    ("null", typed("string", "")),
    ("null", "<list/>"),
    ("[2, 1]", items(typed("decimal", "1"), typed("decimal", "2"))),
    ("[1, 2]", items(typed("decimal", "1"))),
    ("1", items(typed("decimal", "1"))),
    ("{a: 1, b: 2}", f'<component name="a">{typed("decimal", "1")}</component>'),
    ("{a: 2}", f'<component name="a">{typed("decimal", "1")}</component>'),
    ("{}", f'<component name="a">{NIL}</component>'),
    ('"2024-02-29"', typed("date", "2024-02-29")),
    ('date and time("2024-02-29T00:00:00")', typed("date", "2024-02-29")),
    ('date and time("2024-07-01T08:00:00Z")', typed("dateTime", "2024-07-01T10:00:00+02:00")),
    ('time("10:00:00")', typed("time", "10:00:00Z")),
    ('duration("P1M")', typed("duration", "P30D")),
]
UNREADABLE = [
    typed("colour", "red"),
    typed("decimal", "NaN"),
    typed("double", "INF"),
    typed("integer", "1.5"),
    typed("boolean", "yes"),
    typed("date", "2024-02-30"),
    typed("decimal", "1") * 2,
    "<value><b/></value>",
    "bare",
    "<component>1</component>",
    f'<component name="a">{NIL}</component>' * 2,
    f"{NIL}<list/>",
]


@pytest.mark.parametrize(("expression", "expected"), RIGHT)
def test_the_expected_value_passes(tmp_path: Path, expression: str, expected: str) -> None:
    assert only(tmp_path, decision(0, expression), case(result(expected))) == (
        "-",
        "m-test-01",
        "c1",
        "d0",
        True,
        "",
        "",
        (),
    )


@pytest.mark.parametrize(("expression", "expected"), WRONG)
def test_any_other_value_fails(tmp_path: Path, expression: str, expected: str) -> None:
    outcome = only(tmp_path, decision(0, expression), case(result(expected)))
    assert not outcome.passed
    assert outcome.expected
    assert outcome.actual
    assert outcome.expected != outcome.actual


@pytest.mark.parametrize("value", UNREADABLE)
def test_a_value_that_cannot_be_read_fails_its_case_alone(tmp_path: Path, value: str) -> None:
    given = f'<inputNode name="in put">{value}</inputNode>'
    right = result(NIL)
    write(tmp_path, decision(0, "null"), case(result(value)) + case(given + right) + case(right))
    expected, input_node, other = run(tmp_path)
    assert not expected.passed
    assert not input_node.passed
    assert "cannot be read" in expected.reasons[0]
    assert "cannot be read" in input_node.reasons[0]
    assert other.passed


def test_inputs_reach_the_decision_with_their_types(tmp_path: Path) -> None:
    value = items(f'<component name="at">{typed("date", "2024-01-01")}</component>', typed("decimal", "0.1"))
    given = f'<inputNode name=" in  put ">{value}</inputNode>'
    parts = INPUT + decision(0, 'in put[1].at + duration("P1D") = @"2024-01-02" and in put[2] = 0.1', reads=True)
    assert only(tmp_path, parts, case(given + result(typed("boolean", "true")))).passed


@pytest.mark.parametrize(("expression", "passed"), [("1 + null", True), ("null", True), ("1", False), ("false", False)])
def test_an_expected_error_is_a_null(tmp_path: Path, expression: str, passed: bool) -> None:
    outcome = only(tmp_path, decision(0, expression), case(result(NIL, "d0", 'errorResult="true"')))
    assert outcome.passed is passed
    assert outcome.expected == ("" if passed else "an error")


def test_a_failure_tells_the_warnings(tmp_path: Path) -> None:
    outcome = only(tmp_path, decision(0, '1 + "a"'), case(result(typed("decimal", "2"))))
    assert outcome.actual == "null"
    assert "number" in outcome.reasons[0]


def test_a_refused_decision_fails_alone_and_says_why(tmp_path: Path) -> None:
    one, null = result(typed("decimal", "1")), result(NIL, "d1", 'errorResult="true"')
    write(tmp_path, decision(0, "1") + decision(1, "1 +"), case(one + null))
    good, bad = run(tmp_path)
    assert good.passed
    assert not bad.passed
    assert "feel-syntax" in bad.reasons[0]


def test_services_and_knowledge_models_are_called(tmp_path: Path) -> None:
    one, two = result(typed("decimal", "1"), "d0"), result(typed("string", "2"), "d1")
    service = 'type="decisionService" invocableName="{}"'
    given = f'<inputNode name="a number">{typed("decimal", "21")}</inputNode>'
    called = 'type="bkm" invocableName="twice as much"'
    write(
        tmp_path,
        decision(0, "1") + decision(1, '"2"') + SERVICE + KNOWLEDGE,
        case(one + two + result(NIL, "d2"), service.format("both"))
        + case(one, service.format("first"))
        + case(given + result(typed("decimal", "42"), "twice as much"), called)
        + case(given + result(typed("decimal", "41"), "twice as much"), called)
        + case(one, service.format("none"))
        + case(one, 'type="colour"'),
    )
    assert [outcome.passed for outcome in run(tmp_path)] == [True, True, False, True, True, False, False, False]


def test_imported_models_are_those_beside_the_model(tmp_path: Path) -> None:
    parts = '<import namespace="lib" name="lib" importType="https://www.omg.org/spec/DMN/20230324/MODEL/"/>'
    needs = '<knowledgeRequirement><requiredKnowledge href="lib#_k"/></knowledgeRequirement>'
    parts += decision(0, "lib.twice as much(21)").replace("<literal", f"{needs}<literal", 1)
    write(tmp_path, parts, case(result(typed("decimal", "42"))))
    (missing,) = run(tmp_path)
    (tmp_path / "lib.dmn").write_text(
        f'<definitions xmlns="{MODEL_SPACE}" id="lib" name="lib" namespace="lib">{KNOWLEDGE}</definitions>'
    )
    (found,) = run(tmp_path)
    assert "missing-import" in missing.reasons[0]
    assert not missing.passed
    assert found.passed, found


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("<modelName>other.dmn</modelName>", "there is no model other.dmn"),
        ("<modelName>broken.dmn</modelName>", "broken.dmn is not XML"),
        ("<modelName>empty.dmn</modelName>", "refused"),
        ("", "names no model"),
    ],
)
def test_a_missing_or_broken_model_fails_every_result(tmp_path: Path, broken: str, reason: str) -> None:
    (tmp_path / "broken.dmn").write_text("<definitions")
    (tmp_path / "empty.dmn").write_text("<definitions/>")
    write(tmp_path, decision(0, "null"), case(result(NIL)) * 2, model_name=broken)
    outcomes = run(tmp_path)
    assert [outcome.passed for outcome in outcomes] == [False, False]
    assert reason in outcomes[0].reasons[0]


@pytest.mark.parametrize("content", ["<testCases", "", "<testCases/>", "<testCases><testCase id='1'/></testCases>"])
def test_a_test_file_that_tries_nothing_is_a_failure(tmp_path: Path, content: str) -> None:
    write(tmp_path, decision(0, "1"), "").write_text(content)
    assert [outcome.passed for outcome in run(tmp_path)] == [False]


def suite(root: Path) -> Path:
    parts = decision(0, "1") + decision(1, "2")
    good, bad = case(result(typed("decimal", "1"))), case(result(typed("decimal", "1"), "d1"))
    write(root / "compliance-level-2" / "0001-a", parts, good)
    write(root / "compliance-level-3" / "0002-b", parts, good + bad)
    write(root / "non-compliant" / "0003-c", parts, bad)
    return root


def test_levels_are_those_of_the_folders(tmp_path: Path) -> None:
    suite(tmp_path)
    assert counted_by_level(run(tmp_path)) == {"2": (1, 1), "3": (1, 2)}
    assert counted_by_level(run(tmp_path / "compliance-level-3")) == {"3": (1, 2)}
    assert counted_by_file(run(tmp_path / "compliance-level-2" / "0001-a")) == {("2", "m-test-01"): (1, 1)}
    assert counted_by_level(run(tmp_path / "non-compliant")) == {"non-compliant": (0, 1)}
    assert [file.level for file in files_of(tmp_path, non_compliant=True)] == ["2", "3", "non-compliant"]


def test_the_command_counts_and_says_what_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(suite(tmp_path))
    assert main([folder, "--level", "2", "--failures"]) == 0
    assert "Level 2: passed 1 of 1" in capsys.readouterr().out
    assert main([folder, "--failures"]) == 1
    told = capsys.readouterr().out
    assert "m-test-01  passed 1 of 2" in told
    assert "case c1, d1\n      expected  1\n      actual    2\n" in told
    assert "Level 3: passed 1 of 2" in told
    assert "Total: passed 2 of 3" in told
    assert "actual" not in (main([folder]), capsys.readouterr().out)[1]


@pytest.mark.parametrize(
    "arguments", [[], ["{}/missing"], ["{}/compliance-level-2", "--level", "3"], ["{}", "--level", "4"]]
)
def test_wrong_use_is_told(tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    suite(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main([argument.format(tmp_path) for argument in arguments])
    assert stopped.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    assert "examples:" in capsys.readouterr().out


def test_a_failure_says_which_part_of_the_file_it_is_of() -> None:
    failed = [
        Outcome("2", "file", case, node, False) for case, node in [("", ""), ("1", ""), ("", "answer"), ("1", "answer")]
    ]
    places = [line.strip() for line in report(failed, failures=True) if line.startswith("    ")]
    assert places == ["the whole file", "case 1", "answer", "case 1, answer"]
