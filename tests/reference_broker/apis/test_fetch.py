"""Fetch reads in every version, waits for data, respects its limits, and returns errors immediately.

Method: fetch from a broker without sockets; a delayed fetch completes when a test produces or lets time pass.
"""

from functools import partial

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.reference_broker.work.background import at_once
from kafkawire.sdk.log_limit import INTERVAL_MS
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import INITIAL_FETCH_SESSION_EPOCH, IsolationLevel
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.records import walk
from tests.reference_broker.broker_bench import BrokerBench, versions_of
from tests.reference_broker.storage.committed_records import committed_in
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import produced, values_in
from tests.reference_broker.storage.transacting_logs import Transactions

Topic = FetchRequest.FetchTopic
Partition = FetchRequest.FetchPartition

MEBIBYTE = 1024 * 1024


def partition(number=0, offset=0, max_bytes=MEBIBYTE, **fields):
    return Partition(number, fetch_offset=offset, partition_max_bytes=max_bytes, **fields)


def request(*partitions, name="t", topic_id=ZERO_UUID, wait=0, min_bytes=1, max_bytes=50 * MEBIBYTE, **fields):
    topics = [Topic(name, topic_id, list(partitions))] if partitions else []
    return FetchRequest(max_wait_ms=wait, min_bytes=min_bytes, max_bytes=max_bytes, topics=topics, **fields)


def values(answer):
    return values_in(answer.records)


def only(response):
    (topic,) = response.responses
    (answer,) = topic.partitions
    return answer


@pytest.mark.parametrize("version", versions_of(ApiKey.FETCH))
def test_every_version(bench, version):
    topic_id = bench.create(partitions=2)
    bench.produce(produced(b"a", b"b"), partition=1)
    bench.produce(produced(b"c"), partition=1)
    response = bench.ask(request(partition(1), topic_id=topic_id), version)
    assert (response.error_code, response.session_id) == (ErrorCode.NONE, 0)
    answer = only(response)
    assert (answer.partition_index, answer.error_code) == (1, ErrorCode.NONE)
    assert (answer.high_watermark, answer.last_stable_offset) == (3, 3)
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert values(answer) == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("offset", "expected"), [(0, [b"a", b"b", b"c"]), (1, [b"a", b"b", b"c"]), (2, [b"c"]), (3, [])]
)
def test_batches_from_the_one_with_the_offset_on(bench, offset, expected):
    bench.create()
    bench.produce(produced(b"a", b"b"))
    bench.produce(produced(b"c"))
    assert values(only(bench.ask(request(partition(offset=offset)), 12))) == expected


@pytest.mark.parametrize(
    ("message", "version", "code"),
    [
        (request(partition(), name="none"), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (request(partition(), topic_id=b"x" * 16), 13, ErrorCode.UNKNOWN_TOPIC_ID),
        (request(partition(1)), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (request(partition(offset=1)), 12, ErrorCode.OFFSET_OUT_OF_RANGE),
        (request(partition(offset=-1)), 12, ErrorCode.OFFSET_OUT_OF_RANGE),
        (request(partition(current_leader_epoch=1)), 12, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_errors_do_not_wait(bench, message, version, code):
    bench.create()
    message.max_wait_ms = 1000
    answer = only(bench.ask(message, version))
    assert (answer.error_code, answer.high_watermark, bytes(answer.records)) == (code, -1, b"")
    is_unknown = code in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert answer.aborted_transactions == (() if is_unknown else None), "as in Kafka"


@pytest.mark.parametrize("version", [4, 12])
@pytest.mark.parametrize("level", [2, -1])
def test_isolation_level_that_does_not_exist(bench, version, level):
    bench.create()
    answer = bench.ask(request(partition(), isolation_level=level), version)
    assert (answer.error_code if version >= 7 else only(answer).error_code) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("unknown", "version", "code"),
    [
        (Topic("none", partitions=[partition()]), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (Topic(topic_id=b"x" * 16, partitions=[partition()]), 13, ErrorCode.UNKNOWN_TOPIC_ID),
        (Topic("t", partitions=[partition(1)]), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_is_unknown_does_not_keep_the_rest_from_waiting(bench, unknown, version, code):
    topic_id = bench.create()
    first = request(partition(), topic_id=topic_id, wait=500, session_epoch=INITIAL_FETCH_SESSION_EPOCH)
    first.topics = [*first.topics, unknown]
    waiting = bench.ask(first, version)
    bench.advance(500)
    session = waiting.response.session_id
    waiting = bench.ask(request(wait=500, session_id=session, session_epoch=1), version)
    assert isinstance(waiting, DelayedOperation), "a consumer of a deleted topic would keep fetching"
    bench.advance(500)
    assert only(waiting.response).error_code == code


def test_error_of_reading_does_not_wait_beside_what_could(bench):
    bench.create(partitions=2)
    response = bench.ask(request(partition(), partition(1, offset=5), wait=500), 12)
    assert [each.error_code for each in response.responses[0].partitions] == [
        ErrorCode.NONE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    ]


def test_log_that_is_offline_is_fenced_by_no_epoch(bench):
    bench.create()
    bench.core.directory.log("t", 0).fail(OSError("broken"))
    assert only(bench.ask(request(partition(current_leader_epoch=1)), 12)).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_session_is_not_known(bench):
    response = bench.ask(request(session_id=7, session_epoch=1))
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_first_batch_is_given_whole_however_small_the_limits(bench):
    bench.create(partitions=2)
    for number in (0, 1):
        bench.produce(produced(b"x" * 1000), partition=number)
    message = request(partition(0, max_bytes=1), partition(1, max_bytes=1), max_bytes=1)
    first, second = bench.ask(message, 12).responses[0].partitions
    assert values(first) == [b"x" * 1000]
    assert (second.error_code, bytes(second.records)) == (ErrorCode.NONE, b"")


def test_limit_of_the_whole_response(bench):
    bench.create(partitions=3)
    for number in range(3):
        bench.produce(produced(b"x" * 1000), partition=number)
    message = request(*(partition(number) for number in range(3)), max_bytes=1500)
    sizes = [len(answer.records) for answer in bench.ask(message, 12).responses[0].partitions]
    assert sizes[0] > 1000
    assert sizes[1:] == [0, 0], "the remaining size is too small for a whole batch"


def test_limit_of_the_broker(tmp_path):
    bench = BrokerBench(tmp_path / "data", fetch_max_bytes=2048)
    bench.create()
    for _ in range(5):
        bench.produce(produced(b"x" * 1000))
    assert len(only(bench.ask(request(partition()), 12)).records) == 2048


def test_waits_until_data_comes(bench):
    bench.create(partitions=2)
    idle_until_ms = bench.core.timers.next_deadline_ms
    waiting = bench.ask(request(partition(0), partition(1), wait=500), 12)
    assert bench.core.timers.next_deadline_ms == bench.now_ms + 500
    assert isinstance(waiting, DelayedOperation)
    assert waiting.response is None
    bench.produce(produced(b"x"), partition=1)
    first, second = bench.through(waiting.response, 12).responses[0].partitions
    assert (values(first), values(second)) == ([], [b"x"])
    assert not bench.core.replicas.get("t", 0).is_watched
    assert bench.core.timers.next_deadline_ms == idle_until_ms


def test_waits_until_time_is_up(bench):
    bench.create()
    waiting = bench.ask(request(partition(), wait=500), 12)
    bench.advance(499)
    assert waiting.response is None
    bench.advance(1)
    assert only(waiting.response).error_code == ErrorCode.NONE
    assert not bench.core.replicas.get("t", 0).is_watched


def test_waits_for_min_bytes(bench):
    bench.create()
    bench.produce(produced(b"x" * 100))
    waiting = bench.ask(request(partition(), wait=500, min_bytes=500), 12)
    for _ in range(2):
        assert waiting.response is None
        bench.produce(produced(b"x" * 100))
    assert len(values(only(bench.through(waiting.response, 12)))) == 3


def test_gone_client_leaves_nothing_behind(bench):
    bench.create()
    idle_until_ms = bench.core.timers.next_deadline_ms
    waiting = bench.ask(request(partition(), wait=500), 12)
    waiting.cancel()
    assert not bench.core.replicas.get("t", 0).is_watched
    assert bench.core.timers.next_deadline_ms == idle_until_ms


def test_deleted_topic_completes_a_delayed_fetch(bench):
    topic_id = bench.create()
    waiting = bench.ask(request(partition(), topic_id=topic_id, wait=500))
    bench.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState("t")], timeout_ms=60_000))
    assert only(waiting.response).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    "message", [request(wait=500), request(partition(), wait=0), request(partition(), wait=500, min_bytes=0)]
)
def test_what_does_not_wait(bench, message):
    bench.create()
    assert bench.ask(message, 12).error_code == ErrorCode.NONE


# Committed records.


@pytest.fixture
def transactions(bench):
    """Return a writer of transactions to the only partition of a topic."""
    bench.create()
    return Transactions(bench.core.directory.of("t")[0])


def committed(*partitions, **fields):
    return request(*partitions, isolation_level=IsolationLevel.READ_COMMITTED, **fields)


@pytest.mark.parametrize("version", [version for version in versions_of(ApiKey.FETCH) if version < 13])
def test_committed_records_in_every_version(bench, transactions, version):
    transactions.append(1, b"a")
    transactions.abort(1)
    transactions.append(2, b"b")
    transactions.commit(2)
    transactions.append(1, b"c")
    answer = only(bench.ask(request(partition()), version))
    assert (answer.high_watermark, answer.last_stable_offset, answer.aborted_transactions) == (5, 4, None)
    assert [batch.base_offset for batch in walk(answer.records)] == [0, 1, 2, 3, 4]
    answer = only(bench.ask(committed(partition()), version))
    assert (answer.high_watermark, answer.last_stable_offset) == (5, 4)
    assert [(entry.producer_id, entry.first_offset) for entry in answer.aborted_transactions] == [(1, 0)]
    assert committed_in(answer.records, answer.aborted_transactions) == ([(2, b"b")], 4)
    answer = only(bench.ask(committed(partition(offset=4)), version))
    assert (answer.error_code, bytes(answer.records), list(answer.aborted_transactions)) == (ErrorCode.NONE, b"", [])


def test_waits_until_records_are_committed(bench, transactions):
    transactions.append(1, b"a")
    fetched = []
    bench.ask(committed(partition(), wait=500), 12).then(fetched.append)
    transactions.append(1, b"b")
    bench.produce(produced(b"c"))
    assert not fetched, "nothing is stable yet"
    transactions.commit(1)
    (response,) = fetched
    answer = only(bench.through(response, 12))
    assert committed_in(answer.records, answer.aborted_transactions) == ([(0, b"a"), (1, b"b"), (2, b"c")], 4)
    assert not bench.core.replicas.get("t", 0).is_watched


def test_waits_for_as_many_bytes_as_are_committed(bench, transactions):
    size = len(produced(b"x" * 100))
    fetched = []
    bench.ask(committed(partition(), wait=500, min_bytes=2 * size), 12).then(fetched.append)
    transactions.plain(b"x" * 100)
    transactions.append(1, b"x" * 100)
    transactions.plain(b"x" * 1000)
    assert not fetched
    transactions.commit(1)
    assert len(fetched) == 1


def test_session_is_told_what_is_committed_and_how_far_the_log_goes(bench, transactions):
    first = bench.ask(committed(partition(), session_epoch=0), 12)
    session = first.session_id
    transactions.append(1, b"a")
    answer = only(bench.ask(committed(session_id=session, session_epoch=1), 12))
    assert (answer.high_watermark, answer.last_stable_offset, bytes(answer.records)) == (1, 0, b"")
    fetched = []
    bench.ask(committed(session_id=session, session_epoch=2, wait=500), 12).then(fetched.append)
    transactions.append(1, b"b")
    assert not fetched
    transactions.abort(1)
    answer = only(bench.through(fetched[0], 12))
    assert (answer.high_watermark, answer.last_stable_offset) == (3, 3)
    assert committed_in(answer.records, answer.aborted_transactions) == ([], 3)


def test_session_may_change_its_isolation_level(bench, transactions):
    transactions.append(1, b"a")
    session = bench.ask(committed(partition(), session_epoch=0), 12).session_id
    answer = only(bench.ask(request(session_id=session, session_epoch=1), 12))
    assert values(answer) == [b"a"]
    assert not bench.ask(committed(session_id=session, session_epoch=2), 12).responses
    fetched = []
    bench.ask(committed(session_id=session, session_epoch=3, wait=500), 12).then(fetched.append)
    transactions.append(1, b"b")
    assert not fetched
    transactions.commit(1)
    assert len(fetched) == 1


def test_session_reads_again_only_what_is_not_read_to_its_end(bench, monkeypatch):
    read = []
    bench.create(partitions=2)
    for number in range(2):
        log = bench.core.directory.log("t", number)
        monkeypatch.setattr(
            log,
            "read",
            partial(lambda log, number, *args, **kw: read.append(number) or log(*args, **kw), log.read, number),
        )
    session = bench.ask(request(partition(0), partition(1), session_epoch=0), 12).session_id
    bench.ask(request(session_id=session, session_epoch=1), 12)
    assert read == [0, 1]
    bench.produce(produced(b"x"), partition=1)
    bench.ask(request(session_id=session, session_epoch=2), 12)
    assert read == [0, 1, 1]
    bench.ask(request(session_id=session, session_epoch=3), 12)
    assert read == [0, 1, 1, 1], "the client has not confirmed that it received the response"


def test_session_that_waits_forgets_an_error_that_is_over(bench):
    bench.create("u")
    bench.create()
    first = request(partition(), session_epoch=0)
    first.topics = [*first.topics, Topic("u", partitions=[partition()])]
    session = bench.ask(first, 12).session_id
    bench.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState("t")], timeout_ms=60_000))
    waiting = bench.ask(request(wait=500, session_id=session, session_epoch=1), 12)
    bench.create()
    bench.advance(500)
    assert not waiting.response.responses, "the topic is back under the id that the client knows"


# A lost index.


@pytest.mark.parametrize("isolation_level", IsolationLevel)
def test_fetch_waits_for_a_lost_index_and_others_do_not(isolation_level):
    work, is_held = HeldWork(), False
    bench = BrokerBench(MemoryDisk(), lambda *arguments: work(*arguments) if is_held else at_once(*arguments))
    bench.begin_small(200, 2)
    for number in range(4):
        bench.produce(produced(b"%d" % number, b"x" * 100))
    bench.produce(produced(b"other"), partition=1)
    bench.core.close()
    bench.disk.remove("t-0/00000000000000000000.index")
    bench.restart_again()
    is_held = True

    def ask(*partitions, wait):
        return bench.ask(request(*partitions, wait=wait, isolation_level=isolation_level), 12)

    nothing = only(ask(partition(), wait=0))
    assert (nothing.error_code, nothing.high_watermark, nothing.records) == (ErrorCode.NONE, 8, b"")
    (both,) = ask(partition(), partition(1), wait=100).responses
    assert [len(answer.records) > 0 for answer in both.partitions] == [False, True]
    delayed = ask(partition(), wait=100)
    assert isinstance(delayed, DelayedOperation)
    late = ask(partition(), wait=50)
    bench.advance(50)
    assert late.response is not None
    assert (delayed.response, len(work.pending)) == (None, 1)
    work.run()
    assert delayed.response is not None
    assert values(only(bench.through(delayed.response, 12)))[0] == b"0"


@pytest.mark.parametrize("failure", ["damage", "disk"])
def test_what_a_client_cannot_read_however_often_is_reported_now_and_then(failure, caplog):
    disk = MemoryDisk()
    bench = BrokerBench(disk)
    bench.create()
    size = len(produced(b"v"))
    for _ in range(20):  # the positions of the last batches are known without the index
        bench.produce(produced(b"v"))
    content = bytearray(disk.open("t-0/00000000000000000000.log").read(0, 20 * size))
    content[size + 16] = 9  # the format version of the second batch
    disk.open("t-0/00000000000000000000.log").truncate(0)
    disk.open("t-0/00000000000000000000.log").append(bytes(content))
    if failure == "disk":
        disk.plan = lambda call: fail_at(call.number)(call) if call.name == "read" else None
    for interval in range(3):
        for _ in range(5):
            (found,) = bench.ask(request(partition(offset=2)), 12).responses[0].partitions
            assert found.error_code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR)
        bench.advance(INTERVAL_MS)
        assert len(caplog.messages) == interval + 1
    assert caplog.messages[1].endswith(" (and 4 more like it)")
