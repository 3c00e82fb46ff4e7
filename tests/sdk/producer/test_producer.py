"""Despite limits, faults and restarts, records are stored once and in order, or their error is raised.

Method: run the whole producer against a scripted in-memory broker that fails on demand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import (
    BrokerError,
    BufferFull,
    Closed,
    ConfigurationError,
    ConnectFailed,
    DeliveryTimedOut,
    EncodeError,
    LocalProtocolError,
    RecordTooLarge,
    RequestTimedOut,
)
from kafkawire.sdk.producer.core import ProducerCore
from kafkawire.sdk.producer.producer import Producer
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.produce import ProduceResponse
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import Compression, walk
from tests.sdk.producer.producing import QUICK, core_of, producing
from tests.sdk.scripted_broker import BROKER, Later, StoringBroker


def refused(code: ErrorCode) -> Callable[[Request], ProduceResponse]:
    """Answer a produce request with an error for each batch."""

    def respond(request: Request) -> ProduceResponse:
        kind = ProduceResponse.PartitionProduceResponse
        return ProduceResponse(
            [
                ProduceResponse.TopicProduceResponse(
                    topic.name, topic.topic_id, [kind(data.index, code) for data in topic.partition_data]
                )
                for topic in request.message.topic_data
            ]
        )

    return respond


def test_records_and_their_places() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        headers = {"h": b"1"}
        first = producer.send("t", "text", key="schlüssel", headers=headers, timestamp_ms=77)
        second = producer.send("t", None, key=b"k", headers=[("a", b"1"), ("a", None)])
        assert await first == ("t", 0, 0, 77)
        assert (await second).offset == 1
        (batch,) = walk(broker.logs["t", 0][0])
        one, two = batch.records()
        assert (one.key, one.value, one.headers) == ("schlüssel".encode(), b"text", (("h", b"1"),))
        assert (two.key, two.value, two.headers) == (b"k", None, (("a", b"1"), ("a", None)))

    producing(test)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"headers": {"a": 5}}, r"headers\['a'\]: expected bytes, text or None, got 5"),
        ({"headers": [(b"a", b"1")]}, "headers: expected a string as the name, got bytes"),
        ({"headers": ["ab"]}, "headers: expected pairs"),
        ({"headers": 5}, "headers: expected pairs"),
        ({"value": 5}, "value: expected bytes, text or None, got 5"),
        ({"value": [1, 2]}, "value: expected bytes, text or None, got list; pass the producer a"),
        ({"value": "\ud800"}, "value: '.ud800' is not encodable as UTF-8"),
        ({"key": [1, 2]}, "key: expected bytes, text or None, got list; pass the producer a"),
        ({"timestamp_ms": -2}, "timestamp_ms: -2 is not a time in ms"),
        ({"timestamp_ms": "now"}, "timestamp_ms: expected an integer"),
        ({"timestamp_ms": True}, "timestamp_ms: expected an integer, got True"),
        ({"partition": -1}, "topic t has partitions 0 to 0, not -1"),
        ({"partition": 0.0}, "partition of t: expected an integer, got 0.0"),
    ],
)
def test_a_refused_record_leaves_no_trace(given: dict[str, Any], message: str) -> None:
    """No bytes, batches or waiting topics remain, and the next record is the first one."""

    async def test(broker: StoringBroker, producer: Producer) -> None:
        delivery = producer.send("t", b"first")
        await delivery
        for topic in ("t",) if "partition" in given else ("t", "unknown"):
            with pytest.raises(LocalProtocolError, match=message):
                producer.send(topic, **{"value": b"v", **given})
        assert core_of(producer).accumulator.bytes_held == 0
        assert not core_of(producer).accumulator.news
        assert set(core_of(producer).accumulator.topics) <= {"t"}
        await producer.flush()
        assert (await producer.send("t", b"second")).offset == 1
        assert broker.values("t") == [b"first", b"second"]

    producing(test)


@pytest.mark.parametrize("topic", [5, b"t", "", "a b"])
def test_a_topic_that_cannot_be(topic: Any) -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        with pytest.raises(LocalProtocolError, match=r"topic .*: expected"):
            producer.send(topic, b"v")
        assert set(core_of(producer).accumulator.topics) <= {"t"}
        assert (await producer.send("t", b"v")).offset == 0

    producing(test)


def test_text_and_missing_values_of_headers() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        await producer.send("t", b"v", headers={"text": "grüße", "none": None, "bytes": bytearray(b"1")})
        await producer.send_many("t", [b"v"] * 2, headers=(("name", value) for value in ("1", "2")))
        await producer.flush()
        one, *others = [record for log in broker.logs["t", 0] for batch in walk(log) for record in batch.records()]
        assert one.headers == (("text", "grüße".encode()), ("none", None), ("bytes", b"1"))
        assert [other.headers for other in others] == [(("name", b"1"), ("name", b"2"))] * 2

    producing(test)


def test_send_many_sends_what_comes_before_an_error() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        values: list[Any] = [*([b"v"] * 1_500), 5, b"never"]
        with pytest.raises(EncodeError, match="got 5"):
            await producer.send_many("t", values)
        await producer.flush()
        assert broker.values("t") == [b"v"] * 1_500

    producing(test)


@pytest.mark.parametrize("values", ["abc", {"a": 1}])
def test_send_many_takes_no_single_value(values: Any) -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        with pytest.raises(LocalProtocolError, match="values: expected an iterable of values, got"):
            await producer.send_many("t", values)
        await producer.flush()
        assert broker.values("t") == []

    producing(test)


def test_order_over_many_batches_and_requests() -> None:
    values = [b"%05d" % number for number in range(5000)]

    async def test(broker: StoringBroker, producer: Producer) -> None:
        deliveries = [producer.send("t", value) for value in values]
        await producer.flush()
        assert broker.values("t") == values
        assert [(await delivery).offset for delivery in deliveries] == list(range(5000))
        assert len(broker.logs["t", 0]) > 10

    producing(test, batch_size=4096)


def test_keys_decide_the_partition_and_keyless_records_fill_one_after_the_other() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        places = [await producer.send("m", b"v", key=key) for key in (b"a", b"b", b"a", b"b")]
        assert places[0].partition == places[2].partition
        assert places[1].partition == places[3].partition
        chosen = [await producer.send("m", b"v", partition=number) for number in range(4)]
        assert [place.partition for place in chosen] == [0, 1, 2, 3]
        await producer.send_many("m", [b"x" * 100] * 400)
        await producer.flush()
        assert sum(len(log) for log in broker.logs.values()) < 100

    producing(test, batch_size=1024)


@pytest.mark.parametrize("io", ["loop", "thread"])
def test_a_partition_that_the_broker_has_not_heard_of_yet(io: str) -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        await producer.send("m", b"v", partition=3)
        describe, answers = broker.responders[ApiKey.METADATA], 0

        def lag(request: Request) -> Any:
            nonlocal answers
            answers += 1
            broker.topics["m"] = 4 if answers <= 3 else 5
            return describe(request)

        broker.responders[ApiKey.METADATA] = lag
        assert (await producer.send("m", b"v", partition=4)).partition == 4
        assert answers >= 4
        assert await producer.send_many("m", [b"v"] * 3, partition=4) == 3
        await producer.flush()
        assert broker.values("m") == [b"v"] * 5

    producing(test, io=io)


@pytest.mark.usefixtures("time_skips")
def test_a_login_that_is_refused_for_a_while_ends_neither_records_nor_idempotence() -> None:
    """Once a topic is known, the request for a producer id loses its connection, and the next logins are refused."""
    broker, code, asked = StoringBroker({"t": 1, "m": 1}), ErrorCode.NONE, set[str]()
    describe, give = broker.responders[ApiKey.METADATA], broker.responders[ApiKey.INIT_PRODUCER_ID]

    def metadata(request: Request) -> Any:
        asked.update(topic.name for topic in request.message.topics)
        return describe(request)

    def loading(request: Request) -> InitProducerIdResponse:
        if asked:
            broker.responders[ApiKey.INIT_PRODUCER_ID] = lose  # when it asks again, the client knows the topic
        return InitProducerIdResponse(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def lose(request: Request) -> None:
        nonlocal code
        broker.responders[ApiKey.INIT_PRODUCER_ID], code = give, ErrorCode.SASL_AUTHENTICATION_FAILED
        for link in list(broker.links):
            link.wire.close()

    broker.responders |= {
        ApiKey.METADATA: metadata,
        ApiKey.INIT_PRODUCER_ID: loading,
        ApiKey.SASL_HANDSHAKE: lambda request: SaslHandshakeResponse(),
        ApiKey.SASL_AUTHENTICATE: lambda request: SaslAuthenticateResponse(code, "wrong password"),
    }

    async def run() -> None:
        nonlocal code
        login: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
        login |= {"sasl_username": "alice", "sasl_password": "pencil"}
        async with Producer(str(BROKER), network=broker.network, **QUICK, **login) as producer:
            waiting = asyncio.ensure_future(producer.send("t", b"1"))
            await asyncio.wait({waiting}, timeout=20)
            assert not waiting.done()
            code = ErrorCode.NONE
            await producer.send("m", b"1")
            assert (await waiting).offset == 0
            await producer.send("t", b"2")

    asyncio.run(run())
    assert (broker.values("t"), broker.values("m")) == ([b"1", b"2"], [b"1"])
    assert 5 <= len(broker.asked(ApiKey.SASL_AUTHENTICATE)) <= 8, "the pauses between refused logins grow"
    assert {batch.producer_id for log in broker.logs.values() for data in log for batch in walk(data)} == {1_000}


def test_a_custom_partitioner() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        assert (await producer.send("m", b"v", key=b"any")).partition == 3

    producing(test, partitioner=lambda key, partitions: partitions - 1)


@pytest.mark.parametrize("compression", ["none", "gzip", "lz4"])
def test_compression(compression: str) -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        await producer.send_many("t", [b"x" * 100] * 50)
        await producer.flush()
        (batch,) = walk(broker.logs["t", 0][0])
        assert batch.compression is Compression[compression.upper()]
        assert broker.values("t") == [b"x" * 100] * 50

    producing(test, compression=compression)


def test_without_acknowledgement() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        assert (await producer.send("t", b"v")).offset == -1
        # An answer to a request means that the frame before it has arrived.
        client = core_of(producer).client
        await client.driver.ask(lambda promise, _: client.router.refresh(lambda error: promise.keep(None)))
        assert broker.values("t") == [b"v"]

    producing(test, acks=0)


def test_without_acknowledgement_close_sends_everything_by_itself() -> None:
    """There is no response that could cause the driver's next turn."""
    count = 40

    async def test(broker: StoringBroker, producer: Producer) -> None:
        await producer.send("t", b"first")
        for number in range(count):
            producer.send("t", b"%d" % number * 100)
        async with asyncio.timeout(10):
            await producer.close()
        while len(broker.asked(ApiKey.PRODUCE)) < count + 1:
            await asyncio.sleep(0)

    producing(test, acks=0, batch_size=128)


def test_the_buffer_is_bounded_and_drain_waits_for_room() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        for _ in range(3):
            producer.send("t", b"x" * 1000)
        with pytest.raises(BufferFull, match=r"buffer_memory=4096; wait with producer\.drain\(\)"):
            producer.send("t", b"x" * 1000)
        await producer.drain()
        producer.send("t", b"y")
        await producer.flush()
        assert broker.values("t") == [b"x" * 1000] * 3 + [b"y"]

    producing(test, buffer_memory=4096, batch_size=1024)


def test_send_many_waits_by_itself() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        assert await producer.send_many("t", (b"%d" % number for number in range(2000))) == 2000
        await producer.flush()
        assert broker.values("t") == [b"%d" % number for number in range(2000)]

    producing(test, buffer_memory=4096, batch_size=1024)


def test_a_record_that_no_request_can_carry() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        with pytest.raises(RecordTooLarge, match="max_request_size=1048576"):
            producer.send("t", bytes(2**20))

    producing(test)


@pytest.mark.parametrize("code", [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_passing_errors_are_retried_in_order(code: ErrorCode) -> None:
    values = [b"%04d" % number for number in range(1000)]

    async def test(broker: StoringBroker, producer: Producer) -> None:
        broker.script(ApiKey.PRODUCE, *[refused(code)] * 5)
        for value in values:
            producer.send("t", value)
        await producer.flush()
        assert broker.values("t") == values
        assert len(broker.asked(ApiKey.PRODUCE)) > 5

    producing(test, batch_size=1024)


def test_lasting_errors_are_raised_by_the_delivery() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        broker.script(ApiKey.PRODUCE, refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED: 1 record for t-0"):
            await producer.send("t", b"v")
        await producer.flush()

    producing(test)


def test_lasting_errors_that_nobody_awaits_are_raised_by_flush() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        broker.script(ApiKey.PRODUCE, refused(ErrorCode.MESSAGE_TOO_LARGE))
        producer.send("t", b"v")
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
            await producer.flush()
        await producer.flush()

    producing(test)


def test_flush_has_a_limit_after_which_records_remain_on_their_way() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        broker.script(ApiKey.PRODUCE, lambda request: None)
        delivery = producer.send("t", b"v")
        for limit_ms in (0, 1):
            with pytest.raises(
                RequestTimedOut, match=f"flush: after {limit_ms} ms some records are still unacknowledged"
            ):
                await producer.flush(limit_ms)
        with pytest.raises(LocalProtocolError, match="timeout_ms: expected an integer"):
            await producer.flush(0.5)  # type: ignore[arg-type]  # seconds, as in other clients
        assert not delivery.done
        broker.stop()
        broker.start()
        await producer.flush(timeout_ms=60_000)
        assert (await delivery).offset == 0

    producing(test)


@pytest.mark.usefixtures("time_skips")
def test_time_is_bounded() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        broker.responders[ApiKey.PRODUCE] = refused(ErrorCode.LEADER_NOT_AVAILABLE)
        with pytest.raises(DeliveryTimedOut, match="within delivery_timeout_ms=500; LEADER_NOT_AVAILABLE") as caught:
            await producer.send("t", b"v")
        assert isinstance(caught.value.__cause__, BrokerError)

    producing(test, delivery_timeout_ms=500, request_timeout_ms=450)


def test_a_broker_that_restarts_while_records_are_sent() -> None:
    values = [b"%04d" % number for number in range(2000)]

    async def test(broker: StoringBroker, producer: Producer) -> None:
        for number, value in enumerate(values):
            producer.send("t", value)
            if number % 100 == 99:
                await asyncio.sleep(0)
            if number == 700:
                broker.stop()
            if number == 1300:
                broker.start()
        await producer.flush()
        # Records in flight may be stored twice, because the client cannot know whether the broker had stored them.
        assert list(dict.fromkeys(broker.values("t"))) == values

    producing(test, batch_size=1024)


@pytest.mark.usefixtures("time_skips")
def test_a_request_that_is_not_answered_is_sent_again() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        broker.script(ApiKey.PRODUCE, lambda request: None)
        assert (await producer.send("t", b"v")).offset == 0

    producing(test, request_timeout_ms=30)


def test_an_unknown_topic_is_waited_for() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        questions: list[MetadataRequest] = []
        usual = broker.responders[ApiKey.METADATA]

        def described(request: Request) -> Message | Later | None:
            assert isinstance(request.message, MetadataRequest)
            questions.append(request.message)
            return usual(request)

        broker.responders[ApiKey.METADATA] = described
        deliveries = [producer.send("new", b"%d" % number) for number in range(3)]
        await asyncio.sleep(0)
        broker.topics["new"] = 1
        assert [(await delivery).offset for delivery in deliveries] == [0, 1, 2]
        assert questions
        assert all(each.allow_auto_topic_creation for each in questions), "a request for a topic may create it"

    producing(test)


@pytest.mark.usefixtures("time_skips")
def test_an_unknown_topic_that_never_comes() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        with pytest.raises(
            DeliveryTimedOut, match="topic never is not known after delivery_timeout_ms=500: UNKNOWN_TOPIC_OR_PARTITION"
        ) as caught:
            await producer.send("never", b"v")
        assert isinstance(caught.value.__cause__, BrokerError)
        producer.send("never", b"v")
        with pytest.raises(DeliveryTimedOut):
            await producer.flush()
        assert core_of(producer).accumulator.bytes_held == 0

    producing(test, delivery_timeout_ms=500, request_timeout_ms=450)


def test_records_of_unknown_topics_count_against_the_buffer() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        delivery = producer.send("new", b"x" * 3000)
        with pytest.raises(BufferFull):
            producer.send("new", b"x" * 3000)
        broker.topics["new"] = 1
        await delivery

    producing(test, buffer_memory=4096)


def test_nobody_there() -> None:
    async def run() -> None:
        broker = StoringBroker()
        broker.stop()
        producer = Producer("broker:9092, elsewhere:1", network=broker.network)
        with pytest.raises(ConnectFailed, match=r"any broker: .*broker:9092.*; .*elsewhere:1"):
            await producer.start()
        with pytest.raises(Closed):
            producer.send("t", b"v")
        await producer.close()

    asyncio.run(run())


def test_closed() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        producer = Producer(str(BROKER), network=broker.network)
        with pytest.raises(Closed, match="the producer is not started"):
            producer.send("t", b"v")
        await producer.start()
        with pytest.raises(LocalProtocolError, match="already started"):
            await producer.start()
        known = producer.send("t", b"v")
        await known
        unsent, unknown = producer.send("t", b"v"), producer.send("new", b"v")
        await producer.close(flush=False)
        for delivery in (unsent, unknown):
            with pytest.raises(Closed, match="closed before the record was acknowledged"):
                await delivery
        with pytest.raises(Closed):
            producer.send("t", b"v")
        await producer.close()

    asyncio.run(run())


def test_the_constructor_does_no_io_and_checks_options() -> None:
    Producer("broker:9092")
    unknown: dict[str, Any] = {"linger": 5}
    with pytest.raises(ConfigurationError, match="did you mean linger_ms"):
        Producer("broker:9092", **unknown)


@pytest.mark.parametrize("io", ["loop", "thread"])
def test_what_is_late_because_a_broker_throttles_says_so(io: str) -> None:
    """Both limits are 0, so neither call waits."""

    async def test(broker: StoringBroker, producer: Producer) -> None:
        await producer.send("t", b"v")
        for link in core_of(producer).client.router._links.all:
            link.throttled(60_000, monotonic_ms())
        late = producer.send("t", b"late")
        text = f"throttled by {BROKER} for 60000 ms"
        with pytest.raises(RequestTimedOut, match=text):
            await producer.flush(timeout_ms=0)
        text = f"before the record was acknowledged; this client exceeds a quota and was {text}"
        with pytest.raises(Closed, match=text):
            await producer.close(timeout_ms=0)
        with pytest.raises(Closed, match=text):
            await late

    producing(test, io=io)


def test_a_producer_that_could_not_be_started_may_be_started_while_the_rest_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cores: list[object] = []

    async def fails(core: ProducerCore) -> None:
        raise Closed("no")

    async def run() -> None:
        producer = Producer(str(BROKER), network=StoringBroker({"t": 1}).network)

        async def finishes(core: ClientCore, error: Closed) -> None:
            cores.append(producer._core)

        monkeypatch.setattr(ProducerCore, "start", fails)
        monkeypatch.setattr(ClientCore, "finish", finishes)
        with pytest.raises(Closed, match="no"):
            await producer.start()
        assert cores == [None]

    asyncio.run(run())
