"""In every version, Produce appends batches, answers with offsets, refuses the same batches as Kafka, and does not
respond if `acks` is 0.

Method: produce to a broker without sockets, and read the log back through Fetch.
"""

import errno

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.record_formats import Compression
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.broker_bench import BrokerBench, versions_of
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import produced, values_in
from tests.reference_broker.transaction_desk import TransactionDesk

Topic = ProduceRequest.TopicProduceData
Partition = ProduceRequest.PartitionProduceData


def request(*partitions, name="t", topic_id=ZERO_UUID, acks=1):
    return ProduceRequest(None, acks, 1000, [Topic(name, topic_id, list(partitions))])


@pytest.mark.parametrize("version", versions_of(ApiKey.PRODUCE))
def test_every_version(bench, version):
    topic_id = bench.create(partitions=2)
    for start in (0, 3):
        message = request(Partition(1, produced(b"a", b"b", b"c")), topic_id=topic_id)
        (topic,) = bench.ask(message, version).responses
        (answer,) = topic.partition_responses
        assert (answer.index, answer.error_code, answer.base_offset) == (1, ErrorCode.NONE, start)
        assert answer.log_append_time_ms == -1
        assert answer.log_start_offset == (0 if version >= 5 else -1)
        assert (topic.name, topic.topic_id) == (("", topic_id) if version >= 13 else ("t", ZERO_UUID))


@pytest.mark.parametrize(
    ("message", "version", "code"),
    [
        (request(Partition(0, produced(b"x")), name="none"), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (request(Partition(0, produced(b"x")), topic_id=b"x" * 16), 13, ErrorCode.UNKNOWN_TOPIC_ID),
        (request(Partition(1, produced(b"x"))), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (request(Partition(-1, produced(b"x"))), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (request(Partition(0, produced(b"x")), acks=2), 12, ErrorCode.INVALID_REQUIRED_ACKS),
        (request(Partition(0, None)), 12, ErrorCode.INVALID_RECORD),
        (
            request(Partition(0, produced(b"x", compression=Compression.ZSTD))),
            6,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ),
        (request(Partition(0, produced(b"x", compression=Compression.ZSTD))), 7, ErrorCode.NONE),
    ],
)
def test_errors(bench, message, version, code):
    bench.create()
    (answer,) = bench.ask(message, version).responses[0].partition_responses
    assert answer.error_code == code
    assert answer.base_offset == (0 if code == ErrorCode.NONE else -1)


def test_one_bad_partition_does_not_stop_the_others(bench):
    bench.create(partitions=2)
    message = request(Partition(0, b"nonsense that is no batch"), Partition(1, produced(b"x")))
    bad, good = bench.ask(message, 12).responses[0].partition_responses
    assert (bad.error_code, good.error_code) == (ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE)


def test_bad_timestamps_are_reported_by_record(bench):
    bench.create(message_timestamp_after_max_ms="1000")
    data = produced(b"a", b"b", timestamps=(bench.now_ms, bench.now_ms + 1001))
    answer = bench.produce(data)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [1]


def test_topics_of_the_broker_cannot_be_written(bench):
    bench.offsets_topic()
    assert bench.produce(produced(b"x"), "__consumer_offsets").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("acks", [-1, 1])
def test_one_replica_is_enough_where_there_is_no_other(bench, acks):
    bench.create(min_insync_replicas="2")
    assert bench.produce(produced(b"x"), acks=acks).error_code == ErrorCode.NONE


def test_no_response_without_acknowledgement(bench):
    bench.create()
    assert bench.produce(produced(b"x"), acks=0) is None
    assert bench.core.directory.log("t", 0).next_offset == 1


def test_failure_without_acknowledgement_closes_the_connection(bench):
    with pytest.raises(RemoteProtocolError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        bench.produce(produced(b"x"), acks=0)


def test_the_response_waits_for_the_disk_if_the_topic_asks_for_it(tmp_path):
    bench = BrokerBench(tmp_path / "data")
    bench.create(flush_messages="2")
    jobs = []
    bench.core.directory.services.background = lambda work, done: jobs.append((work, done))
    assert bench.produce(produced(b"x")).error_code == ErrorCode.NONE
    message = request(Partition(0, produced(b"y")))
    waiting = bench.ask(message, 12)
    assert isinstance(waiting, DelayedOperation)
    ((work, done),) = jobs
    work()
    done(None)
    assert isinstance(waiting.response, ProduceResponse)
    (answer,) = waiting.response.responses[0].partition_responses
    log = bench.core.directory.log("t", 0)
    assert log is not None
    assert (answer.error_code, log.recovery_point) == (ErrorCode.NONE, 2)


def test_failed_sync_is_reported(tmp_path):
    bench = BrokerBench(tmp_path / "data")
    bench.create(flush_messages="1")
    bench.core.directory.services.background = lambda work, done: done(OSError(5, "Input/output error"))
    assert bench.produce(produced(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_log_is_synced_in_time(bench):
    bench.create(flush_ms="100")
    bench.produce(produced(b"x"))
    bench.produce(produced(b"y"))
    log = bench.core.directory.log("t", 0)
    bench.advance(99)
    assert log.recovery_point == 0
    bench.advance(1)
    assert log.recovery_point == 2


def test_response_waits_while_a_log_rolls():
    work = HeldWork()
    bench = BrokerBench(MemoryDisk(), work)
    bench.begin_small(4 * len(produced(b"0")), 2)
    work.run()
    for number in range(4):
        assert bench.produce(produced(b"%d" % number)).base_offset == number
    waiting = bench.ask(request(Partition(0, produced(b"x")), Partition(1, produced(b"y"))), 12)
    assert isinstance(waiting, DelayedOperation)
    assert bench.produce(produced(b"z"), partition=1).base_offset == 1, "the other log is not held up"
    work.run(1)
    assert waiting.response is not None
    answers = bench.through(waiting.response, 12).responses[0].partition_responses
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 4), (0, 0)]


def test_a_request_that_is_done_in_steps_is_answered(bench):
    bench.create(partitions=2)
    batches = [produced(b"a", compression=Compression.GZIP), produced(b"b", compression=Compression.GZIP)]
    answer = bench.ask(request(*(Partition(number, batch) for number, batch in enumerate(batches))), 12)
    assert not isinstance(answer, DelayedOperation), "all steps are done"
    assert [each.base_offset for each in answer.responses[0].partition_responses] == [0, 0]


def rolling_bench(work, disk):
    """Return a broker with a topic whose next batch waits for a new segment."""
    bench = BrokerBench(disk, work)
    bench.begin_small(len(produced(b"0")))
    work.run()
    assert bench.produce(produced(b"0"), acks=0) is None
    return bench


def test_a_batch_that_waits_is_waited_for_without_acknowledgement():
    work = HeldWork()
    bench = rolling_bench(work, MemoryDisk())
    waiting = bench.ask(request(Partition(0, produced(b"1")), acks=0), 9)
    assert waiting.response is None
    work.run(1)
    assert bench.core.directory.of("t")[0].next_offset == 2
    waiting.check_unsent(waiting.response)


def test_nobody_waits_for_a_sync_without_acknowledgement(bench):
    bench.create(flush_messages="1")
    bench.core.directory.services.background = HeldWork()
    assert bench.produce(produced(b"x"), acks=0) is None


def test_failure_of_a_batch_that_waited_without_acknowledgement_closes_the_connection():
    work = HeldWork()
    bench = rolling_bench(work, disk := MemoryDisk())
    waiting = bench.ask(request(Partition(0, produced(b"1")), acks=0), 9)
    disk.plan = fail_at(disk.calls + 1, errno.ENOSPC)
    work.run(1)
    with pytest.raises(RemoteProtocolError, match="KAFKA_STORAGE_ERROR"):
        waiting.check_unsent(waiting.response)


def test_failed_disk_takes_one_partition_with_it():
    bench = BrokerBench(disk := MemoryDisk())
    bench.create(partitions=2)
    disk.plan = fail_at(disk.calls + 1, errno.ENOSPC)
    message = request(Partition(0, produced(b"x")), Partition(1, produced(b"y")))
    for _ in range(2):
        bad, good = bench.ask(message, 12).responses[0].partition_responses
        assert (bad.error_code, bad.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert (bad.log_append_time_ms, bad.log_start_offset) == (-1, -1)
        assert good.error_code == ErrorCode.NONE


def sequenced(sequence, *values, producer_id=0, epoch=0, **options):
    return produced(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **options)


def answers(bench, *batches):
    """Produce batches one at a time; return the code and offset of each."""
    found = []
    for batch in batches:
        (answer,) = bench.ask(request(Partition(0, batch)), 12).responses[0].partition_responses
        found.append((ErrorCode(answer.error_code), answer.base_offset))
    return found


@pytest.mark.parametrize("reopen", [BrokerBench.restart, BrokerBench.crash])
def test_a_batch_is_stored_once_also_after_a_restart(bench, reopen):
    bench.create()
    first, second, third = sequenced(0, b"a", b"b"), sequenced(2, b"c"), sequenced(4, b"e")
    assert answers(bench, bytes(first), bytes(first), bytes(second)) == [
        (ErrorCode.NONE, 0),
        (ErrorCode.NONE, 0),
        (ErrorCode.NONE, 2),
    ]
    reopen(bench)
    assert answers(bench, second, third, sequenced(3, b"d"), third, sequenced(0, b"x", epoch=1), first) == [
        (ErrorCode.NONE, 2),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        (ErrorCode.NONE, 3),
        (ErrorCode.NONE, 4),
        (ErrorCode.NONE, 5),
        (ErrorCode.INVALID_PRODUCER_EPOCH, -1),
    ]
    log = bench.core.directory.log("t", 0)
    stored = log.read(0, 10_000, at_least_one=True).records.read()
    assert values_in(stored) == [b"a", b"b", b"c", b"d", b"e", b"x"]


def test_a_duplicate_has_the_timestamp_of_its_batch(bench):
    bench.create()
    batch = bytes(sequenced(0, b"a"))
    for expected in (-1, bench.now_ms):
        (answer,) = bench.ask(request(Partition(0, batch)), 12).responses[0].partition_responses
        assert (answer.base_offset, answer.log_append_time_ms) == (0, expected)


def test_idle_producers_are_forgotten(bench):
    bench.create()
    answers(bench, sequenced(0, b"a"), sequenced(1, b"b", timestamps=(bench.now_ms + 3_000_000,)))
    day_ms = bench.core.options.producer_id_expiration_ms
    bench.core.advance(bench.now_ms + day_ms + 2_999_999)
    assert answers(bench, sequenced(9, b"c")) == [(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]
    bench.core.advance(bench.now_ms + day_ms + 3_600_000)
    assert answers(bench, sequenced(9, b"c")) == [(ErrorCode.NONE, 2)]


def in_transaction(number, sequence=0, producer_id=1):
    data = produced(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True)
    return Partition(number, data)


def ask_for(bench, *partitions, transactional_id: str | None = "id", version=12, acks=1):
    """Send batches of a transaction; return the response."""
    request = ProduceRequest(transactional_id, acks, 1000, [Topic("t", ZERO_UUID, list(partitions))])
    return bench.ask(request, version)


def transact(bench, *partitions, **how):
    """Send batches of a transaction; return the codes of their partitions."""
    return codes_in(ask_for(bench, *partitions, **how))


def codes_in(response):
    return [partition.error_code for partition in response.responses[0].partition_responses]


@pytest.fixture
def desk(bench):
    """Return the transaction coordinator of a broker that has a topic."""
    bench.create(partitions=2)
    desk = TransactionDesk()
    bench.use(verifier=desk)
    return desk


def test_records_of_a_transaction_need_a_transactional_id_and_one_producer(bench, desk):
    plain = Partition(1, produced(b"x"))
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert transact(bench, in_transaction(0), plain, transactional_id=None) == [code] * 2
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert transact(bench, in_transaction(0), in_transaction(1, producer_id=2)) == [code] * 2
    assert not desk.asked
    assert transact(bench, in_transaction(0), plain) == [ErrorCode.NONE] * 2


@pytest.mark.parametrize("version", versions_of(ApiKey.PRODUCE)[:-1])
def test_the_coordinator_is_asked_about_a_transaction(bench, desk, version):
    expected = 2 if version >= 12 else 1 if version == 11 else 0
    assert transact(bench, in_transaction(0), in_transaction(1), version=version) == [ErrorCode.NONE] * 2
    assert transact(bench, in_transaction(0, sequence=1), version=version) == [ErrorCode.NONE]
    assert desk.asked == [("id", 1, 0, [("t", 0), ("t", 1)], expected)]


def test_one_refused_partition_does_not_stop_the_others(bench, desk):
    desk.refused["t", 0] = ErrorCode.TRANSACTION_ABORTABLE
    assert transact(bench, in_transaction(0), in_transaction(1)) == [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE]
    assert [log.next_offset for log in bench.core.directory.of("t").values()] == [0, 1]


def test_response_waits_for_the_coordinator(bench, desk):
    desk.is_held = True
    operation = ask_for(bench, in_transaction(0), Partition(1, produced(b"x")))
    assert operation.response is None
    assert [log.next_offset for log in bench.core.directory.of("t").values()] == [0, 1]
    desk.answer()
    assert codes_in(operation.response) == [ErrorCode.NONE] * 2


def test_a_bad_batch_of_a_transaction_is_not_asked_about(bench, desk):
    data = bytearray(in_transaction(0).records or b"")
    data[-1] ^= 1
    assert transact(bench, Partition(0, data)) == [ErrorCode.CORRUPT_MESSAGE]
    assert not desk.asked


def test_a_transaction_takes_in_no_partition_whose_log_is_offline(bench, desk):
    bench.core.directory.log("t", 0).fail(OSError("broken"))
    assert transact(bench, in_transaction(0), in_transaction(1)) == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert [partitions for _, _, _, partitions, _ in desk.asked] == [[("t", 1)]]


def test_refused_transaction_without_acknowledgement_closes_the_connection(bench, desk):
    desk.refused["t", 0] = ErrorCode.TRANSACTION_ABORTABLE
    with pytest.raises(RemoteProtocolError, match="TRANSACTION_ABORTABLE"):
        transact(bench, in_transaction(0), acks=0)


@pytest.mark.parametrize("code", [None, ErrorCode.TRANSACTION_ABORTABLE])
def test_the_coordinator_is_waited_for_without_acknowledgement(bench, desk, code):
    if code is not None:
        desk.refused["t", 0] = code
    desk.is_held = True
    waiting = ask_for(bench, in_transaction(0), acks=0)
    assert waiting.response is None
    desk.answer()
    if code is None:
        waiting.check_unsent(waiting.response)
        assert bench.core.directory.log("t", 0).next_offset == 1
    else:
        with pytest.raises(RemoteProtocolError, match=code.name):
            waiting.check_unsent(waiting.response)


def test_producers_are_believed_if_the_options_say_so(tmp_path, monkeypatch):
    bench = BrokerBench(tmp_path, transaction_partition_verification_enable=False)
    bench.create()
    desk = TransactionDesk()
    bench.use(verifier=desk)
    assert transact(bench, in_transaction(0), version=11) == [ErrorCode.NONE]
    assert not desk.asked
    assert transact(bench, in_transaction(0, producer_id=2)) == [ErrorCode.NONE]
    assert [asked[1] for asked in desk.asked] == [2], "a producer is always checked if the broker adds its partitions"


def test_leader_that_lost_its_role_while_the_coordinator_was_asked_appends_nothing(bench, desk):
    desk.is_held = True
    operation = ask_for(bench, in_transaction(0))
    bench.core.replicas.stop("t", 0)
    desk.answer()
    assert codes_in(operation.response) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert bench.core.directory.log("t", 0).next_offset == 0
