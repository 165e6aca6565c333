"""Counters and gauges for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cloche.service.service import Service

_HOLDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The metrics of one server."""

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "cloche_requests", "Requests answered", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "cloche_request_seconds",
            "Until an answer begins",
            ("route",),
            registry=self._registry,
            buckets=_BOUNDS,
        )
        self._holds = Histogram(
            "cloche_loop_held_seconds",
            "CPU time for which one piece of work held the event loop, from 0.05 s on",
            registry=self._registry,
            buckets=_HOLDS,
        )
        self._registry.register(_Gauges(service))

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def loop_held(self, seconds: float) -> None:
        self._holds.observe(seconds)

    def text(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class _Gauges(Collector):
    """Reads the gauges from the service when they are collected."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        service = self._service
        admission = service.admission.state()
        yield GaugeMetricFamily("cloche_sandboxes", "Sandboxes alive", service.sandbox_count())
        yield GaugeMetricFamily("cloche_runs_running", "Runs under way", admission.running)
        yield GaugeMetricFamily("cloche_runs_waiting", "Runs in the queue", admission.waiting)
        ended = CounterMetricFamily("cloche_runs", "Runs ended, by outcome", labels=("outcome",))
        for outcome, count in service.runs.counts.items():
            ended.add_metric((outcome,), count)
        yield ended
