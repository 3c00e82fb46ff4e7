"""The times of a request add up to its whole time, whatever its path through the session.

Method: send requests through a session whose clocks the test moves between the steps, and compare what observers got.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.request_times import RequestTimes, RequestWatch
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from tests.reference_broker.raw_client import produce_request
from tests.reference_broker.requests.session_client import Client
from tests.reference_broker.storage.produced_batches import produced

STEPS = ("queue", "local", "remote", "response")


class Observed(Client):
    """A client whose requests are measured with a clock that the test sets."""

    def __init__(self, bench) -> None:
        self.now_ns = 0
        self.seen: list[tuple[str, object, RequestTimes]] = []
        super().__init__(bench, watch=RequestWatch([self._observe], lambda: self.now_ns))

    def _observe(self, request, call, response, times) -> None:
        self.seen.append((request.api.name, response, times))

    def steps(self) -> list[dict[str, int]]:
        for _, _, times in self.seen:
            assert sum(getattr(times, f"{step}_ns") for step in STEPS) == times.total_ns
        return [{step: time for step in STEPS if (time := getattr(each[2], f"{step}_ns"))} for each in self.seen]


@pytest.fixture
def observed(bench) -> Observed:
    bench.create()
    return Observed(bench)


def replace(observed, monkeypatch, handler) -> None:
    monkeypatch.setitem(observed.bench.core.requests._handlers, ApiKey.METADATA, handler)


def test_a_request_answered_at_once(observed, monkeypatch):
    def slow(call, message):
        observed.now_ns += 5
        return MetadataResponse()

    replace(observed, monkeypatch, slow)
    observed.send(MetadataRequest(), 12)
    assert observed.steps() == [{"local": 5}]
    assert observed.seen[0][:2] == ("Metadata", MetadataResponse())


def test_a_delayed_request_and_one_that_waits_for_it(observed, monkeypatch):
    delayed = [DelayedOperation(), DelayedOperation()]
    replies = iter(delayed)

    def later(call, message):
        observed.now_ns += 1
        return next(replies)

    replace(observed, monkeypatch, later)
    observed.send(MetadataRequest(), 12)
    observed.now_ns += 10
    observed.send(MetadataRequest(), 12)
    observed.now_ns += 100
    delayed[0].complete(MetadataResponse())
    observed.run_deferred()
    observed.now_ns += 1_000
    delayed[1].complete(MetadataResponse())
    observed.run_deferred()
    assert observed.steps() == [{"local": 1, "remote": 110}, {"queue": 100, "local": 1, "remote": 1_000}]


def test_steps_belong_to_the_handler(observed, monkeypatch):
    def in_steps(call, message):
        observed.now_ns += 1
        yield
        observed.now_ns += 2
        yield
        observed.now_ns += 4
        return MetadataResponse()

    replace(observed, monkeypatch, in_steps)
    observed.send(MetadataRequest(), 12)
    observed.run_deferred()
    assert observed.steps() == [{"local": 7}]


def test_requests_without_a_response_are_observed(observed):
    observed.send_only(produce_request(produced(b"x"), acks=0), 9)
    observed.run_deferred()
    assert [(name, response) for name, response, _ in observed.seen] == [("Produce", None)]


def test_a_closed_connection_ends_nothing(observed):
    observed.send(FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1, topics=[]), 12)
    seen = len(observed.seen)
    observed.session.connection_lost(None)
    observed.run_deferred()
    assert len(observed.seen) == seen


def test_observers_are_called_in_order(bench):
    called = []
    observers = [lambda *given: called.append(1), lambda *given: called.append(2)]
    watch = RequestWatch(observers, lambda: 7)
    request = Request(APIS[ApiKey.METADATA], 12, 0, "client", MetadataRequest(), 1)
    watch.sent(request, bench.call(request), None, RequestTimes(1, 2))
    assert called == [1, 2]
