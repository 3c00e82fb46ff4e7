"""Fetches are planned by leader and limits, continue from the batch headers, and are dropped after a seek.

Method: the fetcher is asked for requests and given hand-made responses; no records are decoded here.
"""

from __future__ import annotations

import re

import pytest

from kafkawire.sdk.client.metadata import Metadata
from kafkawire.sdk.client.options import ConsumerOptions, read_options
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.fetcher import Fetcher
from kafkawire.sdk.consumer.positions import Positions
from kafkawire.sdk.errors import BrokerError, DecodeError, NoOffset, RemoteProtocolError
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.records import BatchBuilder, stamp

ID = b"T" * 16
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def cluster() -> Metadata:
    """Return metadata of topic t: partitions 0 and 1 led by node 1, partition 2 by node 2."""
    metadata = Metadata()
    partitions = [MetadataResponse.MetadataResponsePartition(0, number, 1 + number // 2, 7) for number in range(3)]
    brokers = [MetadataResponse.MetadataResponseBroker(node, "h", 1) for node in (1, 2)]
    topic = MetadataResponse.MetadataResponseTopic(0, "t", ID, partitions=partitions)
    metadata.update(MetadataResponse(brokers=brokers, topics=[topic]), 0)
    return metadata


class Setting:
    """A fetcher with its positions and metadata."""

    def __init__(self, *partitions: TopicPartition, **options: object) -> None:
        self.positions = Positions()
        self.positions.assign(partitions)
        for partition in partitions:
            self.positions[partition].seek(100)
        self.metadata = cluster()
        self.fetcher = Fetcher(read_options(ConsumerOptions, "a", options), self.positions, self.metadata)


def batch(base_offset: int, records: int = 3, size: int = 10) -> bytes:
    """Return one batch."""
    builder = BatchBuilder()
    for _ in range(records):
        builder.append(0, None, b"x" * size)
    data = bytearray(builder.seal())
    stamp(data, base_offset, 7)
    return bytes(data)


def fetch_response(*partitions: FetchResponse.PartitionData, by_id: bool = True) -> FetchResponse:
    """Return a response about topic t."""
    return FetchResponse(
        responses=[FetchResponse.FetchableTopicResponse("" if by_id else "t", ID if by_id else ZERO_UUID, partitions)]
    )


def data(partition: int, records: bytes | None = None, error: int = 0) -> FetchResponse.PartitionData:
    """Return the part of a response about one partition."""
    return FetchResponse.PartitionData(partition, error, 500, records=records)


def asked(request: FetchRequest | None) -> dict[int, int]:
    """Return the offset asked for in each partition."""
    assert request is not None
    return {each.partition: each.fetch_offset for topic in request.topics for each in topic.partitions}


def test_one_request_for_each_leader() -> None:
    setting = Setting(T0, T1, T2, fetch_max_wait_ms=5, fetch_min_bytes=6, max_partition_fetch_bytes=7)
    assert setting.fetcher.leaders() == {1, 2}
    request = setting.fetcher.request(1)
    assert asked(request) == {0: 100, 1: 100}
    assert request is not None
    assert (request.max_wait_ms, request.min_bytes) == (5, 6)
    (topic,) = request.topics
    assert (topic.topic, topic.topic_id) == ("t", ID)
    assert [(each.current_leader_epoch, each.partition_max_bytes) for each in topic.partitions] == [(7, 7)] * 2
    assert setting.fetcher.leaders() == {2}
    assert asked(setting.fetcher.request(2)) == {2: 100}


@pytest.mark.parametrize("by_id", [True, False])
def test_the_next_fetch_begins_after_the_last_whole_batch(by_id: bool) -> None:
    setting = Setting(T0)
    setting.fetcher.request(1)
    records = batch(100) + batch(103) + batch(106)[:70]
    assert setting.fetcher.receive(1, fetch_response(data(0, records), by_id=by_id)) is None
    assert asked(setting.fetcher.request(1)) == {0: 106}
    fetched = setting.fetcher.next()
    assert fetched is not None
    assert (fetched.partition, fetched.offset, fetched.next_offset, fetched.records) == (T0, 100, 106, records)
    assert setting.positions[T0].high_watermark == 500
    assert setting.positions[T0].position == 100
    assert setting.fetcher.next() is None


def test_a_fetch_inside_a_batch() -> None:
    setting = Setting(T0)
    setting.fetcher.request(1)
    setting.fetcher.receive(1, fetch_response(data(0, batch(99))))
    assert setting.positions[T0].fetch_offset == 102


def test_nothing_new() -> None:
    setting = Setting(T0)
    setting.fetcher.request(1)
    assert setting.fetcher.receive(1, fetch_response(data(0, b""))) is None
    assert setting.fetcher.next() is None
    assert asked(setting.fetcher.request(1)) == {0: 100}


def test_what_waits_for_the_application_is_bounded_by_partition() -> None:
    setting = Setting(T0, T1, max_partition_fetch_bytes=50)
    setting.fetcher.request(1)
    setting.fetcher.receive(1, fetch_response(data(0, batch(100)), data(1)))
    assert asked(setting.fetcher.request(1)) == {1: 100}
    setting.fetcher.failed(1)
    assert setting.fetcher.next() is not None
    assert asked(setting.fetcher.request(1)) == {0: 103, 1: 100}


def test_what_waits_for_the_application_is_bounded_in_all() -> None:
    setting = Setting(T0, T1, fetch_max_bytes=50)
    setting.fetcher.request(1)
    setting.fetcher.receive(1, fetch_response(data(0, batch(100)), data(1)))
    assert setting.fetcher.leaders() == set()
    assert setting.fetcher.request(1) is None
    setting.fetcher.next()
    assert setting.fetcher.leaders() == {1}


def test_paused_partitions_are_neither_fetched_nor_handed_out() -> None:
    setting = Setting(T0, T1)
    setting.fetcher.request(1)
    setting.fetcher.receive(1, fetch_response(data(0, batch(100)), data(1, batch(100))))
    setting.positions[T0].paused = True
    assert asked(setting.fetcher.request(1)) == {1: 103}
    fetched = setting.fetcher.next()
    assert fetched is not None
    assert fetched.partition == T1
    assert setting.fetcher.next() is None
    setting.positions[T0].paused = False
    fetched = setting.fetcher.next()
    assert fetched is not None
    assert fetched.partition == T0


def test_a_seek_drops_what_is_in_flight_and_what_is_queued() -> None:
    setting = Setting(T0, T1)
    setting.fetcher.request(1)
    setting.positions[T0].seek(5)
    setting.fetcher.receive(1, fetch_response(data(0, batch(100)), data(1, batch(100))))
    setting.positions[T1].seek(6)
    assert setting.fetcher.next() is None
    assert asked(setting.fetcher.request(1)) == {0: 5, 1: 6}


def test_partitions_that_went_away() -> None:
    setting = Setting(T0, T1)
    setting.fetcher.request(1)
    setting.fetcher.receive(1, fetch_response(data(0, batch(100)), data(1)))
    setting.fetcher.request(1)
    setting.positions.assign([T1])
    assert setting.fetcher.receive(1, fetch_response(data(0, batch(103)), data(1))) is None
    assert setting.fetcher.next() is None


def test_without_position_or_leader() -> None:
    setting = Setting(T0)
    assert not setting.fetcher.without_leader()
    setting.positions.assign([TopicPartition("u", 0)])
    assert setting.fetcher.leaders() == set()
    assert not setting.fetcher.without_leader()
    setting.positions[TopicPartition("u", 0)].seek(0)
    assert setting.fetcher.without_leader()
    assert setting.fetcher.request(1) is None


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID])
def test_passing_errors_ask_for_a_pause(code: ErrorCode) -> None:
    setting = Setting(T0, T1)
    setting.fetcher.request(1)
    trouble = setting.fetcher.receive(1, fetch_response(data(0, error=code), data(1, batch(100))))
    assert isinstance(trouble, BrokerError)
    assert trouble.code == code
    assert asked(setting.fetcher.request(1)) == {0: 100, 1: 103}
    assert not setting.fetcher.errors


def test_the_new_leader_in_the_response_is_asked_next() -> None:
    setting = Setting(T0)
    setting.fetcher.request(1)
    moved = data(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    moved.current_leader = FetchResponse.LeaderIdAndEpoch(2, 8)
    setting.fetcher.receive(1, fetch_response(moved))
    assert setting.fetcher.leaders() == {2}


def test_lasting_errors_stop_the_partition_and_are_raised() -> None:
    setting = Setting(T0, T1)
    setting.fetcher.request(1)
    setting.fetcher.receive(1, fetch_response(data(0, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), data(1)))
    (error,) = setting.fetcher.errors
    assert str(error) == "TOPIC_AUTHORIZATION_FAILED: fetch from t-0 at offset 100"
    assert asked(setting.fetcher.request(1)) == {1: 100}


@pytest.mark.parametrize(("policy", "told"), [("earliest", False), ("latest", False), ("none", True)])
def test_an_offset_that_is_gone(policy: str, told: bool) -> None:
    setting = Setting(T0, auto_offset_reset=policy)
    setting.fetcher.request(1)
    setting.fetcher.receive(1, fetch_response(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    assert bool(setting.fetcher.errors) is told
    assert setting.fetcher.request(1) is None
    if told:
        assert isinstance(setting.fetcher.errors[0], NoOffset)
    else:
        assert setting.positions[T0].reset == policy
        assert setting.positions.without_position() == [T0]


@pytest.mark.parametrize(
    ("records", "error", "reason"),
    [
        (batch(10), RemoteProtocolError, "that end before it"),
        (
            batch(100)[:50],
            RemoteProtocolError,
            f"at offset 100: no whole batch; .* {len(batch(100))} bytes, 50 are left",
        ),
        (batch(100)[:5], RemoteProtocolError, "no whole batch; .* 5 bytes are left"),
        (bytes(70), DecodeError, "batch_length"),
    ],
)
def test_batches_that_cannot_be(records: bytes, error: type[Exception], reason: str) -> None:
    """Only older offsets, less than a batch, or no batch at all: the partition stops with an error."""
    setting = Setting(T0)
    setting.fetcher.request(1)
    assert isinstance(setting.fetcher.receive(1, fetch_response(data(0, records))), error)
    assert isinstance(setting.fetcher.errors[0], error)
    assert re.search(reason, str(setting.fetcher.errors[0]))
    assert setting.fetcher.request(1) is None


def test_a_length_damaged_in_the_middle_loses_nothing() -> None:
    """The batches before it are handed out; the next fetch begins with the damaged one and raises an error."""
    setting = Setting(T0)
    setting.fetcher.request(1)
    damaged = bytearray(batch(103))
    damaged[9] ^= 1
    assert setting.fetcher.receive(1, fetch_response(data(0, batch(100) + bytes(damaged) + batch(106)))) is None
    assert asked(setting.fetcher.request(1)) == {0: 103}
    error = setting.fetcher.receive(1, fetch_response(data(0, bytes(damaged) + batch(106))))
    assert "at offset 103: no whole batch" in str(error)
    assert list(setting.fetcher.errors) == [error]


def test_a_corrupt_log_raises_and_is_not_fetched_again() -> None:
    """The error counts as retriable, but damage on disk stays."""
    setting = Setting(T0)
    setting.fetcher.request(1)
    error = setting.fetcher.receive(1, fetch_response(data(0, b"", ErrorCode.CORRUPT_MESSAGE)))
    assert list(setting.fetcher.errors) == [error]
    assert setting.fetcher.request(1) is None


def test_an_error_of_the_whole_response() -> None:
    setting = Setting(T0)
    setting.fetcher.request(1)
    trouble = setting.fetcher.receive(1, FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
    assert isinstance(trouble, BrokerError)
    assert asked(setting.fetcher.request(1)) == {0: 100}


def test_a_response_that_leaves_a_partition_out() -> None:
    setting = Setting(T0)
    setting.fetcher.request(1)
    trouble = setting.fetcher.receive(1, FetchResponse())
    assert isinstance(trouble, BrokerError)
    assert trouble.code == ErrorCode.UNKNOWN_TOPIC_ID
