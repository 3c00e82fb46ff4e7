"""Internal topics are created once, and the errors of the last attempts are kept for a while.

Method: use a topic controller that answers when the test tells it to.
"""

from __future__ import annotations

from typing import Any

from kafkawire.reference_broker.groups.streams import internal_topics
from kafkawire.reference_broker.groups.streams.internal_topics import InternalTopics
from kafkawire.reference_broker.metadata.new_topics import NewTopic
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.streams.streams_bench import internal

REFUSED = BrokerError(ErrorCode.INVALID_REPLICATION_FACTOR, "too many")


class Controller:
    """Takes topics to create."""

    def __init__(self) -> None:
        self.wanted: list[tuple[NewTopic, Any]] = []

    def create(self, new: NewTopic, done: Any) -> None:
        self.wanted.append((new, done))

    def answer(self, made: Any) -> None:
        """Answer all requests."""
        wanted, self.wanted = self.wanted, []
        for _, done in wanted:
            done(made)


def new() -> tuple[Controller, InternalTopics]:
    controller = Controller()
    return controller, InternalTopics(controller)  # type: ignore[arg-type]  # it has the method in use


def test_topics_as_wanted() -> None:
    controller, topics = new()
    topics.create([internal("a", 3, 2, x="y"), internal("b", 1)], 10, 0)
    assert [each for each, _ in controller.wanted] == [
        NewTopic("a", 3, 2, configs={"x": "y"}),
        NewTopic("b", 1, -1, configs={}),
    ]


def test_topic_is_created_once_at_a_time() -> None:
    controller, topics = new()
    for _ in range(2):
        topics.create([internal("a", 1)], 10, 0)
    assert len(controller.wanted) == 1
    controller.answer(None)
    assert topics.errors(["a"], 0) == {}
    topics.create([internal("a", 1)], 10, 0)
    assert len(controller.wanted) == 1, "it has been deleted in the meantime"


def test_errors_last_for_a_while() -> None:
    controller, topics = new()
    topics.create([internal("a", 1), internal("b", 1)], 10, 0)
    controller.answer(REFUSED)
    assert topics.errors(["a", "x"], 9) == {"a": "too many"}
    topics.create([internal("a", 1)], 10, 9)
    assert not controller.wanted
    assert topics.errors(["a"], 10) == {}
    topics.create([internal("a", 1)], 10, 10)
    controller.answer(BrokerError(ErrorCode.NOT_CONTROLLER, ""))
    assert topics.errors(["a"], 19) == {"a": "NOT_CONTROLLER"}


def test_too_many_partitions() -> None:
    controller, topics = new()
    topics.create([internal("a", 10_000), internal("b", 1)], 10, 0)
    assert not controller.wanted
    text = "Excessively large number of partitions per request."
    assert topics.errors(["a", "b"], 0) == {"a": text, "b": text}


def test_number_of_errors_is_limited() -> None:
    controller, topics = new()
    count = internal_topics._ERRORS_MAX + 1
    names = [f"{number}" for number in range(count)]
    topics.create([internal(name, 1) for name in names], 10, 0)
    controller.answer(REFUSED)
    assert list(topics.errors(names, 0)) == names[1:]
