"""What each kind of activity means, and what it needs to run."""

from __future__ import annotations

import pytest

from engine.bpmn import ElementType, Static
from engine.bpmn.definition import Binding, CalledDecision, CalledElement
from tests.dialect_samples import (
    END,
    START,
    between,
    element,
    extended,
    flow,
    job,
    node_of,
    plain,
    problems_of,
    process,
    rules_of,
)

MESSAGE = (
    '<bpmn:message id="m" name="paid"><bpmn:extensionElements><zeebe:subscription correlationKey="=order"/>'
    "</bpmn:extensionElements></bpmn:message>"
)
TOPIC = '<zeebe:taskDefinition type="work" retries="5"/>'


def activity(tag: str, words: str = "", attributes: str = "", content: str = "") -> bytes:
    return between(element(tag, "x", extended(words) + content, attributes), roots=MESSAGE)


@pytest.mark.parametrize("tag", ["serviceTask", "sendTask", "businessRuleTask", "scriptTask"])
def test_a_task_with_a_topic_is_a_job(tag: str) -> None:
    words = f'{TOPIC}<zeebe:taskHeaders><zeebe:header key="k" value="v"/></zeebe:taskHeaders>'
    node = node_of(activity(tag, words))
    assert (node.topic, node.retries, node.headers) == ("work", 5, {"k": "v"})
    assert rules_of(activity(tag)) == [("missing-topic", "x")]
    assert rules_of(activity(tag, TOPIC.replace("work", "=work"))) == [("missing-topic", "x")]
    assert rules_of(activity(tag, TOPIC + TOPIC)) == [("repeated-extension", "x")]


@pytest.mark.parametrize(("retries", "good"), [("0", True), ("999", True), ("1000", False), ("=3", False), ("", False)])
def test_retries_are_a_whole_number(retries: str, good: bool) -> None:
    xml = activity("serviceTask", TOPIC.replace("5", retries))
    if good:
        assert node_of(xml).retries == int(retries)
    else:
        assert rules_of(xml) == [("invalid-retries", "x")]


def test_a_task_of_no_kind_and_manual_work_are_passed_and_take_no_words() -> None:
    for tag, kind in (("task", ElementType.TASK), ("manualTask", ElementType.MANUAL_TASK)):
        assert node_of(activity(tag)).type is kind
        mapped = '<zeebe:ioMapping><zeebe:input source="=a" target="a"/></zeebe:ioMapping>'
        assert rules_of(activity(tag, mapped)) == [("unsupported-extension", "x")]


def test_a_receive_task_waits_for_a_message() -> None:
    event = node_of(activity("receiveTask", attributes='messageRef="m"')).event
    assert event is not None
    assert (event.name, plain(event.correlation_key)) == (Static("paid"), "=order")
    assert rules_of(activity("receiveTask")) == [("invalid-message-reference", "x")]
    starting = activity("receiveTask", attributes='messageRef="m" instantiate="true"')
    assert rules_of(starting) == [("unsupported-element", "x")]


# --- script and decision ----------------------------------------------------------------------------------------


def test_a_script_is_feel_and_has_a_result() -> None:
    script = node_of(activity("scriptTask", '<zeebe:script expression="=a + 1" resultVariable="b"/>')).script
    assert plain(script) == {"expression": "=a + 1", "result_variable": "b"}
    for words, rule in (
        ('expression="a + 1" resultVariable="b"', "expression-not-feel"),
        ('expression="=a +" resultVariable="b"', "feel-syntax"),
        ('expression="=a"', "invalid-result-variable"),
        ('expression="=a" resultVariable="b.c"', "invalid-result-variable"),
    ):
        assert rules_of(activity("scriptTask", f"<zeebe:script {words}/>")) == [(rule, "x")]


def test_an_inline_script_is_refused() -> None:
    words = '<zeebe:script expression="=1" resultVariable="b"/>'
    inline = activity("scriptTask", words, content="<bpmn:script>print(1)</bpmn:script>")
    assert rules_of(inline) == [("unsupported-element", "x")]


def test_a_decision_is_named_and_has_a_result() -> None:
    words = '<zeebe:calledDecision decisionId="price" resultVariable="p"/>'
    assert node_of(activity("businessRuleTask", words)).decision == CalledDecision("price", "p")
    bound = words.replace("/>", ' bindingType="versionTag" versionTag="v1"/>')
    decision = node_of(activity("businessRuleTask", bound)).decision
    assert decision == CalledDecision("price", "p", Binding.VERSION_TAG, "v1")
    assert rules_of(activity("businessRuleTask", words.replace("price", "=price"))) == [("invalid-call", "x")]
    assert rules_of(activity("businessRuleTask", words.replace('"p"', '""'))) == [("invalid-result-variable", "x")]


@pytest.mark.parametrize(
    ("tag", "word"),
    [
        ("scriptTask", '<zeebe:script expression="=1" resultVariable="b"/>'),
        ("businessRuleTask", '<zeebe:calledDecision decisionId="d" resultVariable="b"/>'),
    ],
)
def test_a_task_cannot_be_evaluated_here_and_a_job_at_once(tag: str, word: str) -> None:
    assert rules_of(activity(tag, word + TOPIC)) == [("two-implementations", "x")]


# --- call activity ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "called"),
    [
        ("", CalledElement("q")),
        ('bindingType="latest" versionTag="v"', CalledElement("q")),
        ('bindingType="deployment"', CalledElement("q", Binding.DEPLOYMENT)),
        ('bindingType="versionTag" versionTag="v"', CalledElement("q", Binding.VERSION_TAG, "v")),
        (
            'propagateAllParentVariables="false" propagateAllChildVariables="false"',
            CalledElement("q", propagate_all_parent_variables=False, propagate_all_child_variables=False),
        ),
    ],
)
def test_a_call_names_a_process_and_a_version(words: str, called: CalledElement) -> None:
    assert node_of(activity("callActivity", f'<zeebe:calledElement processId="q" {words}/>')).called == called


@pytest.mark.parametrize(
    "words",
    [
        "",
        "<zeebe:calledElement/>",
        '<zeebe:calledElement processId="=q"/>',
        '<zeebe:calledElement processId="q" bindingType="newest"/>',
        '<zeebe:calledElement processId="q" bindingType="versionTag"/>',
        '<zeebe:calledElement processId="q" bindingType="versionTag" versionTag="=v"/>',
        '<zeebe:calledElement processId="q" businessId="=b"/>',
    ],
)
def test_a_call_that_nothing_could_pin_is_refused(words: str) -> None:
    assert rules_of(activity("callActivity", words)) == [("invalid-call", "x")]


# --- user task --------------------------------------------------------------------------------------------------

WHOSE = (
    '<zeebe:assignmentDefinition assignee="=owner" candidateGroups="a, b" candidateUsers="=users"/>'
    '<zeebe:taskSchedule dueDate="2030-01-31T12:00:00Z" followUpDate="=later"/>'
    '<zeebe:priorityDefinition priority="70"/>'
)


@pytest.mark.parametrize("native", ["<zeebe:userTask/>", ""])
@pytest.mark.parametrize("form", ["formId", "formKey", "externalReference"])
def test_a_user_task_says_whose_it_is_and_until_when(native: str, form: str) -> None:
    node = node_of(activity("userTask", f'{native}{WHOSE}<zeebe:formDefinition {form}="f"/>'))
    assert plain(node.user_task) == {
        "assignee": "=owner",
        "candidate_groups": {"text": "a, b"},
        "candidate_users": "=users",
        "due_date": {"text": "2030-01-31T12:00:00Z"},
        "follow_up_date": "=later",
        "priority": {"text": "70"},
        "form_key": "f",
    }
    assert node.topic is None


def test_a_bare_user_task_is_everyone_s() -> None:
    user_task = node_of(activity("userTask")).user_task
    assert user_task is not None
    assert set(plain(user_task).values()) == {None}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2030-01-31T12:00:00Z", "soon"),
        ("2030-01-31T12:00:00Z", "2030-01-31"),
        ("=later", "PT1H"),
        ('"70"', '"101"'),
        ('"70"', '"high"'),
    ],
)
def test_a_constant_of_a_user_task_must_make_sense(old: str, new: str) -> None:
    assert rules_of(activity("userTask", WHOSE.replace(old, new))) == [("invalid-user-task", "x")]


def test_a_user_task_has_one_form() -> None:
    for words in ('formId="a" formKey="b"', "", 'externalReference="=a"'):
        assert rules_of(activity("userTask", f"<zeebe:formDefinition {words}/>")) == [("invalid-user-task", "x")]


# --- multi-instance ---------------------------------------------------------------------------------------------


def marked(words: str, content: str = "", attributes: str = "", tag: str = "serviceTask") -> bytes:
    loop = f"<zeebe:loopCharacteristics {words}/>" if words else ""
    marker = f"<bpmn:multiInstanceLoopCharacteristics {attributes}>{extended(loop)}{content}"
    marker += "</bpmn:multiInstanceLoopCharacteristics>"
    return activity(tag, TOPIC if tag == "serviceTask" else "", content=marker)


def test_a_multi_instance_marker_names_a_list_and_its_results() -> None:
    until = "<bpmn:completionCondition>= found</bpmn:completionCondition>"
    words = 'inputCollection="=items" inputElement="item" outputCollection="results" outputElement="=result"'
    assert plain(node_of(marked(words, until, 'isSequential="true"')).loop) == {
        "sequential": True,
        "input_collection": "=items",
        "input_element": "item",
        "output_collection": "results",
        "output_element": "=result",
        "completion_condition": "=found",
    }
    loop = node_of(marked('inputCollection="=[1,2]"')).loop
    assert loop is not None
    assert (loop.sequential, loop.input_element, loop.output_collection, loop.completion_condition) == (False,) + (
        None,
    ) * 3


@pytest.mark.parametrize("tag", ["userTask", "receiveTask", "manualTask", "callActivity", "subProcess"])
def test_every_activity_can_be_multiplied(tag: str) -> None:
    words = '<zeebe:calledElement processId="q"/>' if tag == "callActivity" else ""
    marker = '<zeebe:loopCharacteristics inputCollection="=items"/>'
    content = f"<bpmn:multiInstanceLoopCharacteristics>{extended(marker)}</bpmn:multiInstanceLoopCharacteristics>"
    if tag == "subProcess":
        content += element("startEvent", "inner")
    attributes = 'messageRef="m"' if tag == "receiveTask" else ""
    assert node_of(activity(tag, words, attributes, content)).loop is not None


@pytest.mark.parametrize(
    ("words", "content", "rule"),
    [
        ("", "", "invalid-loop"),
        ('inputElement="item"', "", "invalid-loop"),
        ('inputCollection="items"', "", "expression-not-feel"),
        ('inputCollection="=items" inputElement="an item"', "", "invalid-loop"),
        ('inputCollection="=items" outputCollection="results"', "", "invalid-loop"),
        ('inputCollection="=items" outputElement="=result"', "", "invalid-loop"),
        ('inputCollection="=items"', "<bpmn:loopCardinality>3</bpmn:loopCardinality>", "unsupported-element"),
        ('inputCollection="=items"', "<bpmn:completionCondition>3</bpmn:completionCondition>", "condition-not-feel"),
    ],
)
def test_a_marker_that_would_not_do_what_it_says_is_refused(words: str, content: str, rule: str) -> None:
    assert rules_of(marked(words, content)) == [(rule, "x")]


def test_a_marker_on_an_event_or_gateway_is_refused() -> None:
    marker = "<bpmn:multiInstanceLoopCharacteristics/>"
    gateway = element("exclusiveGateway", "x", marker)
    assert rules_of(between(gateway)) == [("unsupported-element", "x")]


# --- words that nothing would run -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word",
    ["executionListeners", "taskListeners", "linkedResources", "adHoc", "jobPriorityDefinition", "brandNew"],
)
def test_a_word_that_would_silently_not_run_is_refused_by_name(word: str) -> None:
    (problem,) = problems_of(activity("serviceTask", f"{TOPIC}<zeebe:{word}/>"))
    assert (problem.rule, problem.element_id) == ("unsupported-extension", "x")
    assert f"zeebe:{word}" in problem.message


def test_a_word_of_another_kind_of_element_is_refused() -> None:
    for tag, word in (
        ("serviceTask", "calledElement"),
        ("userTask", "taskDefinition"),
        ("receiveTask", "script"),
        ("subProcess", "taskHeaders"),
        ("exclusiveGateway", "ioMapping"),
    ):
        inner = element("startEvent", "inner") if tag == "subProcess" else ""
        words = TOPIC if tag == "serviceTask" else ""
        xml = activity(tag, f"{words}<zeebe:{word}/>", 'messageRef="m"' if tag == "receiveTask" else "", inner)
        assert rules_of(xml) == [("unsupported-extension", "x")]


def test_listeners_of_a_process_are_refused() -> None:
    xml = process(extended("<zeebe:executionListeners/>"), START, job("t"), END, flow("s", "t"), flow("t", "e"))
    assert rules_of(xml) == [("unsupported-extension", "p")]
