"""The core runs on an I/O thread, and is not delayed if the thread that takes records and promises blocks.

Method: run a core and a scripted in-memory broker on one separate thread.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkawire.sdk.client.options import ConsumerOptions, read_options
from kafkawire.sdk.consumer.core import ConsumerCore
from kafkawire.sdk.errors import BrokerError, Closed, ConnectFailed, LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.transport.waiting import result_of
from tests.sdk.scripted_broker import BROKER, Later, StoringBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
WAIT_SECONDS = 10


class Setting:
    """A core on a thread."""

    def __init__(self, **given: object) -> None:
        self.broker = StoringBroker({"t": 2})
        quick = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "auto_offset_reset": "earliest"}
        options = read_options(ConsumerOptions, str(BROKER), {**quick, "fetch_max_wait_ms": 5, "io": "thread", **given})
        self.core = ConsumerCore(options, self.broker.network)

    def start(self) -> None:
        """Connect."""
        self.core.start().wait(WAIT_SECONDS)

    def read(self, count: int) -> list[bytes | None]:
        """Block this thread, and return the values of the next records."""
        found: list[bytes | None] = []
        while len(found) < count:
            if self.core.reader.advance():
                assert self.core.reader.handout is not None
                found.append(self.core.reader.handout.take().value)
            else:
                self.core.queue.wait().wait(WAIT_SECONDS)
        return found

    def close(self) -> None:
        """End the core."""
        result_of(self.core.client.finish, Closed("the consumer was closed"))


@pytest.fixture
def setting() -> Iterator[Setting]:
    """A core on a thread, with ten records in a partition."""
    made = Setting()
    made.broker.fill("t", *(b"%d" % number for number in range(10)))
    yield made
    made.close()


def test_reading_in_another_thread(setting: Setting) -> None:
    setting.start()
    setting.core.assignment.assign([T0])
    assert setting.read(10) == [b"%d" % number for number in range(10)]
    setting.core.seek([T0], OffsetTimestamp.EARLIEST)
    assert setting.read(1) == [b"0"]
    setting.core.seek_to_offset(T0, 8)
    assert setting.read(2) == [b"8", b"9"]
    assert (setting.core.position(T0), setting.core.lag(T0)) == (10, 0)


def test_partitions_are_fetched_ahead_while_the_user_blocks(setting: Setting) -> None:
    setting.start()
    setting.core.assignment.assign([T0])
    assert setting.read(1) == [b"0"]
    promise = setting.core.queue.wait()
    setting.core.driver.run(lambda now_ms: setting.broker.fill("t", b"later"))
    promise.wait(WAIT_SECONDS)  # nothing has asked for the record
    assert setting.read(10)[-1] == b"later"


def test_a_subscription(setting: Setting) -> None:
    setting.core.topics = frozenset({"t"})
    setting.start()
    setting.core.subscribe(Subscription(["t"])).wait(WAIT_SECONDS)
    assert setting.core.assignment.assigned == {T0, T1}
    assert setting.core.partitions_for("t").wait(WAIT_SECONDS) == [T0, T1]
    ends = setting.core.look_up({T0: OffsetTimestamp.LATEST, T1: OffsetTimestamp.LATEST}).wait(WAIT_SECONDS)
    assert {each: place.offset for each, place in ends.items()} == {T0: 10, T1: 0}


def test_partitions_of_a_topic_that_does_not_exist(setting: Setting) -> None:
    setting.start()
    usual, asked = setting.broker.responders[ApiKey.METADATA], 0

    def answer(request: Request) -> Message | Later | None:
        nonlocal asked
        asked += any(topic.name == "gone" for topic in request.message.topics or ())  # other topics may also be named
        return usual(request)

    setting.broker.responders[ApiKey.METADATA] = answer
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION: topic gone"):
        setting.core.partitions_for("gone").wait(WAIT_SECONDS)
    assert asked == 1


def test_a_response_that_leaves_out_a_topic(setting: Setting) -> None:
    setting.start()
    without = MetadataResponse(brokers=[MetadataResponse.MetadataResponseBroker(1, *BROKER)])
    setting.broker.script(ApiKey.METADATA, lambda request: without)
    with pytest.raises(RemoteProtocolError, match="the response to Metadata lacks topic t"):
        setting.core.partitions_for("t").wait(WAIT_SECONDS)
    setting.core.assign([T0])
    assert setting.read(1) == [b"0"]


def test_the_end_wakes_a_thread_that_waits(setting: Setting) -> None:
    setting.start()
    waiting = setting.core.queue.wait()
    setting.core.driver.end(Closed("the consumer was closed"))
    waiting.wait(WAIT_SECONDS)
    with pytest.raises(Closed):
        setting.core.reader.advance()
    with pytest.raises(Closed):
        setting.core.assignment.assign([T0])


def test_no_broker(setting: Setting) -> None:
    setting.broker.stop()
    with pytest.raises(ConnectFailed):
        setting.start()


def test_a_topic_that_may_not_be_read(setting: Setting) -> None:
    setting.broker.responders[ApiKey.METADATA] = lambda request: MetadataResponse(
        brokers=[MetadataResponse.MetadataResponseBroker(1, *BROKER)],
        topics=[MetadataResponse.MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t")],
    )
    setting.core.topics = frozenset({"t"})
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED: topic t"):
        setting.start()


def test_positions_that_are_not_known(setting: Setting) -> None:
    setting.start()
    with pytest.raises(LocalProtocolError, match="t-0 is not assigned"):
        setting.core.position(T0)
    with pytest.raises(LocalProtocolError, match="t-0 is not assigned"):
        setting.core.lag(T0)
    with pytest.raises(LocalProtocolError, match="expected 0 to"):
        setting.core.seek_to_offset(T0, -1)


def test_a_look_up_that_fails() -> None:
    setting = Setting(auto_offset_reset="none")
    setting.start()
    setting.core.assignment.assign([T0])
    setting.core.queue.wait().wait(WAIT_SECONDS)
    with pytest.raises(Exception, match="t-0 has no committed offset"):
        setting.core.position(T0)
    assert setting.core.position(T0) is None
    setting.close()


def test_a_defect_ends_the_client_and_every_read(setting: Setting) -> None:
    setting.start()
    setting.broker.responders[ApiKey.FETCH] = lambda request: FetchResponse(responses=())
    setting.core.planner.due_ms = lambda now_ms: 1 / 0  # type: ignore[method-assign,assignment]  # a defect
    setting.core.assignment.assign([T0])
    setting.core.queue.wait().wait(WAIT_SECONDS)
    with pytest.raises(Exception, match="because of a defect"):
        setting.core.reader.advance()
