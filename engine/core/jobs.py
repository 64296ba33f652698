"""Owns how an element becomes a job: its topic and headers, those of tasks for people included.
Never decides when a job is tried again or what its failure means.
Called by the elements of an instance, and again for every new try.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.core.activity import Activity
from engine.core.evaluation import EvaluationFailed, result
from engine.errors import Code
from engine.records import USER_TASK_TOPIC

if TYPE_CHECKING:
    from engine.core.course import Course

# The headers in which Camunda 8's own jobs for people say whose they are.
_USER_TASK_HEADERS = {
    "assignee": "io.camunda.zeebe:assignee",
    "candidate_groups": "io.camunda.zeebe:candidateGroups",
    "candidate_users": "io.camunda.zeebe:candidateUsers",
    "due_date": "io.camunda.zeebe:dueDate",
    "follow_up_date": "io.camunda.zeebe:followUpDate",
    "priority": "io.camunda.zeebe:priority",
}


def start_job(course: Course, activity: Activity) -> bool | None:
    """Ask for one call of the activity's task: its token waits, unless an incident says otherwise."""
    if activity.node.user_task is None:
        course.agenda.start_job(activity, activity.node.topic or activity.node.id, activity.node.headers)
        return None
    try:
        headers = _user_task_headers(course, activity)
    except EvaluationFailed as failure:
        return course.incident(activity, Code.EXPRESSION_FAILED, str(failure))
    course.agenda.start_job(activity, USER_TASK_TOPIC, headers)
    return None


def _user_task_headers(course: Course, activity: Activity) -> Mapping[str, str]:
    task = activity.node.user_task
    headers = dict(activity.node.headers)
    visible, context = activity.scope.visible(), course.context(activity)
    for field, header in _USER_TASK_HEADERS.items():
        source = getattr(task, field)
        if source is not None:
            value = result(source, visible, context, f"the {field.replace('_', ' ')}")
            if value is not None:
                headers[header] = _header_text(value)
    if task is not None and task.form_key is not None:
        headers["io.camunda.zeebe:formKey"] = task.form_key
    return headers


def _header_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
