"""DeleteTopics removes topics by name and by id, with their files and committed offsets.

Method: send requests to a broker without sockets.
"""

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import TRANSACTION_STATE_TOPIC
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.apis.group_of_one import commit
from tests.reference_broker.broker_bench import BrokerBench, versions_of
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import produced

State = DeleteTopicsRequest.DeleteTopicState


@pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_TOPICS))
def test_every_version(bench, version):
    topic_id = bench.create(partitions=2)
    bench.produce(produced(b"x"))
    request = (
        DeleteTopicsRequest([State("t")], timeout_ms=60_000)
        if version >= 6
        else DeleteTopicsRequest(topic_names=["t"], timeout_ms=60_000)
    )
    (result,) = bench.ask(request, version).responses
    assert (result.name, result.error_code) == ("t", ErrorCode.NONE)
    assert result.topic_id == (topic_id if version >= 6 else ZERO_UUID)
    assert not bench.store.topics
    assert not [name for name in bench.disk.names("") if name.startswith("t-")]
    assert bench.create() != topic_id
    assert bench.core.directory.log("t", 0).next_offset == 0


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (State("none"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (State(None, b"x" * 16), ErrorCode.UNKNOWN_TOPIC_ID),
        (State("t", b"x" * 16), ErrorCode.INVALID_REQUEST),
        (State(None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused(bench, state, code):
    bench.create()
    (result,) = bench.ask(DeleteTopicsRequest([state], timeout_ms=60_000)).responses
    assert result.error_code == code
    assert result.error_message
    assert len(bench.store.topics) == 1


def test_name_twice_is_answered_once_and_deletes_nothing(bench):
    bench.create()
    (result,) = bench.ask(DeleteTopicsRequest(topic_names=["t"] * 3, timeout_ms=60_000), 5).responses
    assert (result.name, result.error_code, result.error_message) == (
        "t",
        ErrorCode.INVALID_REQUEST,
        "Duplicate topic name.",
    )
    assert "t" in bench.store.topics


_ID = b"t" * 16
_SUPPLIED = "The provided topic name maps to an ID that was already supplied."
_BOTH = "You may not specify both topic name and topic id."


@pytest.mark.parametrize(
    ("states", "answers", "is_there"),
    [
        ([(None, _ID), (None, _ID)], [(None, _ID, "Duplicate topic id.")], True),
        ([(None, b"x" * 16)] * 2, [(None, b"x" * 16, "Duplicate topic id.")], True),
        ([("t",), (None, _ID)], [("t", _ID, _SUPPLIED)], True),
        ([(None, _ID), ("t",)], [("t", _ID, _SUPPLIED)], True),
        ([("t",), ("t",), (None, _ID)], [("t", ZERO_UUID, "Duplicate topic name."), ("t", _ID, None)], False),
        ([("t",), (None, _ID), (None, _ID)], [("t", _ID, _SUPPLIED), (None, _ID, "Duplicate topic id.")], True),
        ([("t", _ID), ("t",)], [("t", _ID, _BOTH), ("t", _ID, None)], False),
    ],
)
def test_topic_meant_twice(bench, monkeypatch, states, answers, is_there):
    """Apache Kafka gives the same answers."""
    monkeypatch.setattr(bench.store, "new_uuid", lambda: _ID)
    bench.create()
    request = DeleteTopicsRequest([State(*state) for state in states], timeout_ms=60_000)
    results = bench.ask(request).responses
    assert [(result.name, result.topic_id, result.error_message) for result in results] == answers
    assert [result.error_code == ErrorCode.INVALID_REQUEST for result in results] == [bool(each[2]) for each in answers]
    assert ("t" in bench.store.topics) == is_there


def test_by_id(bench):
    topic_id = bench.create()
    (result,) = bench.ask(DeleteTopicsRequest([State(None, topic_id)], timeout_ms=60_000)).responses
    assert (result.name, result.topic_id, result.error_code) == ("t", topic_id, ErrorCode.NONE)


def test_committed_offsets_go_too(bench):
    bench.create()
    commit(bench, 5)
    bench.ask(DeleteTopicsRequest([State("t")], timeout_ms=60_000))
    assert not bench.core.groups.offsets("g")
    bench.restart()
    assert not bench.core.groups.offsets("g")


def test_without_the_offsets_topic_groups_begin_anew(bench, caplog):
    bench.create()
    commit(bench, 5)
    request = DeleteTopicsRequest([State("__consumer_offsets")], timeout_ms=60_000)
    assert bench.ask(request).responses[0].error_code == ErrorCode.NONE
    assert bench.ask(HeartbeatRequest("g", 1, "m")).error_code == ErrorCode.NOT_COORDINATOR
    assert not [line for line in caplog.messages if "failed" in line]
    bench.offsets_topic()
    while bench.core.groups.is_loading:
        bench.advance(0)
    assert not bench.core.groups.offsets("g")
    commit(bench, 6)
    bench.restart()
    assert [committed.offset for committed in bench.core.groups.offsets("g").values()] == [6]


def test_without_its_topic_the_transaction_coordinator_begins_anew(bench):
    transactions = bench.core.transactions
    for _ in range(2):
        bench.core.topics.ensure(TRANSACTION_STATE_TOPIC, lambda made: None)
        while transactions.is_loading:
            bench.advance(0)
        response = bench.ask(InitProducerIdRequest("x", 60_000))
        assert (response.error_code, response.producer_epoch) == (ErrorCode.NONE, 0)
        request = DeleteTopicsRequest([State("__transaction_state")], timeout_ms=60_000)
        assert bench.ask(request).responses[0].error_code == ErrorCode.NONE


def test_response_waits_until_the_topic_cannot_come_back():
    disk, work = MemoryDisk(), HeldWork()
    bench = BrokerBench(disk, work)
    bench.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1)]))
    work.run()
    waiting = bench.ask(DeleteTopicsRequest([State("t")], timeout_ms=60_000))
    assert isinstance(waiting, DelayedOperation)
    while waiting.response is None:
        work.run(1)
    for seed in range(20):
        assert not BrokerBench(disk.crash(seed)).store.topics


def test_failing_disk():
    bench = BrokerBench(disk := MemoryDisk())
    bench.create()
    disk.plan = fail_at(disk.calls + 1)
    (result,) = bench.ask(DeleteTopicsRequest([State("t")], timeout_ms=60_000)).responses
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not bench.produce(produced(b"x")).error_code, "the topic still exists"


@pytest.mark.parametrize("timeout_ms", [-1, 0])
def test_no_time_deletes_nothing(bench, timeout_ms):
    bench.create("t")
    (result,) = bench.ask(DeleteTopicsRequest([State("t")], timeout_ms=timeout_ms)).responses
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "t" in bench.store.topics


def test_a_millisecond_will_do_if_it_is_done_by_then(bench):
    bench.create("t")
    (result,) = bench.ask(DeleteTopicsRequest([State("t")], timeout_ms=1)).responses
    assert result.error_code == ErrorCode.NONE
    assert not bench.store.topics


def test_a_client_is_answered_in_its_time_and_the_topic_is_still_deleted():
    work = HeldWork()
    bench = BrokerBench(MemoryDisk(), work)
    bench.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1)]))
    work.run()
    waiting = bench.ask(DeleteTopicsRequest([State("t")], timeout_ms=500))
    bench.advance(500)
    (result,) = bench.through(waiting.response, 6).responses
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    work.run()
    assert not bench.store.topics
