"""The loop's own counters and histograms say exactly what the library's would."""

from __future__ import annotations

from random import Random

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from engine.tally import LoopCounter, LoopHistogram

BUCKETS = (0.0005, 0.01, 0.5, 1, 30)


def exposition(registry: CollectorRegistry) -> list[str]:
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if "_created" not in line]


def test_a_counter_is_exposed_as_the_librarys() -> None:
    theirs, ours = CollectorRegistry(), CollectorRegistry()
    one = Counter("conch_steps", "Steps.", ["element", "state"], registry=theirs)
    other = LoopCounter("conch_steps", "Steps.", ["element", "state"], ours)
    for element, times in (("infer", 3), ("settle", 1)):
        for _ in range(times):
            one.labels(element, "completed").inc()
            other.labels(element, "completed").inc()
    assert exposition(ours) == exposition(theirs)


def test_a_histogram_is_exposed_as_the_librarys() -> None:
    theirs, ours = CollectorRegistry(), CollectorRegistry()
    one = Histogram("conch_step_seconds", "Durations.", ["element"], buckets=BUCKETS, registry=theirs)
    other = LoopHistogram("conch_step_seconds", "Durations.", ["element"], buckets=BUCKETS, registry=ours)
    random = Random(1)
    for value in [*BUCKETS, 0, 31, *(random.expovariate(3) for _ in range(200))]:
        one.labels("infer").observe(value)
        other.labels("infer").observe(value)
    assert exposition(ours) == exposition(theirs)


def test_a_histogram_without_labels_is_there_before_its_first_value() -> None:
    theirs, ours = CollectorRegistry(), CollectorRegistry()
    one = Histogram("conch_apply_seconds", "CPU.", buckets=BUCKETS, registry=theirs)
    other = LoopHistogram("conch_apply_seconds", "CPU.", buckets=BUCKETS, registry=ours)
    assert exposition(ours) == exposition(theirs)
    one.observe(0.25)
    other.observe(0.25)
    assert exposition(ours) == exposition(theirs)
