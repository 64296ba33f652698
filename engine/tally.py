"""Owns counters and histograms for one event loop: no lock, so counting costs a tenth of the library's own.
Never names a metric, and may only be used from the loop's thread; reading from another sees whole numbers all the same.
Called by telemetry for the metrics that every request counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Count:
    """One counter with its labels' values."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self) -> None:
        self.value += 1


class Observations:
    """One histogram with its labels' values."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]):
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class LoopCounter(Collector):
    """As prometheus_client.Counter, with as many children as its labels have values: bound those."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str], registry: CollectorRegistry):
        self._about = (name, documentation)
        self._labels = tuple(labels)
        self._children: dict[tuple[str, ...], Count] = {}
        registry.register(self)

    def labels(self, *values: str) -> Count:
        child = self._children.get(values)
        if child is None:
            child = self._children[values] = Count()
        return child

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(*self._about, labels=self._labels)
        for values, child in tuple(self._children.items()):
            family.add_metric(values, child.value)
        yield family


class LoopHistogram(Collector):
    """As prometheus_client.Histogram; without labels it has one child from the start."""

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str] = (),
        *,
        buckets: Sequence[float],
        registry: CollectorRegistry,
    ):
        self._about = (name, documentation)
        self._labels = tuple(labels)
        self._bounds = tuple(float(bound) for bound in buckets)
        self._shown = [*map(floatToGoString, self._bounds), "+Inf"]
        self._children: dict[tuple[str, ...], Observations] = {}
        if not labels:
            self.observe = self.labels().observe
        registry.register(self)

    def labels(self, *values: str) -> Observations:
        child = self._children.get(values)
        if child is None:
            child = self._children[values] = Observations(self._bounds)
        return child

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(*self._about, labels=self._labels)
        for values, child in tuple(self._children.items()):
            buckets = list(zip(self._shown, map(float, accumulate(child.counts)), strict=True))
            family.add_metric(values, buckets, child.total)
        yield family
