"""Each rule for diagrams has a bad diagram of its own name, refused (or warned about) for that reason alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.bpmn import TopicSpec, check, check_paths, parse
from engine.errors import DefinitionInvalid

ROOT = Path(__file__).parents[2]
DIAGRAMS = sorted((ROOT / "tests" / "diagrams").glob("*.bpmn"))
WARNINGS = {"dead-end", "empty-name", "feel-no-value", "loop-by-default", "no-default-flow"}
# Rules of a file's size, of whole folders, of topics and of what takes several elements are tested below and in the
# other test modules.
ELSEWHERE = {
    "constant-correlation-key",
    "cyclic-call",
    "join-never-completes",
    "person-in-request",
    "unknown-process",
    "unknown-version-tag",
    "file-too-large",
    "file-too-complex",
    "unknown-topic",
    "unknown-variable",
    "duplicate-process-id",
    "no-diagram",
    "no-such-file",
    "unreadable-file",
    "invalid-layout",
    "no-layout",
}


NOTHING: frozenset[str] = frozenset()
SPEC = TopicSpec(NOTHING, NOTHING, NOTHING)


def bad(rule: str) -> bytes:
    return (ROOT / "tests" / "diagrams" / f"{rule}.bpmn").read_bytes()


@pytest.mark.parametrize("path", DIAGRAMS, ids=lambda path: path.stem)
def test_bad_diagram_breaks_the_rule_of_its_name_and_no_other(path: Path) -> None:
    topics = {"labour": SPEC} if path.stem == "id-is-topic" else None
    definitions, problems = check(path.read_bytes(), path.name, topics)
    assert {problem.rule for problem in problems} == {path.stem}
    assert {problem.severity for problem in problems} == {"warning" if path.stem in WARNINGS else "error"}
    assert bool(definitions) == (path.stem in WARNINGS)
    for problem in problems:
        assert problem.file == path.name
        assert problem.message
        assert problem.remedy.endswith(".")


def test_every_rule_has_its_bad_diagram() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "engine" / "bpmn").glob("*.py"))
    rules = set(
        re.findall(
            r'(?<!def )(?:findings\.add|problem_at|_Refused|_invalid|_problem|Problem)\([^"]*?"([a-z0-9-]+)"', code
        )
    )
    assert rules - ELSEWHERE <= {path.stem for path in DIAGRAMS}


def test_feel_error_marks_the_place_and_names_the_element() -> None:
    _, (problem,) = check(bad("feel-syntax"), "a.bpmn", None)
    assert (problem.element_id, problem.element_name) == ("yes", "Yes")
    first, shown, caret = problem.message.split("\n")
    assert "the condition is not valid FEEL: line 1, column 12" in first
    assert shown[caret.index("^") :].startswith("and 3")


def test_refused_element_is_named_with_its_kind_and_remedy() -> None:
    _, (problem,) = check(bad("unsupported-element"), "a.bpmn", None)
    assert str(problem).startswith(
        'a.bpmn: work "Approve": error: an ad-hoc sub-process does not run here [unsupported-element]'
    )


def test_camunda_7_file_is_told_the_camunda_8_word() -> None:
    _, problems = check(bad("camunda-7-dialect"), "a.bpmn", None)
    assert [problem.element_id for problem in problems] == ["", "work", "work"]
    assert "zeebe:taskDefinition" in problems[-1].remedy


def test_all_problems_of_a_file_come_at_once() -> None:
    xml = (
        bad("feel-syntax")
        .replace(b'retries="1"', b'retries="many"')
        .replace(b'targetRef="ended"', b'targetRef="nowhere"', 1)
        .replace(b'name="Started"', b"")
    )
    with pytest.raises(DefinitionInvalid) as refused:
        parse(xml, "a.bpmn")
    assert [p.rule for p in refused.value.problems] == ["feel-syntax", "invalid-retries", "dangling-flow"]
    _, problems = check(xml, "a.bpmn", None)
    assert [p.rule for p in problems] == ["feel-syntax", "invalid-retries", "dangling-flow", "empty-name"]


def test_element_that_does_not_run_causes_no_complaint_about_its_neighbours() -> None:
    _, problems = check(bad("unsupported-element"), "a.bpmn", {})
    assert [problem.rule for problem in problems] == ["unsupported-element"]


# --- topics and variables ---------------------------------------------------------------------------------------

GOOD = bad("id-is-topic").replace(b'type="labour"', b'type="work"')


def test_on_a_route_a_topic_that_no_task_serves_is_refused_with_those_that_are() -> None:
    topics = {"admit": SPEC, "infer": SPEC}
    _, (problem,) = check(GOOD, "a.bpmn", topics, serves_route=True)
    assert (problem.rule, problem.element_id, problem.severity) == ("unknown-topic", "work", "error")
    assert problem.remedy == "Use one of: admit, infer."


def test_elsewhere_a_worker_may_serve_it_and_its_elements_may_be_named_at_will() -> None:
    definitions, (problem,) = check(bad("id-is-topic"), "a.bpmn", {"admit": SPEC})
    assert definitions
    assert (problem.rule, problem.element_id, problem.severity) == ("unknown-topic", "work", "warning")
    assert problem.remedy == "Use one of: admit; or run a worker that activates the jobs of this topic."


def test_variable_that_a_task_requires_and_nothing_produces_is_a_warning() -> None:
    spec = TopicSpec(frozenset("ab"), frozenset("a"), NOTHING)
    definitions, (problem,) = check(GOOD, "a.bpmn", {"work": spec}, serves_route=True)
    assert definitions
    assert (problem.rule, problem.severity) == ("unknown-variable", "warning")
    assert problem.message == "the task requires `a`, which nothing in the process produces"


def test_variable_is_known_from_the_start_event_a_task_or_a_mapping() -> None:
    _, (problem,) = check(bad("condition-on-default-flow").replace(b"=b<", b"=1<"), "a.bpmn", None)
    assert problem.rule == "condition-on-default-flow"
    reads_a = bad("no-default-flow")
    spec = SPEC
    assert "unknown-variable" in _rules(reads_a, spec)
    assert "unknown-variable" not in _rules(reads_a, spec._replace(outputs=frozenset("a")))
    declared = reads_a.replace(
        b'<bpmn:startEvent id="started" name="Started" />',
        b'<bpmn:startEvent id="started" name="Started"><bpmn:extensionElements><zeebe:properties><zeebe:property '
        b'name="camundaModeler:exampleOutputJson" value="{&#34;a&#34;: 1}" /></zeebe:properties>'
        b"</bpmn:extensionElements></bpmn:startEvent>",
    )
    assert "unknown-variable" not in _rules(declared, spec)
    mapped = reads_a.replace(
        b'retries="1" />',
        b'retries="1" /><zeebe:ioMapping><zeebe:output source="=1" target="a.b" /></zeebe:ioMapping>',
    )
    assert "unknown-variable" not in _rules(mapped, spec)
    # with output mappings, the results of the task itself stay inside the task
    assert "unknown-variable" in _rules(mapped.replace(b"a.b", b"c"), spec._replace(outputs=frozenset("a")))


def _rules(xml: bytes, spec: TopicSpec) -> set[str]:
    return {problem.rule for problem in check(xml, "a.bpmn", {"work": spec}, serves_route=True)[1]}


# --- loops ------------------------------------------------------------------------------------------------------


def test_loop_with_a_condition_for_going_round_again_is_fine() -> None:
    xml = bad("loop-by-default").replace(b'default="no"', b'default="yes"')
    condition = xml[xml.index(b"<bpmn:conditionExpression") : xml.index(b"</bpmn:sequenceFlow>")]
    xml = xml.replace(b">\n      " + condition + b"</bpmn:sequenceFlow>", b" />")
    xml = xml.replace(
        b'<bpmn:sequenceFlow id="no" name="No" sourceRef="ready" targetRef="work" />',
        b'<bpmn:sequenceFlow id="no" name="No" sourceRef="ready" targetRef="work">'
        + condition
        + b"</bpmn:sequenceFlow>",
    )
    assert check(xml, "a.bpmn", None)[1] == []


def test_loop_without_work_is_endless_even_with_a_condition() -> None:
    xml = bad("missing-condition").replace(b'targetRef="work" />', b'targetRef="ready" />')
    _, problems = check(xml, "a.bpmn", None)
    (loop,) = [problem for problem in problems if problem.rule == "endless-loop"]
    assert "`ready`" in loop.message


# --- files and folders ------------------------------------------------------------------------------------------


def test_check_walks_folders_and_reports_tables_missing_files_and_shared_process_ids(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.bpmn").write_bytes(GOOD)
    (tmp_path / "sub" / "b.bpmn").write_bytes(GOOD)
    (tmp_path / "prices.dmn").write_bytes(b"<definitions/>")
    (tmp_path / "notes.txt").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    problems = check_paths([tmp_path, tmp_path / "gone.bpmn", tmp_path / "notes.txt", tmp_path / "empty"], None)
    assert [(Path(p.file).name, p.rule, p.severity) for p in problems] == [
        ("prices.dmn", "not-dmn", "error"),
        ("b.bpmn", "duplicate-process-id", "error"),
        ("gone.bpmn", "no-such-file", "error"),
        ("notes.txt", "no-diagram", "error"),
        ("empty", "no-diagram", "warning"),
    ]


def test_naming_a_file_twice_is_no_conflict(tmp_path: Path) -> None:
    (tmp_path / "a.bpmn").write_bytes(GOOD)
    assert check_paths([tmp_path, tmp_path / "a.bpmn"], None) == []


def test_a_part_without_a_value_is_doubted_at_its_place_and_deployed_all_the_same() -> None:
    definitions, (problem,) = check(bad("feel-no-value"), "a.bpmn", None)
    assert definitions
    assert (problem.rule, problem.severity, problem.element_id) == ("feel-no-value", "warning", "yes")
    first, shown, caret = problem.message.split("\n")
    assert "no function 'decimals'; did you mean 'decimal'?" in first
    assert shown[caret.index("^") :].startswith("decimals")
    assert parse(bad("feel-no-value"), "a.bpmn")
