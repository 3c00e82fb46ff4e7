"""Clients stay within their quotas: they are told the throttle time, and are not read from until it has passed.

Method: sessions with a broker without sockets, in virtual time. Clients send as fast as the broker reads; what passes
in a minute is compared with the limit. Numbers of single requests are worked out from Kafka's formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.reference_broker.metadata.entity_configs import DEFAULT, ConfigEntity, EntityConfigStore
from kafkawire.reference_broker.requests.session import Session
from kafkawire.reference_broker.storage.disk.disk import FileSlice
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.frames import LENGTH_BYTES
from kafkawire.sdk.protocol.messages.create_partitions import CreatePartitionsRequest
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.share_bench import ShareBench
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.raw_client import produce_request
from tests.reference_broker.requests.recording_wire import Wire
from tests.reference_broker.storage.produced_batches import produced

ALICE = ConfigEntity(user="ANONYMOUS")
MINUTE_MS = 60_000


class Client:
    """A client that sends one request at a time.

    Attributes:
        sent_bytes: the bytes of the requests that the broker has handled, without their length prefixes.
        throttled_ms: the sum of the throttle times that the broker has told.
    """

    def __init__(self, bench: BrokerBench, client_id: str = "app") -> None:
        self.bench = bench
        self.wire = Wire()
        self.deferred: list[Callable[[], None]] = []
        self.session = Session(bench.core.requests, self.wire, bench.peer, lambda: bench.now_ms, self.deferred.append)
        self.protocol = ClientConnection(client_id)
        self.sent_bytes = self.throttled_ms = 0

    def send(self, message: Message, version: int, *, expect_response: bool = True) -> None:
        parts = self.protocol.request(message, version, expect_response=expect_response).parts
        frame = bytearray(b"".join(parts)[LENGTH_BYTES:])
        self.sent_bytes += len(frame)
        self.session.receive_frame(frame)
        self.run_deferred()

    def ask(self, message: Message, version: int) -> Any:
        self.send(message, version)
        return self.answer()

    def answer(self) -> Any:
        self.run_deferred()
        data = b"".join(part.read() if isinstance(part, FileSlice) else part for part in self.wire.parts)
        self.wire.parts = []
        if not data:
            return None
        response: Any = self.protocol.receive(data[LENGTH_BYTES:]).message
        self.throttled_ms += response.throttle_time_ms
        return response

    def run_deferred(self) -> None:
        while self.deferred:
            self.deferred.pop(0)()

    @property
    def is_muted(self) -> bool:
        return self.session.is_waiting


@pytest.fixture
def bench() -> BrokerBench:
    bench = BrokerBench(MemoryDisk())
    bench.create()
    return bench


def limit(bench: BrokerBench, entity: ConfigEntity, **quotas: float) -> None:
    """Replace the quotas of an entity."""
    errors: list[Any] = []
    configs = {key: str(value) for key, value in quotas.items()}
    store = bench.core.parts["entity_configs"]
    assert isinstance(store, EntityConfigStore)
    store.change({entity: lambda before: configs}, errors.append)
    assert errors == [{}]


def take_5_ms(bench: BrokerBench) -> None:
    """Set a clock, each reading of which is 5 ms after the one before."""
    throttling, took = bench.core.requests.throttling, iter(range(0, 10**15, 5_000_000))
    assert throttling is not None
    throttling._clock_ns = lambda: next(took)


def fetch(offset: int = 0, max_bytes: int = 2**20, wait: int = 0) -> FetchRequest:
    partition = FetchRequest.FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchRequest.FetchTopic("t", partitions=[partition])]
    return FetchRequest(max_wait_ms=wait, min_bytes=1, max_bytes=max_bytes, session_epoch=-1, topics=topics)


def rate_of(client: Client, act: Callable[[], int]) -> float:
    """Let a client act whenever the broker reads, for three minutes; return the bytes per second of the last one."""
    bench = client.bench
    end_ms, counted_ms, total = bench.now_ms + 3 * MINUTE_MS, bench.now_ms + 2 * MINUTE_MS, 0
    while bench.now_ms < end_ms:
        if not client.is_muted:
            size_bytes = act()
            total += size_bytes if bench.now_ms >= counted_ms else 0
        bench.advance(5)
        client.run_deferred()
    return total / (MINUTE_MS / 1_000)


@pytest.mark.parametrize("acks", [-1, 0])
def test_a_producer_is_held_to_its_limit(bench: BrokerBench, acks: int) -> None:
    limit(bench, ALICE, producer_byte_rate=50_000)
    client = Client(bench)
    request = produce_request(produced(bytes(5_000)), acks=acks)

    def act() -> int:
        before = client.sent_bytes
        client.send(request, 9, expect_response=acks != 0)
        if acks:
            assert client.answer().responses[0].partition_responses[0].error_code == ErrorCode.NONE
        return client.sent_bytes - before

    assert rate_of(client, act) == pytest.approx(50_000, rel=0.1)
    assert bool(client.throttled_ms) == bool(acks)


def test_a_consumer_is_held_to_its_limit(bench: BrokerBench) -> None:
    for _ in range(20):
        bench.produce(produced(bytes(4_000)))
    limit(bench, ConfigEntity(user=DEFAULT), consumer_byte_rate=40_000)
    client, empty = Client(bench), 0

    def act() -> int:
        nonlocal empty
        (topic,) = client.ask(fetch(max_bytes=20_000), 12).responses or (None,)
        empty += topic is None
        return 0 if topic is None else len(topic.partitions[0].records)

    assert rate_of(client, act) == pytest.approx(40_000, rel=0.1)
    assert empty, "a throttled fetch is answered without records"
    assert client.throttled_ms


def test_without_quotas_nothing_is_throttled(bench: BrokerBench) -> None:
    client = Client(bench)
    for _ in range(5):
        assert client.ask(produce_request(produced(bytes(5_000))), 9).throttle_time_ms == 0
    assert not client.is_muted


def test_the_throttle_time_of_a_producer(bench: BrokerBench) -> None:
    client = Client(bench)
    request = produce_request(produced(bytes(1_000)))
    client.ask(request, 9)
    size_bytes = client.sent_bytes
    limit(bench, ALICE, producer_byte_rate=size_bytes / 10)
    assert client.ask(request, 9).throttle_time_ms == 0, "one request fits into the window"
    response = client.ask(request, 9)
    assert response.throttle_time_ms == 10_000
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    client.send(MetadataRequest(None), 12)
    bench.advance(9_999)
    assert client.answer() is None
    bench.advance(1)
    assert client.answer().throttle_time_ms == 0
    assert not client.is_muted


def test_other_connections_are_not_muted(bench: BrokerBench) -> None:
    limit(bench, ALICE, producer_byte_rate=1)
    one, other = Client(bench), Client(bench)
    assert one.ask(produce_request(produced(bytes(1_000))), 9).throttle_time_ms > 0
    assert one.is_muted
    assert other.ask(MetadataRequest(None), 12).throttle_time_ms == 0
    assert not other.is_muted
    assert other.ask(produce_request(produced(b"x")), 9).throttle_time_ms > 0, "they share the rate of the user"


def test_the_longest_throttle_time_counts(bench: BrokerBench) -> None:
    limit(bench, ALICE, producer_byte_rate=10, request_percentage=0.0001)
    take_5_ms(bench)
    client = Client(bench)
    response = client.ask(produce_request(produced(bytes(1_000))), 9)
    assert response.throttle_time_ms > 1_000, "the request quota throttles for one sample at most"


def test_the_time_spent_on_requests(bench: BrokerBench) -> None:
    """A request takes a known number of percent."""
    limit(bench, ALICE, request_percentage=1)
    take_5_ms(bench)
    client = Client(bench)
    times = [client.ask(MetadataRequest(None), 12).throttle_time_ms]
    while not times[-1] and len(times) < 100:
        times.append(client.ask(MetadataRequest(None), 12).throttle_time_ms)
    assert 1 < len(times) < 50
    assert 0 < times[-1] <= 1_000
    assert client.is_muted
    assert client.session.is_waiting


def test_requests_that_are_exempt_from_the_time_limit(bench: BrokerBench) -> None:
    limit(bench, ALICE, request_percentage=0.000001)
    take_5_ms(bench)
    client = Client(bench)
    for _ in range(3):
        client.send(produce_request(produced(b"x"), acks=0), 9, expect_response=False)
        assert not client.is_muted
    follower = fetch()
    follower.replica_id = 5
    assert client.ask(follower, 12).throttle_time_ms == 0
    assert client.ask(fetch(), 12).throttle_time_ms > 0


def test_a_throttled_fetch_is_empty_and_its_session_goes_on(bench: BrokerBench) -> None:
    bench.produce(produced(bytes(1_000)))
    client = Client(bench)
    first = fetch()
    first.session_epoch = 0
    begun = client.ask(first, 12)
    assert begun.session_id
    limit(bench, ALICE, consumer_byte_rate=100)
    bench.produce(produced(bytes(1_000)))
    following = FetchRequest(max_wait_ms=0, min_bytes=1, session_id=begun.session_id, session_epoch=1)
    throttled = client.ask(following, 12)
    assert (throttled.error_code, throttled.session_id, throttled.responses) == (0, begun.session_id, ())
    assert throttled.throttle_time_ms > 0
    bench.advance(throttled.throttle_time_ms + 20_000)
    client.run_deferred()
    limit(bench, ALICE)
    following.session_epoch = 2
    (topic,) = client.ask(following, 12).responses
    assert len(topic.partitions[0].records) > 2_000, "the records that were held back are still news"
    full = fetch()
    full.session_epoch = 0
    limit(bench, ALICE, consumer_byte_rate=100)
    client.bench.advance(20_000)
    assert client.ask(full, 12).session_id == 0, "a throttled full fetch begins no session"


def test_what_a_fetch_may_return_at_once(bench: BrokerBench) -> None:
    """About as much as fits into the window after an idle time, since much more would always be throttled."""
    for _ in range(10):
        bench.produce(produced(bytes(1_000)))
    limit(bench, ALICE, consumer_byte_rate=500)
    client = Client(bench)
    wait_ms = client.ask(fetch(), 12).throttle_time_ms
    assert 0 < wait_ms < 500, "records and the rest of the response are slightly more than fits"
    bench.advance(wait_ms)
    (topic,) = client.ask(fetch(), 12).responses
    assert len(topic.partitions[0].records) == 5_000
    bench.advance(20_000)
    client.ask(fetch(), 12)
    bench.advance(500)
    large = fetch()
    large.min_bytes = 1_000_000
    large.max_wait_ms = 500
    assert client.ask(large, 12).responses, "it does not wait for more than it may return"


def test_a_share_consumer_is_held_to_its_limit() -> None:
    """The consumer's records have been acquired, so they are sent, and the consumer is throttled afterwards."""
    bench = ShareBench(MemoryDisk())
    bench.begin_group()
    for _ in range(40):
        bench.produce(produced(bytes(1_000)))
    limit(bench, ALICE, consumer_byte_rate=1_000)
    client = Client(bench)

    def share_fetch(epoch: int) -> Any:
        partition = ShareFetchRequest.FetchPartition(0, [])
        topics = [ShareFetchRequest.FetchTopic(bench.topic_id, [partition])]
        request = ShareFetchRequest(
            "g", "m", epoch, max_wait_ms=0, min_bytes=1, max_bytes=2**20, max_records=500, batch_size=500, topics=topics
        )
        client.send(request, 2)
        bench.pass_turns()
        response = client.answer()
        return response.throttle_time_ms, sum(len(part.records or b"") for part in response.responses[0].partitions)

    idle_ms, idle_bytes = share_fetch(0)
    assert 9_000 < idle_bytes <= 10_000, "no more than can be fetched without being throttled"
    assert idle_ms < 500
    bench.advance(idle_ms)
    client.run_deferred()
    throttle_ms, size_bytes = share_fetch(1)
    assert size_bytes > 9_000
    assert throttle_ms == pytest.approx(10_000, rel=0.1)
    assert client.is_muted


def create(name: str, partitions: int) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(name, partitions, 1)], 5_000)


def test_mutations_are_refused_in_new_versions(bench: BrokerBench) -> None:
    limit(bench, ALICE, controller_mutation_rate=2)
    client = Client(bench)
    assert client.ask(create("a", 30), 7).topics[0].error_code == ErrorCode.NONE, "a burst of 22 may be overdrawn"
    refused = client.ask(create("b", 1), 7)
    (result,) = refused.topics
    assert (result.error_code, result.error_message) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)
    assert refused.throttle_time_ms == 4_000
    bench.advance(4_000)
    client.run_deferred()
    grown = CreatePartitionsRequest([CreatePartitionsRequest.CreatePartitionsTopic("a", 35, None)], 5_000)
    assert client.ask(grown, 3).results[0].error_code == ErrorCode.NONE
    refused = client.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState("a")], timeout_ms=5_000), 6)
    (result,) = refused.responses
    assert (result.error_code, result.error_message) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)
    assert refused.throttle_time_ms == 2_500
    bench.advance(2_500)
    client.run_deferred()
    deleted = client.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState("a")], timeout_ms=5_000), 6)
    assert deleted.responses[0].error_code == ErrorCode.NONE
    assert deleted.throttle_time_ms == 0


def test_mutations_in_old_versions_are_made_and_throttled(bench: BrokerBench) -> None:
    limit(bench, ALICE, controller_mutation_rate=2)
    client = Client(bench)
    response = client.ask(create("a", 30), 5)
    assert response.topics[0].error_code == ErrorCode.NONE
    assert response.throttle_time_ms == 4_000
    assert client.is_muted
    bench.advance(4_000)
    client.run_deferred()
    assert client.ask(DeleteTopicsRequest(topic_names=["a"], timeout_ms=5_000), 4).throttle_time_ms == 15_000


def test_topics_that_are_created_automatically_count(bench: BrokerBench) -> None:
    limit(bench, ALICE, controller_mutation_rate=0.25)
    client = Client(bench)
    topics = [MetadataRequest.MetadataRequestTopic(name=f"auto.{number}") for number in range(6)]
    response = client.ask(MetadataRequest(topics, allow_auto_topic_creation=True), 12)
    assert response.throttle_time_ms == 0
    assert len(bench.core.metadata.image.topics) == 1 + 3, "a burst of 2.75 may be overdrawn by one"
    assert not client.is_muted


def test_the_session_of_a_muted_client_that_disconnects(bench: BrokerBench) -> None:
    limit(bench, ALICE, producer_byte_rate=1)
    client = Client(bench)
    client.ask(produce_request(produced(bytes(1_000))), 9)
    assert client.is_muted
    client.session.connection_lost(None)
    bench.advance(10 * MINUTE_MS)
    client.run_deferred()
    assert bench.core.timers.next_deadline_ms is None or bench.core.timers.next_deadline_ms > bench.now_ms


def test_a_message_that_has_no_throttle_time(bench: BrokerBench) -> None:
    """Version 0 of ApiVersions cannot tell the client; its connection is muted all the same."""
    from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest

    limit(bench, ALICE, request_percentage=0.000001)
    take_5_ms(bench)
    client = Client(bench)
    assert client.ask(ApiVersionsRequest(), 0).throttle_time_ms == 0
    assert client.is_muted


def test_a_request_handled_by_the_oldest_produce_version(bench: BrokerBench) -> None:
    limit(bench, ALICE, producer_byte_rate=1)
    request = produce_request(produced(bytes(1_000)))
    assert isinstance(request, ProduceRequest)
    client = Client(bench)
    assert client.ask(request, 3).throttle_time_ms > 0, "older clients wait after the response, too"
    assert client.is_muted
