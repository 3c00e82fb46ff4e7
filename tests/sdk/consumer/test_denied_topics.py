"""A denied topic is reported with growing pauses while anybody wants it, and no longer once it is known.

Method: one metadata response after the other, on a clock that the test sets.
"""

from __future__ import annotations

from kafkawire.sdk.consumer.denied_topics import DeniedTopics
from kafkawire.sdk.consumer.fetching.queue import FetchQueue
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.metadata import Metadata
from tests.sdk.simulation import backoff, cluster


class Bench:
    def __init__(self) -> None:
        self.metadata = Metadata()
        self.queue = FetchQueue(lambda: None)
        self.denied = DeniedTopics(self.metadata, self.queue, backoff())

    def refresh(self, now_ms: int, *wanted: str, **codes: ErrorCode) -> tuple[set[str], list[str]]:
        """Take a response with the code of each topic; return the topics that are known again, and new errors."""
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in codes]
        response = cluster([1], {name: [1] for name in codes})(MetadataRequest(topics), 12)
        assert isinstance(response, MetadataResponse)
        for topic in response.topics:
            topic.error_code = codes[topic.name or ""]
        self.metadata.update(response, now_ms)
        granted = self.denied.look(wanted, now_ms)
        errors = [str(error) for error in self.queue.errors]
        self.queue.errors.clear()
        return granted, errors


DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_only_what_is_wanted_and_denied_is_reported_with_growing_pauses() -> None:
    bench = Bench()
    given = {"a": DENIED, "b": DENIED, "c": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert bench.refresh(0, "a", "c", **given) == (set(), [f"{DENIED.name}: topic a"])
    times_ms = [now_ms for now_ms in range(100, 20_000, 100) if bench.refresh(now_ms, "a", "c", **given)[1]]
    pauses_ms = [later - sooner for sooner, later in zip([0, *times_ms], times_ms, strict=False)]
    assert [round(pause_ms, -3) for pause_ms in pauses_ms] == [1_000, 2_000, 4_000, 8_000]
    assert isinstance(bench.denied.trouble, BrokerError)


def test_a_topic_that_is_granted_or_no_longer_wanted() -> None:
    bench = Bench()
    bench.refresh(0, "a", "b", a=DENIED, b=DENIED)
    assert bench.refresh(1, "a", a=ErrorCode.NONE, b=DENIED) == ({"a"}, [])
    assert bench.denied.trouble is None
    assert bench.refresh(2, "a", a=DENIED, b=DENIED) == (set(), [f"{DENIED.name}: topic a"])


def test_an_error_that_was_not_raised_ends_with_the_denial() -> None:
    bench = Bench()
    bench.queue.report(BrokerError(DENIED, "topic a"), "a")
    bench.refresh(0, "a", a=DENIED)
    bench.queue.report(BrokerError(DENIED, "topic a"), "a")
    assert bench.refresh(1, "a", a=ErrorCode.NONE) == ({"a"}, [])
