"""A session answers in order, one request at a time, pauses reading when requests queue up, and closes on errors.

Method: use a wire that records the written bytes, and a queue of deferred calls, and run the calls.
"""

from __future__ import annotations

import errno
import logging
import sys

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.session import FRAME_BYTES_MAX, SENDFILE_BYTES_MIN, TURN_MS
from kafkawire.reference_broker.storage.disk.disk import FileSlice
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.reference_broker.storage.log.validation import validate
from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.frames import LENGTH_BYTES
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.record_formats import Compression
from kafkawire.sdk.protocol.versions import VersionRange
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.raw_client import produce_request
from tests.reference_broker.requests.session_client import Client, fetch
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import produced, values_in


@pytest.fixture
def client(bench):
    bench.create()
    return Client(bench)


def test_requests_are_answered_in_order(client):
    client.send(MetadataRequest(None), 12)
    client.send(fetch(wait=0), 12)
    assert [type(answer).__name__ for answer in client.answers()] == ["MetadataResponse", "FetchResponse"]
    assert not client.session.is_waiting


def test_request_behind_a_waiting_one_waits_and_reading_stops(client):
    client.send(fetch(), 12)
    assert not client.paused, "the broker must notice that a client disconnects while it is waiting"
    client.send(MetadataRequest(None), 12)
    assert client.paused == [True]
    assert not client.answers()
    client.bench.produce(produced(b"x"))
    assert not client.answers(), "the response must not be sent from inside the producer's request"
    client.run_deferred()
    assert [type(answer).__name__ for answer in client.answers()] == ["FetchResponse", "MetadataResponse"]
    assert client.paused == [True, False]


def test_client_that_does_not_read_is_not_read_from(client):
    client.session.writing_blocked(True)
    client.send(MetadataRequest(None), 12)
    assert client.paused == [True]
    client.run_deferred()
    assert not client.answers()
    client.session.writing_blocked(False)
    client.run_deferred()
    assert len(client.answers()) == 1
    assert client.paused == [True, False]


def test_client_is_not_read_from_once_a_response_does_not_fit(client, monkeypatch):
    write = client.wire.write

    def write_and_block(parts):
        write(parts)
        client.session.writing_blocked(True)

    monkeypatch.setattr(client.wire, "write", write_and_block)
    client.send(MetadataRequest(None), 12)
    assert len(client.answers()) == 1
    assert client.paused == [True]


def test_gone_client_is_forgotten(client):
    client.send(fetch(), 12)
    client.session.connection_lost(None)
    client.bench.advance(1000)
    client.run_deferred()
    assert not client.answers()
    assert not client.session.is_waiting


def test_what_waits_for_the_end_of_the_connection_is_told(client):
    ended = []
    client.session.peer.farewells["test"] = lambda: ended.append(True)
    client.session.connection_lost(None)
    assert ended == [True]


@pytest.mark.defect
def test_connection_ends_although_its_request_cannot_be_cancelled(client, monkeypatch, caplog):
    delayed = DelayedOperation()
    delayed.on_cancel = lambda: sys.exit("a defect")
    monkeypatch.setattr(client.bench.core.requests, "handle", lambda call, message: delayed)
    client.send(MetadataRequest(None), 12)
    client.session.connection_lost(None)
    assert client.session.on_pause is None
    assert not client.session.is_waiting
    assert caplog.messages == ["could not cancel the request from User:ANONYMOUS at /host on PLAINTEXT"]
    assert "SystemExit: a defect" in caplog.text


@pytest.mark.parametrize("frame", [b"", b"\x00" * 5, b"\x7f\x00" * 6, b"\x00\x03\x00\x0c\x00\x00\x00\x00\xff\xff\x00"])
def test_nonsense_closes_the_connection(client, frame):
    client.session.receive_frame(frame)
    assert not client.wire.is_open


def test_nonsense_fills_no_log(client, caplog):
    caplog.set_level(logging.INFO)
    for _ in range(100):
        Client(client.bench).session.receive_frame(b"nonsense")
    assert caplog.messages == [
        "closing the connection from User:ANONYMOUS at /host on PLAINTEXT: API key 28271 is not served here"
    ]


@pytest.mark.defect
def test_failing_session_closes_the_connection(client, monkeypatch, caplog):
    def fail(*arguments):
        raise RuntimeError("a defect")

    monkeypatch.setattr(client.bench.core.requests, "handle", fail)
    client.send(MetadataRequest(None), 12)
    assert not client.wire.is_open
    assert "a defect" in caplog.text


@pytest.mark.defect
def test_response_that_cannot_be_written_is_an_error_for_the_client(client, monkeypatch, caplog):
    broken = MetadataResponse(cluster_id=7)  # type: ignore[arg-type]  # the defect
    monkeypatch.setattr(client.bench.core.requests, "handle", lambda call, message: broken)
    client.send(MetadataRequest(None), 13)
    monkeypatch.undo()
    client.send(MetadataRequest(None), 13)
    failed, good = client.answers()
    assert (failed.error_code, good.error_code) == (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE)
    assert "could not write the response to Metadata" in caplog.text


def frames(client, *requests):
    return [b"".join(client.protocol.request(*request).parts)[LENGTH_BYTES:] for request in requests]


def test_responses_to_what_came_together_are_written_together(client):
    client.session.receive_frames(frames(client, *[(MetadataRequest(None), 12)] * 50))
    assert client.wire.writes == 1
    assert len(client.answers()) == 50


def test_responses_to_what_came_before_nonsense_are_sent(client):
    client.session.receive_frames([*frames(client, *[(MetadataRequest(None), 12)] * 2), b"nonsense"])
    assert not client.wire.is_open
    assert len(client.answers()) == 2


@pytest.mark.defect
def test_responses_to_what_came_before_a_defect_are_sent(client, monkeypatch):
    answers = iter([MetadataResponse()])

    def handle(call, message):
        for answer in answers:
            return answer
        raise RuntimeError("a defect")

    monkeypatch.setattr(client.bench.core.requests, "handle", handle)
    client.session.receive_frames(frames(client, *[(MetadataRequest(None), 12)] * 3))
    assert not client.wire.is_open
    assert len(client.answers()) == 1


def test_many_responses_are_not_held_back(client):
    client.bench.produce(produced(b"x" * 30_000))
    client.session.receive_frames(frames(client, *[(fetch(wait=0), 12)] * 50))
    assert client.wire.writes == 17
    assert len(client.answers()) == 50


def test_others_have_their_turn(client, monkeypatch):
    def slow(call, message):
        client.bench.now_ms += TURN_MS // 2
        return MetadataResponse()

    monkeypatch.setattr(client.bench.core.requests, "handle", slow)
    client.session.receive_frames(frames(client, *[(MetadataRequest(None), 12)] * 10))
    assert len(client.answers()) == 3
    assert client.paused == [True]
    client.deferred.pop(0)()
    assert len(client.answers()) == 3
    client.run_deferred()
    assert len(client.answers()) == 4
    assert client.paused == [True, False]


@pytest.fixture
def slow(bench, monkeypatch):
    """Return a client of a broker that needs half a turn to check a batch."""
    bench.create(partitions=8)

    def check(*arguments, **options):
        bench.now_ms += TURN_MS // 2
        return validate(*arguments, **options)

    monkeypatch.setattr("kafkawire.reference_broker.apis.produce.validate", check)
    return Client(bench)


def to_many(acks=1):
    """Return a request for eight partitions."""
    data = produced(b"x" * 100, compression=Compression.GZIP)
    partitions = [ProduceRequest.PartitionProduceData(number, data) for number in range(8)]
    return ProduceRequest(None, acks, 1000, [ProduceRequest.TopicProduceData("t", partition_data=partitions)])


def stored(client):
    return [log.next_offset for log in client.bench.core.directory.of("t").values()]


@pytest.mark.parametrize("acks", [0, 1])
def test_others_have_their_turn_between_the_batches_of_a_request(slow, acks):
    if acks:
        slow.send(to_many(), 9)
    else:
        slow.send_only(to_many(acks=0), 9)
    assert stored(slow) == [1] * 3 + [0] * 5
    assert slow.paused == [True]
    assert slow.session.is_waiting
    slow.send(MetadataRequest(None), 12)
    (go_on,) = slow.deferred
    slow.deferred.clear()
    go_on()
    assert stored(slow) == [1] * 6 + [0] * 2
    assert not slow.wire.parts
    slow.run_deferred()
    assert stored(slow) == [1] * 8
    expected = ["ProduceResponse", "MetadataResponse"] if acks else ["MetadataResponse"]
    assert [type(answer).__name__ for answer in slow.answers()] == expected
    assert slow.paused == [True, False]
    assert not slow.session.held_bytes


@pytest.mark.parametrize("is_gone", [True, False])
def test_nothing_more_of_a_request_is_done_once_its_connection_has_ended(slow, is_gone):
    slow.send(to_many(), 9)
    if is_gone:
        slow.session.connection_lost(None)
    else:
        slow.wire.abort()
    slow.run_deferred()
    assert stored(slow) == [1] * 3 + [0] * 5


@pytest.mark.defect
def test_request_that_fails_between_its_batches_is_answered(slow, monkeypatch, caplog):
    slow.send(to_many(), 9)

    def fail(*arguments, **options):
        raise RuntimeError("a defect")

    monkeypatch.setattr("kafkawire.reference_broker.apis.produce.validate", fail)
    slow.run_deferred()
    (answer,) = slow.answers()
    codes = {partition.error_code for partition in answer.responses[0].partition_responses}
    assert codes == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert "a defect" in caplog.text
    assert not slow.session.is_waiting


def test_quota_mutes_the_connection_after_the_response(client, monkeypatch):
    def throttle(call, message):
        call.throttle_ms = 500
        return MetadataResponse(throttle_time_ms=call.throttle_ms)

    monkeypatch.setattr(client.bench.core.requests, "handle", throttle)
    client.send(MetadataRequest(None), 12)
    monkeypatch.undo()
    assert client.paused == [True]
    client.send(MetadataRequest(None), 12)
    assert [answer.throttle_time_ms for answer in client.answers()] == [500]
    assert client.session.is_waiting, "the client must wait for the broker, and not the reverse"
    client.bench.advance(499)
    client.run_deferred()
    assert not client.answers()
    client.bench.advance(1)
    client.run_deferred()
    assert [answer.throttle_time_ms for answer in client.answers()] == [0]
    assert client.paused == [True, False]


def test_bytes_of_a_login_have_a_taker_of_their_own(client):
    tokens = []
    take, client.session.take = client.session.take, tokens.append
    client.session.receive_frame(b"a bare token")
    assert tokens == [b"a bare token"]
    client.session.take = take
    client.send(MetadataRequest(None), 12)
    assert len(client.answers()) == 1


def test_session_that_ends_takes_no_more_but_sends_what_is_delayed(client):
    client.send(fetch(), 12)
    client.send(MetadataRequest(None), 12)
    assert client.session.held_bytes
    client.session.begin_end()
    client.send(MetadataRequest(None), 12)
    client.bench.produce(produced(b"x"))
    client.run_deferred()
    assert [type(answer).__name__ for answer in client.answers()] == ["FetchResponse"]
    assert not client.session.held_bytes


#: The controller's requests, which may contain the state of all partitions.
CONTROL = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA)


def test_frame_limits(client):
    limit_bytes = client.bench.core.options.max_frame_bytes
    assert client.session.frame_bytes_max(ApiKey.PRODUCE) == limit_bytes
    client.session._dispatcher.served |= dict.fromkeys(CONTROL, VersionRange(0, 1))
    assert {client.session.frame_bytes_max(key) for key in CONTROL} == {limit_bytes}
    assert client.session.frame_bytes_max(ApiKey.JOIN_GROUP) == FRAME_BYTES_MAX < limit_bytes
    with pytest.raises(RemoteProtocolError, match="API key 99 is not served here"):
        client.session.frame_bytes_max(99)


@pytest.mark.parametrize(
    ("sends_files", "size", "is_slice"),
    [(True, SENDFILE_BYTES_MIN, True), (True, 100, False), (False, SENDFILE_BYTES_MIN, False)],
)
def test_large_regions_of_files_stay_files(bench, sends_files, size, is_slice):
    bench.create()
    bench.produce(produced(b"x" * size))
    client = Client(bench, sends_files=sends_files)
    client.send(fetch(), 12)
    assert any(isinstance(part, FileSlice) for part in client.wire.parts) is is_slice
    (answer,) = client.answers()
    (value,) = values_in(answer.responses[0].partitions[0].records)
    assert len(value) == size


@pytest.mark.parametrize("fails", [False, True])
def test_next_request_waits_for_one_without_a_response(fails):
    work = HeldWork()
    bench = BrokerBench(disk := MemoryDisk(), work)
    bench.begin_small(len(produced(b"0")))
    work.run()
    client = Client(bench)
    for value in (b"0", b"1", b"2"):
        client.send_only(produce_request(produced(value), acks=0), 9)
    log = bench.core.directory.of("t")[0]
    assert log.next_offset == 1
    assert client.session.is_unanswered
    assert client.session.held_bytes > len(produced(b"1")) + len(produced(b"2"))
    assert client.paused == [True]
    if fails:
        disk.plan = fail_at(disk.calls + 1, errno.ENOSPC)
    while work.pending or client.deferred:
        work.run()
        client.run_deferred()
    assert client.wire.is_open is not fails
    assert (log.next_offset, client.session.held_bytes) == (1 if fails else 3, 0)
    assert client.wire.parts == []
    assert not client.session.is_unanswered


def test_what_comes_after_the_end_is_dropped_and_said_to_be(client):
    assert not client.session.has_dropped
    client.session.begin_end()
    assert not client.session.has_dropped
    client.send(MetadataRequest(None), 12)
    assert client.session.has_dropped
    assert client.answers() == []


def test_requests_that_wait_at_the_end_are_dropped(client):
    client.send(fetch(), 12)
    client.send(MetadataRequest(None), 12)
    client.session.begin_end()
    assert client.session.has_dropped
