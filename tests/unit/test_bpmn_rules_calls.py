"""Processes that call each other: unknown processes and versions, and circles, named whole."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engine.bpmn import check_paths
from engine.bpmn.calls import called_processes, called_transitively, circles, lint_calls
from engine.bpmn.definition import Binding, ProcessDefinition
from tests.builders import Diagram


def caller(process_id: str, *called: str, binding: Binding = Binding.LATEST, tag: str | None = None) -> Diagram:
    diagram = Diagram(process_id, version_tag="v1").start().end()
    calls = [f"call_{each}" for each in called]
    for id, each in zip(calls, called, strict=True):
        diagram.call(id, each, binding, tag)
    return diagram.path("started", *calls, "ended")


def found(*definitions: ProcessDefinition) -> list[tuple[str, str, str]]:
    return [(each.rule, each.element_id, each.severity) for each in lint_calls(definitions)]


def test_a_call_that_leaves_the_files_is_warned_about() -> None:
    for binding in Binding:
        one = caller("one", "two", binding=binding, tag="v1").build()
        assert found(one, caller("two").build()) == []
        assert found(one) == [("unknown-process", "call_two", "warning")]


def test_a_version_tag_that_the_called_file_does_not_have_is_warned_about() -> None:
    one = caller("one", "two", binding=Binding.VERSION_TAG, tag="v2").build()
    assert found(one, caller("two").build()) == [("unknown-version-tag", "call_two", "warning")]


def test_a_process_that_calls_itself_is_refused() -> None:
    (problem,) = lint_calls([caller("one", "one").build()])
    assert problem.rule == "cyclic-call"
    assert "`one` -> `one`" in problem.message


def test_a_circle_is_named_whole_at_each_call_in_it() -> None:
    files = [caller("one", "two").build(), caller("two", "three").build(), caller("three", "one", "four").build()]
    problems = list(lint_calls([*files, caller("four").build()]))
    assert [(each.file, each.element_id) for each in problems] == [
        ("one.bpmn", "call_two"),
        ("two.bpmn", "call_three"),
        ("three.bpmn", "call_one"),
    ]
    assert len({each.message for each in problems}) == 1
    assert "`one` -> `two` -> `three` -> `one`" in problems[0].message


def test_what_serves_a_route_is_followed_through_calls() -> None:
    calls = {"one": {"two"}, "two": {"three"}, "four": {"five"}}
    assert called_transitively(["one"], calls) == {"one", "two", "three"}
    assert called_processes(caller("one", "two", "three").build()) == {"two", "three"}


names = st.sampled_from("abcdef")


@given(st.dictionaries(names, st.frozensets(names, max_size=4)))
def test_every_call_that_leads_back_is_on_a_circle_that_is_told(calls: dict[str, frozenset[str]]) -> None:
    told = circles(calls)
    assert circles(dict(sorted(calls.items(), reverse=True))) == told
    for circle in told:
        assert circle[0] == circle[-1]
        assert len(set(circle)) == len(circle) - 1
        assert all(called in calls[each] for each, called in pairwise(circle))
    on_circles = {call for circle in told for call in pairwise(circle)}
    known = {each: called & calls.keys() for each, called in calls.items()}
    for each, targets in known.items():
        for called in targets:
            assert ((each, called) in on_circles) == (each in called_transitively([called], known))


def test_files_checked_together_are_judged_together(tmp_path: Path) -> None:
    (tmp_path / "a.bpmn").write_text(caller("one", "two").to_xml(), encoding="utf-8")
    (tmp_path / "b.bpmn").write_text(caller("two", "one", "elsewhere").to_xml(), encoding="utf-8")
    problems = check_paths([tmp_path], None)
    assert [(Path(each.file).name, each.rule) for each in problems] == [
        ("a.bpmn", "cyclic-call"),
        ("b.bpmn", "cyclic-call"),
        ("b.bpmn", "unknown-process"),
    ]


def test_a_process_that_a_route_calls_must_be_served_by_our_tasks(tmp_path: Path) -> None:
    (tmp_path / "a.bpmn").write_text(caller("one", "two").to_xml(), encoding="utf-8")
    worked = Diagram("two").start().task("work").end().path("started", "work", "ended")
    (tmp_path / "b.bpmn").write_text(worked.to_xml(), encoding="utf-8")
    for serving, workers, severity in ((["one"], True, "error"), ([], True, "warning"), ([], False, "error")):
        (problem,) = check_paths([tmp_path], {}, serving=serving, workers=workers)
        assert (problem.rule, problem.severity) == ("unknown-topic", severity)
