"""Fetch sessions answer as in Kafka, evict each other by age and size, and read only partitions that may have changed.

Method: test the cache and its sessions in isolation, and run histories with Kafka's answers on a broker without
sockets.
"""

import gc
import weakref
from itertools import count
from typing import Any

import pytest

from kafkawire.reference_broker.replicas.fetch_sessions import EVICTION_MS, FetchSession, FetchSessions
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, finished
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.work.computations import Computations
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.tables.enums import IsolationLevel
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.replicas.fetch_histories import HISTORIES, PARTITIONS, Player
from tests.reference_broker.storage.produced_batches import produced, values_in

ReplicaState = FetchRequest.ReplicaState


class Log:
    """A log that collects its watchers."""

    error = None

    def __init__(self):
        self.watchers = []
        self.stable_watchers = []
        self.end_watchers = []

    def watch(self, watcher, *, is_committed=False, is_follower=False):
        stable_or_all = self.stable_watchers if is_committed else self.watchers
        (self.end_watchers if is_follower else stable_or_all).append(watcher)

    def holds_back(self, broker_id):
        return False

    def sent(self, size_bytes):
        pass

    def unwatch(self, watcher):
        for watchers in (self.watchers, self.stable_watchers, self.end_watchers):
            if watcher in watchers:
                watchers.remove(watcher)


class Waiting:
    """A waiting fetch that collects its notifications."""

    def __init__(self, session):
        self.told = []
        self._session = session
        session.waiting = self

    def more(self, size_bytes):
        self.told.append(size_bytes)

    def interrupted(self, code):
        self.told.append(code)
        self._session.waiting = None


def begun(request):
    """Return a session outside any cache."""
    session = FetchSession(request, False)
    finished(session.want(request))
    return session


def wanted(*numbers: int, topic: str = "t", offset: int = 0, **fields: Any) -> FetchRequest:
    partitions = [FetchRequest.FetchPartition(number, fetch_offset=offset) for number in numbers]
    topics = [FetchRequest.FetchTopic(topic, partitions=partitions)] if partitions else []
    given: dict[str, Any] = {"session_epoch": 0} | fields
    return FetchRequest(topics=topics, **given)


def sessions(slots=2):
    ids = count(1)
    return FetchSessions(slots, lambda: f"id{next(ids)}", Computations(Timers()))


def kept(cache: FetchSessions, *numbers: int, now_ms: int = 0, **fields: Any) -> Any:
    session = finished(cache.begin(wanted(*numbers, **fields), now_ms, by_id=False))
    return session if cache.keep(session, now_ms) else None


def next_of(cache, session, now_ms=0, **fields):
    request = wanted(**({"session_id": session.id, "session_epoch": session.epoch} | fields))
    return finished(cache.begin(request, now_ms, by_id=False))


def is_known(cache, session):
    codes = []
    try:
        next_of(cache, session)
    except BrokerError as error:
        codes.append(error.code)
    assert codes in ([], [ErrorCode.FETCH_SESSION_ID_NOT_FOUND])
    return not codes


# The cache.


def test_two_minutes_as_in_kafka():
    assert EVICTION_MS == 120_000


def test_ids_are_positive_and_differ():
    cache = sessions(100)
    found = {kept(cache, 0).id for _ in range(100)}
    assert len(found) == len(cache) == 100
    assert all(0 < session_id < 2**31 for session_id in found)


def test_an_id_is_neither_zero_nor_used():
    # The checksum of the first text is 0.
    cache = FetchSessions(2, iter(["", "a", "a", "b"]).__next__, Computations(Timers()))
    first, second = kept(cache, 0), kept(cache, 0)
    assert 0 != first.id != second.id


def test_no_slots_no_sessions():
    assert kept(sessions(0), 0) is None


def test_epochs_begin_anew_after_the_last():
    cache = sessions()
    session = kept(cache, 0)
    session.epoch = 2**31 - 1
    assert next_of(cache, session).epoch == 1


def test_young_session_of_a_consumer_gives_way_to_no_consumer():
    cache = sessions(1)
    session = kept(cache, 0)
    assert kept(cache, 0, 1, 2) is None
    assert kept(cache, 0, 1, 2, now_ms=EVICTION_MS) is None
    assert is_known(cache, session)


def test_unused_session_gives_way_to_any():
    cache = sessions()
    used, unused = kept(cache, 0), kept(cache, 0, 1, 2)
    next_of(cache, used, now_ms=1)
    assert kept(cache, 0, now_ms=EVICTION_MS + 1) is not None
    assert not is_known(cache, unused)
    assert is_known(cache, used)


@pytest.mark.parametrize(("size", "is_kept"), [(1, False), (2, False), (3, True)])
def test_old_session_gives_way_to_one_that_is_larger(size, is_kept):
    cache = sessions()
    large, small = kept(cache, 0, 1, 2, 3), kept(cache, 0, 1)
    for session in (large, small):
        next_of(cache, session, now_ms=EVICTION_MS + 1)
    assert (kept(cache, *range(size), now_ms=EVICTION_MS + 2) is not None) == is_kept
    assert is_known(cache, small) != is_kept
    assert is_known(cache, large)


@pytest.mark.parametrize("fields", [{"replica_id": 0}, {"replica_state": ReplicaState(replica_id=1)}])
def test_consumer_gives_way_to_a_follower_but_not_a_follower(fields):
    cache = sessions()
    follower, consumer = kept(cache, 0, **fields), kept(cache, 0, 1, 2)
    assert kept(cache, 0, **fields) is not None
    assert not is_known(cache, consumer)
    assert is_known(cache, follower)
    assert kept(cache, 0, 1, 2, **fields) is None


def test_old_follower_gives_way_to_followers_alone():
    cache = sessions(1)
    follower = kept(cache, 0, replica_id=1)
    next_of(cache, follower, now_ms=EVICTION_MS + 1)
    assert kept(cache, 0, 1, 2, now_ms=EVICTION_MS + 2) is None
    assert kept(cache, 0, 1, now_ms=EVICTION_MS + 2, replica_id=2) is not None
    assert not is_known(cache, follower)


# A session.


def test_logs_are_followed_until_the_session_ends():
    cache, log = sessions(), Log()
    session = kept(cache, 0, 1)
    first, second = session.to_read()
    session.was_read(first, log, is_at_end=True)
    session.was_read(second, None, is_at_end=False)
    assert not log.watchers
    session.follow()
    (watcher,) = log.watchers
    assert session.to_read() == [second]
    watcher(10)
    assert session.to_read() == [first, second]
    next_of(cache, session, session_epoch=-1)
    assert not log.watchers


def test_partition_follows_another_log():
    session, old, new = begun(wanted(0)), Log(), Log()
    (partition,) = session.to_read()
    for log in (old, old, new):
        session.was_read(partition, log, is_at_end=True)
        session.follow()
    assert not old.watchers
    assert len(new.watchers) == 1


def test_forgotten_partition_leaves_its_log():
    cache, log = sessions(), Log()
    session = kept(cache, 0, 1)
    (partition, _) = session.to_read()
    session.was_read(partition, log, is_at_end=False)
    session.follow()
    next_of(cache, session, forgotten_topics_data=[FetchRequest.ForgottenTopic("t", partitions=[0])])
    assert not log.watchers
    assert partition not in session.to_read()


@pytest.mark.parametrize("numbers", [(), (0,), range(5)], ids=["topics", "first partitions", "partitions"])
@pytest.mark.parametrize("is_forgotten", [False, True])
def test_others_have_their_turn_while_much_is_added_or_forgotten(numbers, is_forgotten):
    names = [f"t{number}" for number in range(1_000)]
    partitions = [FetchRequest.FetchPartition(number) for number in numbers]
    request = FetchRequest(topics=[FetchRequest.FetchTopic(name, partitions=partitions) for name in names])
    session = FetchSession(request, False)
    work = session.want(request)
    if is_forgotten:
        finished(work)
        forgotten = [FetchRequest.ForgottenTopic(name, partitions=list(numbers)) for name in names]
        work = session.update(FetchRequest(forgotten_topics_data=forgotten))
    pieces = sum(1 for _ in work)
    assert len(session) == (0 if is_forgotten else len(names) * len(numbers))
    assert pieces == len(names) * (1 + len(numbers)) // 100


def test_others_have_their_turn_while_a_large_session_is_removed():
    timers, log = Timers(), Log()
    cache = FetchSessions(2, lambda: "id", Computations(timers))
    session = kept(cache, *range(1_000))
    for partition in session.to_read():
        session.was_read(partition, log, is_at_end=True)
    session.follow()
    next_of(cache, session, session_epoch=-1)
    assert len(log.watchers) == 900, "the other partitions wait for their turn"
    turns = 0
    while timers.next_deadline_ms is not None:
        timers.fire(0)
        turns += 1
    assert (log.watchers, turns) == ([], 10)


def test_others_have_their_turn_while_a_large_session_reads_at_another_level():
    log, session = Log(), begun(wanted(*range(1_000)))
    for partition in session.to_read():
        session.was_read(partition, log, is_at_end=True)
    session.follow()
    left = [len(log.watchers) - len(log.stable_watchers) for _ in session.update(FetchRequest(isolation_level=1))]
    assert left == list(range(900, -1, -100))
    assert len(log.watchers) == len(log.stable_watchers) == 1_000


def test_session_that_ends_while_it_takes_another_level_watches_no_log():
    cache, log = sessions(), Log()
    session = kept(cache, *range(1_000))
    for partition in session.to_read():
        session.was_read(partition, log, is_at_end=True)
    work = cache.begin(wanted(session_id=session.id, session_epoch=1, isolation_level=1), 0, by_id=False)
    next(work)
    finished(cache.begin(wanted(session_id=session.id, session_epoch=-1), 0, by_id=False))
    finished(session.end())
    with pytest.raises(BrokerError, match=str(session.id)) as caught:
        finished(work)
    assert caught.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(log.watchers) == len(log.stable_watchers)


def test_waiting_fetch_is_told():
    cache, log = sessions(), Log()
    session = kept(cache, 0)
    session.was_read(session.to_read()[0], log, is_at_end=True)
    session.follow()
    waiting = Waiting(session)
    log.watchers[0](7)
    assert waiting.told == [7]
    next_of(cache, session)
    assert waiting.told == [7, ErrorCode.INVALID_FETCH_SESSION_EPOCH]
    waiting = Waiting(session)
    next_of(cache, session, session_epoch=0)
    assert waiting.told == [ErrorCode.FETCH_SESSION_ID_NOT_FOUND]


def test_refused_request_disturbs_nobody():
    cache = sessions()
    session = kept(cache, 0)
    waiting = Waiting(session)
    with pytest.raises(BrokerError):
        next_of(cache, session, session_epoch=5)
    assert waiting.told == []


def test_another_isolation_level_makes_everything_ready():
    cache = sessions()
    session = kept(cache, 0, 1)
    for partition in session.to_read():
        session.was_read(partition, Log(), is_at_end=True)
    next_of(cache, session, isolation_level=1)
    assert len(session.to_read()) == 2
    for partition in session.to_read():
        session.was_read(partition, Log(), is_at_end=True)
    next_of(cache, session, isolation_level=1)
    assert session.to_read() == []


def test_committed_records_are_waited_for_and_the_high_watermark_is_news():
    cache, log = sessions(), Log()
    session = kept(cache, 0)
    (partition,) = session.to_read()
    session.was_read(partition, log, is_at_end=True)
    session.follow()
    assert (len(log.watchers), len(log.stable_watchers)) == (1, 0)
    next_of(cache, session, isolation_level=1)
    session.was_read(partition, log, is_at_end=True)
    session.follow()
    (moved,), (changed,) = log.watchers, log.stable_watchers
    waiting = Waiting(session)
    moved(7)
    assert (session.to_read(), waiting.told) == ([partition], [0])
    session.was_read(partition, log, is_at_end=True)
    changed(7)
    assert (session.to_read(), waiting.told) == ([partition], [0, 7])
    finished(session.end())
    assert not log.watchers + log.stable_watchers


@pytest.mark.parametrize(
    ("fields", "is_news"),
    [
        ({}, False),
        ({"records": b"r"}, True),
        ({"high_watermark": 6}, True),
        ({"log_start_offset": 3}, True),
        ({"error_code": ErrorCode.OFFSET_OUT_OF_RANGE}, True),
    ],
)
def test_news(fields, is_news):
    (partition,) = begun(wanted(0)).to_read()
    known = {"high_watermark": 5, "log_start_offset": 2, "records": b""}
    partition.tell(FetchResponse.PartitionData(0, **known))
    assert partition.is_news(FetchResponse.PartitionData(0, **(known | fields))) == is_news


def test_after_an_error_everything_is_news():
    (partition,) = begun(wanted(0)).to_read()
    data = FetchResponse.PartitionData(0, ErrorCode.KAFKA_STORAGE_ERROR, 5, log_start_offset=2, records=b"")
    partition.tell(data)
    assert partition.is_news(FetchResponse.PartitionData(0, ErrorCode.NONE, 5, log_start_offset=2, records=b""))


# On a broker.


@pytest.mark.parametrize("name", HISTORIES)
def test_a_history(bench, name):
    topics = {
        letter: (f"{letter}-topic", bench.create(f"{letter}-topic", number)) for letter, number in PARTITIONS.items()
    }
    player = Player(bench.ask, lambda topic, number, batch: bench.produce(batch, topic, number), topics)
    steps, answers = zip(*HISTORIES[name], strict=True)
    assert player.play(steps) == list(answers)


@pytest.fixture
def read_logs(monkeypatch):
    """Collect the logs that are read."""
    found = []
    read = PartitionLog.read

    def counting(log, *arguments, **keywords):
        found.append(log)
        return read(log, *arguments, **keywords)

    monkeypatch.setattr(PartitionLog, "read", counting)
    return found


def is_watched(bench):
    replica = bench.core.replicas.get("t", 0)
    return replica is not None and replica.is_watched


def opened(bench, *numbers, **fields):
    """Begin a session at the ends of partitions; return the fields that its later requests share."""
    response = bench.ask(wanted(*numbers, **fields), 12)
    assert response.session_id
    return {"session_id": response.session_id, "max_wait_ms": 500, "min_bytes": 1}


def test_only_what_has_changed_is_read(bench, read_logs):
    bench.create(partitions=300)
    session = opened(bench, *range(300))
    read_logs.clear()
    waiting = bench.ask(wanted(**session, session_epoch=1), 12)
    bench.produce(produced(b"x"), partition=123)
    (topic,) = bench.through(waiting.response, 12).responses
    assert [(data.partition_index, values_in(data.records)) for data in topic.partitions] == [(123, [b"x"])]
    assert read_logs == [bench.core.directory.log("t", 123)]
    bench.ask(wanted(123, offset=1, **session, session_epoch=2), 12)
    assert len(read_logs) == 2


def test_what_came_between_two_fetches_is_found(bench):
    bench.create(partitions=2)
    session = opened(bench, 0, 1)
    bench.produce(produced(b"x"), partition=1)
    (topic,) = bench.ask(wanted(**session, session_epoch=1), 12).responses
    assert [data.partition_index for data in topic.partitions] == [1]


def test_news_without_records_waits_with_the_rest(bench):
    bench.create(partitions=2)
    session = opened(bench, 0, 1)
    bench.produce(produced(b"x"), partition=0)
    waiting = bench.ask(wanted(0, offset=1, **session, session_epoch=1), 12)
    assert isinstance(waiting, DelayedOperation)
    bench.advance(500)
    (topic,) = bench.through(waiting.response, 12).responses
    assert [(data.partition_index, data.high_watermark) for data in topic.partitions] == [(0, 1)]


def test_session_outlives_its_connection(bench):
    bench.create()
    session = opened(bench, 0)
    bench.ask(wanted(**session, session_epoch=1), 12).cancel()
    assert is_watched(bench)
    bench.produce(produced(b"x"))
    assert bench.ask(wanted(**session, session_epoch=2), 12).responses


def test_later_request_answers_the_one_that_waits(bench):
    bench.create()
    session = opened(bench, 0)
    first = bench.ask(wanted(**session, session_epoch=1), 12)
    second = bench.ask(wanted(**session, session_epoch=2), 12)
    assert first.response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert second.response is None
    bench.produce(produced(b"x"))
    assert bench.through(second.response, 12).responses


def test_closed_session_answers_the_one_that_waits(bench):
    bench.create()
    session = opened(bench, 0)
    waiting = bench.ask(wanted(**session, session_epoch=1), 12)
    bench.ask(wanted(session_id=session["session_id"], session_epoch=-1), 12)
    assert waiting.response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not is_watched(bench)


def test_topic_that_comes_again_under_its_name(bench):
    bench.create()
    session = opened(bench, 0)
    bench.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState("t")], timeout_ms=1000))
    codes = []
    for epoch in (1, 2):
        (topic,) = bench.ask(wanted(**session, session_epoch=epoch), 12).responses
        codes.append(topic.partitions[0].error_code)
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    bench.create()
    waiting = bench.ask(wanted(**session, session_epoch=3), 12)
    bench.produce(produced(b"x"))
    (topic,) = bench.through(waiting.response, 12).responses
    assert values_in(topic.partitions[0].records) == [b"x"]


@pytest.mark.parametrize("isolation_level", list(IsolationLevel))
def test_session_that_nobody_uses_keeps_no_deleted_log(bench, isolation_level):
    bench.create()
    assert bench.ask(wanted(0, isolation_level=isolation_level), 12).session_id
    log = weakref.ref(bench.core.directory.log("t", 0))
    assert log() is not None
    bench.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState("t")], timeout_ms=1000))
    gc.collect()
    assert log() is None


def test_log_that_begins_later_is_news(bench):
    bench.create(partitions=2)
    for _ in range(2):
        bench.produce(produced(b"x"), partition=1)
    response = bench.ask(wanted(0, 1, offset=0), 12)
    session: dict[str, Any] = {"session_id": response.session_id, "max_wait_ms": 500, "min_bytes": 1}
    waiting = bench.ask(wanted(1, offset=2, **session, session_epoch=1), 12)
    bench.core.directory.log("t", 1).begin_at(1)
    assert waiting.response is None
    bench.advance(500)
    (topic,) = bench.through(waiting.response, 12).responses
    assert [(data.partition_index, data.log_start_offset) for data in topic.partitions] == [(1, 1)]
    session["max_wait_ms"] = 0
    assert not bench.ask(wanted(**session, session_epoch=2), 12).responses


def test_no_slots(tmp_path):
    bench = BrokerBench(tmp_path / "data", max_incremental_fetch_session_cache_slots=0)
    bench.create()
    assert bench.ask(wanted(0), 12).session_id == 0
    assert not is_watched(bench)
