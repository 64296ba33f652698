"""The tables of the lifecycle say everything, and the same thing, about every state and command."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from engine.core.lifecycle import (
    ACTIVITY_TRANSITIONS,
    COMMANDS_ACCEPTED_IN,
    ENDED,
    INSTANCE_TRANSITIONS,
    ActivityState,
    IllegalTransition,
    InstanceState,
    next_activity_state,
    next_instance_state,
)
from engine.records import Command


def test_every_state_and_every_command_is_in_its_table() -> None:
    assert set(INSTANCE_TRANSITIONS) == set(InstanceState)
    assert set(ACTIVITY_TRANSITIONS) == set(ActivityState)
    assert set(COMMANDS_ACCEPTED_IN) == set(get_args(Command))


def test_an_instance_that_ended_takes_no_command_and_goes_nowhere() -> None:
    assert {state for state, following in INSTANCE_TRANSITIONS.items() if not following} == set(ENDED)
    assert not any(states & ENDED for states in COMMANDS_ACCEPTED_IN.values())


def test_every_state_but_the_first_is_reached_from_another() -> None:
    assert {s for following in INSTANCE_TRANSITIONS.values() for s in following} == set(InstanceState) - {
        InstanceState.CREATED
    }
    assert {s for following in ACTIVITY_TRANSITIONS.values() for s in following} == set(ActivityState)


@pytest.mark.parametrize(("now", "then"), [*product(InstanceState, InstanceState)])
def test_an_instance_changes_state_as_the_table_says(now: InstanceState, then: InstanceState) -> None:
    if then in INSTANCE_TRANSITIONS[now]:
        assert next_instance_state(now, then) is then
    else:
        with pytest.raises(IllegalTransition):
            next_instance_state(now, then)


@pytest.mark.parametrize(("now", "then"), [*product(ActivityState, ActivityState)])
def test_an_activity_changes_state_as_the_table_says(now: ActivityState, then: ActivityState) -> None:
    if then in ACTIVITY_TRANSITIONS[now]:
        assert next_activity_state(now, then) is then
    else:
        with pytest.raises(IllegalTransition):
            next_activity_state(now, then)
