"""What a problem looks like in one line."""

from __future__ import annotations

from engine.errors import Problem


def test_a_name_cannot_forge_a_line_of_the_terminal() -> None:
    name = "harmless\x1b[2J\u202eetag\nfile.bpmn: ok"
    line = str(Problem("file.bpmn", "id", name, "rule", "is wrong", "Mend it."))

    assert line == (
        'file.bpmn: id "harmless\\u001b[2J\\u202eetag\\u000afile.bpmn: ok": error: is wrong [rule] Mend it.'
    )


def test_a_name_in_any_script_is_shown_as_it_is() -> None:
    assert "Prüfung 审核 مراجعة 👩‍⚖️" in str(Problem("f", "i", "Prüfung 审核 مراجعة 👩‍⚖️", "rule", "is wrong", ""))


def test_the_text_that_a_message_points_into_stands_below_the_problem() -> None:
    problem = Problem("f", "i", "", "rule", "line 1: no\n  a && b\n    ^\x1b", "Mend it.")
    assert str(problem) == "f: i: error: line 1: no [rule] Mend it.\n    a && b\n      ^\\u001b"
