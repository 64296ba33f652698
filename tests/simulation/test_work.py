"""Jobs for workers in any language: who gets which job, for how long, and what becomes of an answer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from engine.errors import Code, Rejected
from engine.polls import MOST_WAITING
from engine.records import (
    USER_TASK_TOPIC,
    BpmnErrorThrown,
    CallTarget,
    DefinitionRef,
    Job,
    JobCompleted,
    JobFailed,
    Key,
    RetriesSet,
    Start,
)
from engine.work import DEFAULT_REQUEST_TIMEOUT_MS, ActivatedJob
from tests.loop import EPOCH_US, now_us, run_virtual
from tests.simulation.desk import COMMIT_S, DEFINITION, Desk

LOCK_MS = 30_000


async def poll(desk: Desk, worker: str = "w", topic: str = "work", **changes: Any) -> list[ActivatedJob]:
    return await desk.work.activate(
        topic, **{"worker": worker, "timeout_ms": LOCK_MS, "max_jobs": 10, "request_timeout_ms": -1} | changes
    )


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_worker_gets_a_job_with_all_that_it_needs() -> None:
    async def main() -> None:
        desk = Desk()
        key = desk.offer(variables={"a": 1, "b": 2}, retries=4, process_instance_key=5, process_id="order")
        (job,) = await poll(desk, "worker-1", fetch_variables=["b", "c"])

        assert job == ActivatedJob(
            key,
            "work",
            5,
            DEFINITION,
            "do_it",
            key + 1_000,
            {"colour": "red"},
            "worker-1",
            4,
            EPOCH_US + LOCK_MS * 1_000,
            {"b": 2},
            "acme",
        )
        assert await poll(desk) == []

    run_virtual(main())


def test_a_job_of_a_called_process_names_that_process() -> None:
    called = DefinitionRef(8, "bill", 1, "e" * 64)

    class Calling(Desk):
        def start_of(self, instance_key: Key) -> Start | None:
            start = super().start_of(instance_key)
            return start and start._replace(calls=(CallTarget(DEFINITION.content_hash, "call_bill", called),))

    async def main() -> None:
        desk = Calling()
        desk.offer(process_id="bill", process_instance_key=77)
        (job,) = await poll(desk)
        assert (job.definition, job.process_instance_key) == (called, 77)

    run_virtual(main())


def test_a_request_waits_for_a_job_and_is_woken_by_it() -> None:
    async def main() -> None:
        desk = Desk()
        waiting = asyncio.create_task(poll(desk, request_timeout_ms=60_000))
        await asyncio.sleep(20)
        key = desk.offer()
        assert [job.key for job in await waiting] == [key]
        assert now_us() == EPOCH_US + 20_000_000

    run_virtual(main())


@pytest.mark.parametrize(("said_ms", "waited_ms"), [(0, DEFAULT_REQUEST_TIMEOUT_MS), (1_500, 1_500), (-1, 0)])
def test_a_request_without_a_job_ends_at_its_timeout(said_ms: int, waited_ms: int) -> None:
    async def main() -> None:
        assert await poll(Desk(), request_timeout_ms=said_ms) == []
        assert now_us() == EPOCH_US + waited_ms * 1_000

    run_virtual(main())


def test_jobs_that_came_together_are_shared_by_the_requests_that_wait() -> None:
    async def main() -> None:
        desk = Desk()
        waiting = [asyncio.create_task(poll(desk, f"w{n}", request_timeout_ms=0, max_jobs=32)) for n in range(3)]
        await settled()
        keys = [desk.offer() for _ in range(7)]
        answers = await asyncio.gather(*waiting)
        assert [len(jobs) for jobs in answers] == [3, 2, 2]
        assert sorted(job.key for jobs in answers for job in jobs) == keys

    run_virtual(main())


def test_requests_are_served_in_the_order_in_which_they_wait() -> None:
    async def main() -> None:
        desk = Desk()
        served: list[str] = []

        async def worker(name: str) -> None:
            while True:
                for job in await poll(desk, name, request_timeout_ms=60_000, max_jobs=1):
                    served.append(name)
                    await desk.work.complete(job.key, {})

        workers = [asyncio.create_task(worker(name)) for name in "abc"]
        for _ in range(12):
            await asyncio.sleep(1)
            desk.offer()
        await asyncio.sleep(1)
        for each in workers:
            each.cancel()
        assert served == list("abc" * 4)

    run_virtual(main())


def test_no_request_gets_more_than_it_asks_for() -> None:
    async def main() -> None:
        desk = Desk()
        keys = [desk.offer() for _ in range(5)]
        assert [job.key for job in await poll(desk, max_jobs=2)] == keys[:2]
        assert [job.key for job in await poll(desk, max_jobs=9)] == keys[2:]

    run_virtual(main())


def test_a_lock_that_ran_out_offers_the_job_again_and_the_first_answer_counts() -> None:
    async def main() -> None:
        desk = Desk()
        key = desk.offer()
        await poll(desk, "slow", timeout_ms=1_000)
        waiting = asyncio.create_task(poll(desk, "next", request_timeout_ms=5_000))
        (job,) = await waiting
        assert (job.key, job.worker, now_us()) == (key, "next", EPOCH_US + 1_000_000)

        await desk.work.complete(key, {"by": "slow"})
        with pytest.raises(Rejected, match="no open job") as refused:
            await desk.work.complete(key, {"by": "next"})
        assert refused.value.code == Code.NOT_FOUND
        assert [args[1] for _, _, args in desk.taken] == [{"by": "slow"}]
        await asyncio.sleep(LOCK_MS)
        assert await poll(desk) == []

    run_virtual(main())


def test_a_request_that_was_cancelled_gives_its_jobs_back_at_once() -> None:
    async def main() -> None:
        desk = Desk()
        gone = asyncio.create_task(poll(desk, "gone", request_timeout_ms=5_000))
        await settled()
        keys = [desk.offer(), desk.offer()]
        asyncio.get_running_loop().call_soon(gone.cancel)  # after the jobs were shared, before the request has them
        await asyncio.gather(gone, return_exceptions=True)
        late = desk.offer()
        assert [job.key for job in await poll(desk)] == [*keys, late]

    run_virtual(main())


def test_two_answers_at_once_are_told_in_order_and_the_second_is_refused() -> None:
    async def main() -> None:
        desk = Desk()
        key = desk.offer()
        first = asyncio.create_task(desk.work.complete(key, {"n": 1}))
        second = asyncio.create_task(desk.work.complete(key, {"n": 2}))
        assert await first is None
        with pytest.raises(Rejected, match="no open job"):
            await second
        assert len(desk.taken) == 1

    run_virtual(main())


def test_a_job_whose_answer_is_on_its_way_goes_to_nobody_else() -> None:
    async def main() -> None:
        desk = Desk()
        key = desk.offer()
        answer = asyncio.create_task(desk.work.complete(key, {}))
        await asyncio.sleep(COMMIT_S / 2)
        assert await poll(desk) == []
        await answer
        assert desk.work.jobs() == []

    run_virtual(main())


def test_an_answer_that_did_not_reach_the_disk_leaves_the_job_open() -> None:
    async def main() -> None:
        desk = Desk()
        key = desk.offer()
        desk.refuse = Rejected(Code.JOURNAL_UNAVAILABLE, "away")
        with pytest.raises(Rejected, match="JOURNAL_UNAVAILABLE"):
            await desk.work.complete(key, {})
        assert [job.key for job in await poll(desk)] == [key]
        await desk.work.complete(key, {})

    run_virtual(main())


def test_the_answers_of_a_worker_become_commands() -> None:
    async def main() -> None:
        desk = Desk()
        done, failed, thrown = (desk.offer() for _ in range(3))
        await asyncio.sleep(1)
        await poll(desk)
        await asyncio.sleep(1)
        await desk.work.complete(done, {"x": 1})
        await desk.work.fail(failed, retries=2, message="no paper", back_off_ms=500, variables={"y": 2})
        await desk.work.throw(thrown, "OUT_OF_PAPER", "none left", {"z": 3})

        told = {args[0]: (kind, args) for _, kind, args in desk.taken}
        kind, (_, variables, report) = told[done]
        assert (kind, variables) == (JobCompleted, {"x": 1})
        assert report[:3] == (EPOCH_US, EPOCH_US + 1_000_000, EPOCH_US + 2_000_000)
        kind, (_, code, message, retryable, _, retries, back_off_ms, variables) = told[failed]
        assert (kind, code, message, retryable, retries) == (JobFailed, "WORKER_FAILED", "no paper", True, 2)
        assert (back_off_ms, variables) == (500, {"y": 2})
        kind, (_, code, message, variables, _) = told[thrown]
        assert (kind, code, message, variables) == (BpmnErrorThrown, "OUT_OF_PAPER", "none left", {"z": 3})

    run_virtual(main())


def test_a_job_that_failed_takes_no_answer_until_its_next_try() -> None:
    async def main() -> None:
        desk = Desk()
        key = desk.offer()
        await desk.work.fail(key, retries=0, message="broken", variables={})
        desk.failed[key] = 1
        with pytest.raises(Rejected, match="has failed") as refused:
            await desk.work.complete(key, {})
        assert refused.value.code == Code.STALE

        await desk.work.update(key, retries=2)
        assert desk.taken[-1][1:] == (RetriesSet, (key, 2))
        desk.open[key] = desk.failed.pop(key)
        desk.work.offered(1, Job(key, 9, "do_it", "work", {}, {}, 1, 2, 2))
        (job,) = await poll(desk)
        assert (job.key, job.retries) == (key, 2)

    run_virtual(main())


def test_a_worker_may_ask_for_more_time() -> None:
    async def main() -> None:
        desk = Desk()
        key = desk.offer()
        with pytest.raises(Rejected, match="with no worker"):
            await desk.work.update(key, timeout_ms=1_000)
        await poll(desk, timeout_ms=1_000)
        await asyncio.sleep(0.9)
        await desk.work.update(key, timeout_ms=1_000, retries=7)
        await asyncio.sleep(0.9)
        assert await poll(desk) == []
        assert desk.work.jobs()[0].job.retries == 7
        await asyncio.sleep(0.2)
        assert [job.key for job in await poll(desk)] == [key]

    run_virtual(main())


def test_a_job_that_its_instance_took_back_is_gone() -> None:
    async def main() -> None:
        desk = Desk()
        ready, locked = desk.offer(), desk.offer("other", 2)
        await poll(desk, topic="other")
        desk.work.withdrawn(ready)
        desk.end(2)
        desk.work.withdrawn(4711)
        assert await poll(desk) == []
        for key in (ready, locked):
            desk.open.pop(key, None)
            with pytest.raises(Rejected, match="no open job"):
                await desk.work.complete(key, {})
        await asyncio.sleep(LOCK_MS)
        assert desk.work.jobs() == []

    run_virtual(main())


def test_what_is_offered_again_with_the_same_key_keeps_its_lock() -> None:
    async def main() -> None:
        desk = Desk()
        key = desk.offer()
        await poll(desk)
        desk.work.offered(1, Job(key, 9, "do_it", "work", {}, {"now": 1}, 1, 1))
        assert await poll(desk) == []
        (job,) = desk.work.jobs()
        assert (job.state, job.job.element_id) == ("ACTIVATED", "do_it")

    run_virtual(main())


def test_variables_are_those_that_the_instance_holds_when_the_job_is_taken() -> None:
    async def main() -> None:
        desk = Desk()
        first, second = desk.offer(variables={"a": 1}), desk.offer(instance_key=2, variables={"a": 2})
        assert [dict(each.job.variables) for each in desk.work.jobs()] == [{}, {}]
        assert [(job.key, job.variables) for job in await poll(desk)] == [(first, {"a": 1}), (second, {"a": 2})]

    run_virtual(main())


def test_jobs_of_an_instance_that_cannot_be_read_keep_nobody_else_from_working() -> None:
    async def main() -> None:
        desk = Desk()
        desk.unreadable[1] = Rejected(Code.ENGINE_FAULT, "cannot be read")
        broken, sound = desk.offer(), desk.offer(instance_key=2)
        assert [job.key for job in await poll(desk, max_jobs=1)] == []
        assert [job.key for job in await poll(desk, max_jobs=1)] == [sound]
        desk.unreadable.clear()
        await asyncio.sleep(LOCK_MS / 1_000 + 1)
        assert broken in [job.key for job in await poll(desk)]

    run_virtual(main())


def test_jobs_that_cannot_be_loaded_at_the_moment_are_the_next_requests() -> None:
    async def main() -> None:
        desk = Desk()
        first, second = desk.offer(), desk.offer(instance_key=2)
        desk.unreadable[2] = Rejected(Code.JOURNAL_UNAVAILABLE, "the store is away")
        with pytest.raises(Rejected, match="the store is away"):
            await poll(desk)
        desk.unreadable.clear()
        assert [job.key for job in await poll(desk)] == [first, second]

    run_virtual(main())


def test_a_request_that_leaves_while_its_jobs_are_loaded_leaves_them_to_the_next() -> None:
    async def main() -> None:
        desk = Desk()
        desk.loaded_after_s = 1.0
        first, second = desk.offer(), desk.offer()
        leaving = asyncio.create_task(poll(desk))
        await asyncio.sleep(0.5)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert [job.key for job in await poll(desk)] == [first, second]

    run_virtual(main())


def test_a_job_that_ends_while_its_instance_is_loaded_is_not_handed_out() -> None:
    async def main() -> None:
        desk = Desk()
        desk.loaded_after_s = 1.0
        gone, there = desk.offer(), desk.offer(instance_key=2)
        asking = asyncio.create_task(poll(desk))
        await asyncio.sleep(0.5)
        del desk.open[gone]
        desk.work.withdrawn(gone)
        assert [job.key for job in await asking] == [there]

    run_virtual(main())


def test_user_tasks_are_for_people_only() -> None:
    async def main() -> None:
        desk = Desk()
        key, job_key = desk.offer(USER_TASK_TOPIC), desk.offer()
        with pytest.raises(Rejected, match="for people"):
            await poll(desk, topic=USER_TASK_TOPIC)
        for refused in (desk.work.complete(key, {}), desk.work.complete_user_task(job_key, {})):
            with pytest.raises(Rejected, match="no open"):
                await refused
        (task,) = desk.work.user_tasks()
        assert (task.key, task.definition, task.tenant) == (key, DEFINITION, "acme")
        assert [each.job.key for each in desk.work.jobs()] == [job_key]

        await desk.work.complete_user_task(key, {"approved": True})
        assert desk.taken[-1][1] is JobCompleted
        assert desk.work.user_tasks() == []

    run_virtual(main())


def test_open_jobs_are_listed_with_their_state() -> None:
    async def main() -> None:
        desk = Desk()
        first, second, other = desk.offer(), desk.offer(), desk.offer(instance_key=2)
        await poll(desk, "w1", max_jobs=1)
        states = {each.job.key: (each.state, each.worker, each.deadline_at_us) for each in desk.work.jobs()}
        assert states == {
            first: ("ACTIVATED", "w1", EPOCH_US + LOCK_MS * 1_000),
            second: ("CREATED", None, None),
            other: ("CREATED", None, None),
        }
        assert [each.job.key for each in desk.work.jobs(instance_key=2)] == [other]
        assert [each.job.key for each in desk.work.jobs(lambda each: each.state == "ACTIVATED")] == [first]

    run_virtual(main())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"topic": ""}, "type"),
        ({"timeout_ms": 0, "max_jobs": 0}, "timeout.*most jobs"),
        ({"request_timeout_ms": 10**9}, "request timeout"),
    ],
)
def test_a_request_that_makes_no_sense_hears_all_of_it(changes: dict[str, Any], words: str) -> None:
    async def main() -> None:
        with pytest.raises(Rejected, match=words) as refused:
            await poll(Desk(), **changes)
        assert refused.value.code == Code.INVALID_ARGUMENT

    run_virtual(main())


@pytest.mark.parametrize("changes", [{}, {"retries": 0}, {"timeout_ms": 0}, {"retries": -1, "timeout_ms": -1}], ids=str)
def test_an_update_that_makes_no_sense_is_refused(changes: dict[str, int]) -> None:
    async def main() -> None:
        desk = Desk()
        with pytest.raises(Rejected, match="INVALID_ARGUMENT"):
            await desk.work.update(desk.offer(), **changes)

    run_virtual(main())


def test_waiting_requests_are_bounded_and_go_home_when_the_gateway_closes() -> None:
    async def main() -> None:
        desk = Desk()
        waiting = [asyncio.create_task(poll(desk, request_timeout_ms=0)) for _ in range(MOST_WAITING)]
        await settled()
        with pytest.raises(Rejected, match="OVERLOADED"):
            await poll(desk, request_timeout_ms=0)
        desk.work.close()
        assert await asyncio.gather(*waiting) == [[]] * MOST_WAITING
        assert now_us() == EPOCH_US
        with pytest.raises(Rejected, match="DRAINING"):
            await poll(desk)

    run_virtual(main())


@pytest.mark.parametrize("seed", range(20))
def test_every_job_is_done_once_whatever_its_workers_do(seed: int) -> None:
    """Workers that answer, dawdle past their lock, vanish while they wait or while they work."""

    async def main() -> None:
        random, desk = Random(seed), Desk()
        wanted = 60

        async def worker(name: str) -> None:
            while True:
                poll_task = asyncio.create_task(
                    poll(desk, name, request_timeout_ms=2_000, timeout_ms=3_000, max_jobs=3)
                )
                if random.random() < 0.2:
                    asyncio.get_running_loop().call_later(random.random() * 2, poll_task.cancel)
                await asyncio.wait((poll_task,))
                if poll_task.cancelled():
                    continue
                jobs = poll_task.result()
                for job in jobs:
                    await asyncio.sleep(random.choice([0.0, 0.5, 4.0]))
                    if random.random() < 0.2:
                        continue  # it dies over it
                    with suppress(Rejected):  # another one was faster
                        await desk.work.complete(job.key, {})

        workers = [asyncio.create_task(worker(f"w{n}")) for n in range(4)]
        keys = []
        for _ in range(wanted):
            await asyncio.sleep(random.random())
            keys.append(desk.offer(instance_key=random.randint(1, 5)))
        await asyncio.sleep(300)
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        assert not desk.open
        assert sorted(args[0] for _, _, args in desk.taken) == keys
        await asyncio.sleep(10)
        assert desk.work.jobs() == []
        assert not desk.work._polls._topics

    print(f"seed {seed}")
    run_virtual(main())
