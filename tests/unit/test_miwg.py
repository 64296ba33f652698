"""The public BPMN interchange suite (BPMN MIWG): each reference file, and what Camunda Modeler makes of it, is read or
refused with every reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.bpmn import check
from engine.bpmn.dialect import Reading, read
from engine.errors import Problem

ROOT = Path(os.environ.get("CONCH_TEST_SUITES") or Path(__file__).parents[3] / "shared" / "data") / "bpmn-miwg"
REFERENCES = sorted((ROOT / "reference").glob("*.bpmn"))
# Named after the reference file: `-roundtrip` was opened and saved by Modeler, `-export` was drawn anew in it.
MODELER = sorted((ROOT / "camunda-modeler").glob("*.bpmn"))

pytestmark = pytest.mark.skipif(
    not REFERENCES,
    reason=f"the BPMN interchange suite is not at {ROOT}; set CONCH_TEST_SUITES to the folder that holds it",
)

# How many files are valid. These numbers may only rise.
VALID = {"reference": 2, "camunda-modeler": 3}
VALID_BUT_FOR_NOT_BEING_EXECUTABLE = {"reference": 4, "camunda-modeler": 7}

# What a drawing made anew in Modeler lacks of the reference file's problems, and what it has beside them.
REDRAWN = {
    "A.2.1-export": ("no-executable-process", "camunda-7-dialect"),
    "A.3.0-export": ("no-executable-process", "camunda-7-dialect"),
    "A.4.0-export": ("no-executable-process", "camunda-7-dialect"),
    "A.4.1-export": ("no-executable-process", ""),
    "B.1.0-export": ("no-executable-process unsupported-element", "camunda-7-dialect invalid-timer missing-topic"),
    "B.2.0-export": (
        "invalid-message-reference no-executable-process",
        "camunda-7-dialect condition-not-feel dangling-boundary-event invalid-call invalid-signal-reference "
        "invalid-timer one-start-event",
    ),
    "C.1.0-export": (
        "condition-not-feel missing-topic unsupported-element",
        "camunda-7-dialect invalid-message-reference invalid-timer",
    ),
    "C.1.1-export": ("condition-not-feel unsupported-element", "camunda-7-dialect"),
    "C.2.0-export": ("no-executable-process", "camunda-7-dialect"),
    "C.3.0-export": (
        "condition-not-feel missing-correlation-key unsupported-element",
        "invalid-message-reference invalid-timer",
    ),
    "C.4.0-export": ("", "camunda-7-dialect invalid-signal-reference"),
    "C.5.0-export": ("no-executable-process", "camunda-7-dialect"),
    "C.6.0-export": ("no-executable-process", "camunda-7-dialect"),
    "C.7.0-export": ("no-executable-process unsupported-element", "camunda-7-dialect"),
    "C.8.0-export": ("condition-not-feel feel-syntax invalid-mapping-target", "camunda-7-dialect missing-topic"),
    "C.8.1-export": (
        "condition-not-feel feel-syntax invalid-mapping-target unsupported-element",
        "camunda-7-dialect missing-topic no-executable-process",
    ),
    "C.9.0-export": ("", "invalid-call invalid-message-reference missing-topic"),
    "C.9.1-export": ("camunda-7-dialect", "invalid-message-reference invalid-timer missing-topic"),
    "C.9.2-export": (
        "",
        "invalid-call invalid-error-reference invalid-loop invalid-message-reference invalid-timer missing-topic",
    ),
}
WHY_IT_LACKS = {
    "no-executable-process": "Modeler marks a new process as executable",
    "unsupported-element": "performers, global tasks and transformations of data are not part of the picture",
    "camunda-7-dialect": "the words of Camunda 7 are not part of the picture",
    "condition-not-feel": "expressions are not part of the picture",
    "feel-syntax": "expressions are not part of the picture",
    "invalid-mapping-target": "mappings are not part of the picture",
    "invalid-message-reference": "messages are not part of the picture: the event was drawn without a symbol",
    "missing-correlation-key": "messages are not part of the picture: the event has no message at all",
    "missing-topic": "the send task was drawn as another task",
}
WHY_IT_HAS = {
    "camunda-7-dialect": "it was drawn for Camunda 7, and says so",
    "no-executable-process": "it was drawn as a process that does not run",
    "condition-not-feel": "the event was drawn and its condition not written",
    "dangling-boundary-event": "the escalation was drawn on a task, which throws none",
    "invalid-call": "the call activity was drawn and nothing named that it calls",
    "invalid-error-reference": "the event was drawn and no error chosen",
    "invalid-loop": "the marker was drawn and no collection named",
    "invalid-message-reference": "the event was drawn and no message chosen",
    "invalid-signal-reference": "the event was drawn and no signal chosen",
    "invalid-timer": "the timer was drawn and not set",
    "missing-topic": "the task was drawn and its topic not set",
    "one-start-event": "the sub-process was drawn without its content",
}


def _reading(path: Path) -> Reading:
    return read(path.read_bytes(), path.name)


def _rules(path: Path) -> set[str]:
    return {problem.rule for problem in _reading(path).problems}


@pytest.mark.parametrize("path", REFERENCES + MODELER, ids=lambda path: path.stem)
def test_a_file_is_read_or_refused_with_every_reason(path: Path) -> None:
    definitions, problems = check(path.read_bytes(), path.name, None)
    assert definitions or problems
    for problem in problems:
        assert problem.rule not in ("not-xml", "not-bpmn"), problem
        assert _is_complete(problem), problem
    assert len(set(problems)) == len(problems)


def _is_complete(problem: Problem) -> bool:
    return bool(problem.file and problem.rule and problem.message and problem.remedy.endswith("."))


@pytest.mark.parametrize("folder", sorted(VALID))
def test_as_many_files_are_valid_as_ever(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = {path.stem: _rules(path) for path in sorted((ROOT / folder).glob("*.bpmn"))}
    valid = [stem for stem, rules in verdicts.items() if not rules]
    almost = [stem for stem, rules in verdicts.items() if rules == {"no-executable-process"}]
    with capsys.disabled():
        print(
            f"\nBPMN MIWG {folder}: {len(verdicts)} files, {len(valid)} valid, {len(almost)} valid but for not being "
            f"executable, {len(verdicts) - len(valid) - len(almost)} refused with reasons"
        )
    assert len(valid) >= VALID[folder], valid
    assert len(valid) + len(almost) >= VALID[folder] + VALID_BUT_FOR_NOT_BEING_EXECUTABLE[folder], almost


@pytest.mark.parametrize(
    "path", [path for path in MODELER if not path.stem.endswith("-export")], ids=lambda path: path.stem
)
def test_what_modeler_saves_has_the_verdict_of_what_it_opened(path: Path) -> None:
    opened = ROOT / "reference" / f"{path.stem.partition('-')[0]}.bpmn"
    assert _rules(path) == _rules(opened)


@pytest.mark.parametrize(
    "path", [path for path in MODELER if path.stem.endswith("-export")], ids=lambda path: path.stem
)
def test_a_drawing_made_anew_differs_only_in_what_is_not_in_the_picture(path: Path) -> None:
    reference, drawing = _rules(ROOT / "reference" / f"{path.stem.partition('-')[0]}.bpmn"), _rules(path)
    lacks, has = (set(rules.split()) for rules in REDRAWN.get(path.stem, ("", "")))
    assert (reference - drawing, drawing - reference) == (lacks, has)
    assert lacks <= set(WHY_IT_LACKS)
    assert has <= set(WHY_IT_HAS)
