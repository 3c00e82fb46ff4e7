"""A share consumer acknowledges each record at most once, and soon after any trouble it behaves like a new one.

Goal: whatever happens to sessions, locks, leaders and connections, no acknowledgement is applied twice, none is sent
    for a session or a lock that the consumer knows to be lost, every acknowledgement ends once, and a record counts as
    held exactly as long as its own lock.

Method: run stories about reads, acknowledgements, renewals, commits, lost sessions and moved partitions with two
simulated brokers that check sessions and locks as Kafka's do, and that remember how long each lock was granted for.
Once all faults are repaired, everything must be read, accepted and confirmed. Then run one more story with the used
consumer and a new one that has the same brokers, side by side.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from copy import deepcopy
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from kafkawire.sdk.consumer.sharing.delivery import ShareDelivery, ShareDeliveryState
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import INITIAL_SHARE_SESSION_EPOCH, AcknowledgeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.consumer.sharing.share_broker import Place, ShareBroker
from tests.sdk.consumer.sharing.sharing import MEMBER, Sharing, place
from tests.sdk.simulation import SILENT, Later, Silent
from tests.sdk.stories import Kinds, Step, assert_alike, run_stories, steps

LEADERS = (1, 2, 1)
LOCK_MS = 5_000
LATENCY_MS = 5
REQUEST_TIMEOUT_MS = 3_000

#: Codes of acknowledgements that a broker did not apply.
ACKNOWLEDGE_CODES = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.INVALID_RECORD_STATE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
FETCH_CODES = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR)

numbers = st.sampled_from(range(len(LEADERS)))
nodes = st.sampled_from([1, 2])
which = st.integers(0, 9)
KINDS: Kinds = {
    "accept": (which,),
    "accept more": (which,),
    "assign": (st.sets(numbers).map(sorted),),
    "break": (nodes,),
    "codes": (numbers, st.lists(st.sampled_from(ACKNOWLEDGE_CODES), max_size=2)),
    "commit": (st.sampled_from([50, 1_000, 10_000]),),
    "fail to renew": (which, st.booleans()),
    "fetch codes": (numbers, st.lists(st.sampled_from(FETCH_CODES), max_size=2)),
    "fill": (numbers, st.integers(1, 4)),
    "fill more": (numbers, st.integers(1, 4)),
    "fill with nothing": (numbers,),
    "forget session": (nodes,),
    "move": (numbers,),
    "outlast": (numbers,),
    "pass": (st.sampled_from([1, 7, 60, 200]),),
    "pass on": (st.sampled_from([50, 700, 2_500, LOCK_MS]),),
    "read": (st.integers(1, 5),),
    "read more": (st.integers(1, 5),),
    "refuse": (nodes, st.sampled_from([ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REQUEST_TIMED_OUT])),
    "reject": (which,),
    "release": (which,),
    "renew": (which,),
    "renew more": (which,),
    "silent": (nodes, st.booleans()),
}


class Scene(Sharing):
    """A share consumer of three partitions, and what its application holds.

    Args:
        former: the scene whose brokers this one gets a copy of; None for new ones.
    """

    def __init__(self, former: Scene | None = None) -> None:
        self.silent: set[int] = set()
        super().__init__(LEADERS, request_timeout_ms=REQUEST_TIMEOUT_MS, max_unacknowledged_records=20)
        self.simulation.latency_ms = LATENCY_MS
        self.handed: list[ShareDelivery[Any, Any]] = []
        self.given: dict[int, AcknowledgeType] = {}
        self.renewals: list[Promise[None]] = []
        self.commits: list[tuple[int, Promise[Any]]] = []
        self.forgotten_ms = -LOCK_MS
        for node_id, broker in self.brokers.items():
            broker.lock_ms = LOCK_MS
            for number, leader in enumerate(LEADERS):
                if leader != node_id:
                    broker.elsewhere.add(place(number))
        if former is not None:
            self.simulation.now_ms = former.now_ms
            self.leaders = former.leaders
            self.router.metadata.invalidate()
            for node_id, broker in former.brokers.items():
                _copy(broker, self.brokers[node_id])
        self._seen = [0, 0, 0]

    def answered(self, node_id: int, request: Any, version: int) -> Message | Later | Silent:
        """Check that no acknowledgement is sent again after it was applied, or without a session or a lock."""
        if node_id in self.silent:
            return SILENT
        broker = self.brokers[node_id]
        applied: set[Any] = set()
        if _content(node_id, request):
            assert request.share_session_epoch != INITIAL_SHARE_SESSION_EPOCH, "the session of its records is lost"
            applied = {
                (each.place, each.offset, each.delivery_count)
                for each in broker.applied
                if each.type != AcknowledgeType.RENEW
            }
        for topic in request.topics:
            for each in topic.partitions:
                for batch in each.acknowledgement_batches:
                    for offset in range(batch.first_offset, batch.last_offset + 1):
                        where = topic.topic_id, each.partition_index
                        count = max(other.counts[where, offset] for other in self.brokers.values())
                        assert (where, offset, count) not in applied, f"offset {offset} was sent again"
                        is_locked = self._granted_until_ms(where, offset, count) > self.now_ms
                        assert is_locked, f"the lock of offset {offset} is known to have run out"
        return super().answered(node_id, request, version)

    def act(self, step: Step) -> None:
        name, *given = step
        kind = name.removesuffix(" more").removesuffix(" on").replace(" ", "_")
        getattr(self, f"_{kind}")(*given)
        self.check()

    # Steps.

    def _choose(self, which: int) -> ShareDelivery[Any, Any] | None:
        is_open = [each for index, each in enumerate(self.handed) if index not in self.given]
        return is_open[which % len(is_open)] if is_open else None

    def _acknowledge(self, which: int, type: AcknowledgeType) -> None:
        delivery = self._choose(which)
        if delivery is not None:
            getattr(delivery, type.name.lower())()
            self.given[self.handed.index(delivery)] = type

    def _accept(self, which: int) -> None:
        self._acknowledge(which, AcknowledgeType.ACCEPT)

    def _release(self, which: int) -> None:
        self._acknowledge(which, AcknowledgeType.RELEASE)

    def _reject(self, which: int) -> None:
        self._acknowledge(which, AcknowledgeType.REJECT)

    def _renew(self, which: int) -> None:
        delivery = self._choose(which)
        if delivery is not None:
            with suppress(KafkaWireError):
                self.renewals.append(delivery._renew())

    def _fail_to_renew(self, which: int, is_released: bool) -> None:
        """Fail to renew a lock; as an error that leaves a `with` block does, this may release the record."""
        delivery = self._choose(which)
        if delivery is not None:
            number = delivery.record.partition
            self._codes(number, [ErrorCode.INVALID_RECORD_STATE])
            self._renew(which)
            self.run(3 * LATENCY_MS)
            self._codes(number, [])
            if is_released:
                self._release(which)

    def _outlast(self, number: int) -> None:
        """Renew the first record of a response shortly before its locks run out, and read on once they have."""
        self._fill(number, 1)
        self._fill(number, 2)
        self._read(1)
        if self.handed and len(self.handed) - 1 not in self.given:
            delivery = self.handed[-1]
            self.run(max(delivery.lock_left_ms - 500, 0))
            with suppress(KafkaWireError):
                self.renewals.append(delivery._renew())
            self.run(1_000)
            self._read(5)

    def _assign(self, numbers: list[int]) -> None:
        known = self.partitions
        chosen = {partition: known[partition] for partition in known if partition.partition in numbers}
        self.planner.assign(chosen, self.now_ms)

    def _break(self, node_id: int) -> None:
        self.disconnect(node_id)

    def _codes(self, number: int, codes: list[ErrorCode]) -> None:
        self.brokers[self.leaders[number]].faults[place(number)] = list(codes)

    def _fetch_codes(self, number: int, codes: list[ErrorCode]) -> None:
        self.brokers[self.leaders[number]].fetch_faults[place(number)] = list(codes)

    def _refuse(self, node_id: int, code: ErrorCode) -> None:
        self.brokers[node_id].top_faults = [code]

    def _commit(self, timeout_ms: int) -> None:
        self.commits.append((self.now_ms + timeout_ms, self.commit(timeout_ms)))

    def _fill(self, number: int, count: int) -> None:
        self.brokers[self.leaders[number]].fill(place(number), *[b"x"] * count)

    def _fill_with_nothing(self, number: int) -> None:
        """Append an offset whose record was removed by compaction."""
        self.brokers[self.leaders[number]].append(place(number), 1, b"")

    def _forget_session(self, node_id: int) -> None:
        self.brokers[node_id].disconnect(MEMBER)
        self.forgotten_ms = self.now_ms

    def _move(self, number: int) -> None:
        former = self.leaders[number]
        self.brokers[former].hand_over(place(number), self.brokers[3 - former])
        self.leaders = tuple(3 - node if each == number else node for each, node in enumerate(self.leaders))
        self.router.metadata.invalidate()

    def _pass(self, duration_ms: int) -> None:
        self.run(duration_ms)

    def _read(self, limit: int) -> None:
        end_ms = self.now_ms + 300
        while self.now_ms < end_ms:
            try:
                found = self.reader.take_many(limit)
            except KafkaWireError:
                return
            if found:
                taken = [each for several in found.values() for each in several]
                self._check_locks(taken)
                self.handed += taken
                return
            self.run(3)

    def _silent(self, node_id: int, is_silent: bool) -> None:
        (self.silent.add if is_silent else self.silent.discard)(node_id)

    # Invariants.

    def _granted_until_ms(self, where: Place, offset: int, delivery_count: int) -> int:
        """Return until when the consumer may think that a record is locked: it hears of a lock a moment later."""
        key = where, offset, delivery_count
        return max(broker.granted.get(key, 0) for broker in self.brokers.values()) + LATENCY_MS

    def _unread_count(self) -> int:
        """Return how many acquired offsets the reader has not handed out or acknowledged, and still holds."""
        opened = self.reader._records
        count = sum(each.state is ShareDeliveryState.ACQUIRED for each in self.reader._ready)
        for fetched in self.queue._items:
            acquired = fetched.acquired
            if not acquired.is_lost and acquired.locked_until_ms > self.now_ms:
                ranges = opened._ranges if opened is not None and opened.fetched is fetched else fetched.ranges
                count += sum(each.last - each.first + 1 for each in ranges)
        return count

    def _check_locks(self, taken: list[ShareDelivery[Any, Any]]) -> None:
        """Each record is handed out while this consumer holds its lock, unless only the broker knows otherwise."""
        for delivery in taken:
            assert delivery.state is ShareDeliveryState.ACQUIRED
            assert delivery.lock_left_ms > 0

    def check(self) -> None:
        """Check what must hold at any time."""
        for broker in self.brokers.values():
            ends = Counter(
                (each.place, each.offset, each.delivery_count)
                for each in broker.applied
                if each.type != AcknowledgeType.RENEW
            )
            assert all(count == 1 for count in ends.values()), "an acquisition was acknowledged twice"
        confirmed = {
            (each.place[1], each.offset, each.delivery_count): each.type
            for broker in self.brokers.values()
            for each in broker.applied
            if each.type != AcknowledgeType.RENEW
        }
        for index, delivery in enumerate(self.handed):
            if delivery.state is ShareDeliveryState.CONFIRMED:
                record = delivery.record
                where = record.partition, record.offset, delivery.delivery_count
                assert confirmed[where] == self.given[index], f"{delivery} was not {self.given[index].name}"
        for deadline_ms, commit in self.commits:
            assert commit.done or self.now_ms <= deadline_ms
        held_count = self._unread_count()
        for delivery in self.handed:
            record, until_ms = delivery.record, delivery.locked_until_ms
            granted_ms = self._granted_until_ms(place(record.partition), record.offset, delivery.delivery_count)
            assert until_ms <= granted_ms, f"{delivery}: no broker has locked it for so long"
            is_over = delivery.state in (ShareDeliveryState.CONFIRMED, ShareDeliveryState.LOST)
            held_count += not is_over and until_ms > self.now_ms
        assert self.planner._held.count >= held_count, "records were forgotten that are still held"
        ended = Counter(offset for outcome in self.outcomes for offset in outcome.offsets)
        assert ended.total() <= len(self.given), "an acknowledgement has ended twice"

    def heal(self) -> None:
        """Repair all faults, and wait until all locks have run out."""
        self.silent.clear()
        for broker in self.brokers.values():
            broker.faults.clear()
            broker.fetch_faults.clear()
            broker.top_faults.clear()
        self.planner.assign(self.partitions, self.now_ms)
        self.run(2 * LOCK_MS + REQUEST_TIMEOUT_MS)
        self.queue.errors.clear()

    def drain(self) -> None:
        """Read and accept everything."""
        while found := self.read(timeout_ms=2_500):
            for delivery in found:
                delivery.accept()
                self.handed.append(delivery)
                self.given[len(self.handed) - 1] = AcknowledgeType.ACCEPT
            assert all(outcome.error is None for outcome in self.committed())
        self.check()

    def news(self) -> tuple[object, ...]:
        """Return what was handed out, sent and reported since the last call, apart from epochs and times."""
        sent = [_content(node, request) for _, node, request, _ in self.simulation.sent[self._seen[0] :]]
        handed = [repr(each.record) for each in self.handed[self._seen[1] :]]
        outcomes = [str(each) for each in self.outcomes[self._seen[2] :]]
        self._seen = [len(self.simulation.sent), len(self.handed), len(self.outcomes)]
        return sorted(filter(None, sent)), handed, outcomes


def _copy(former: ShareBroker, broker: ShareBroker) -> None:
    broker.batches = deepcopy(former.batches)
    broker.counts = deepcopy(former.counts)
    broker.done = deepcopy(former.done)
    broker.elsewhere = set(former.elsewhere)


def _content(node_id: int, request: Any) -> str:
    """Return the acknowledgements in a request."""
    if not isinstance(request, ShareFetchRequest | ShareAcknowledgeRequest):
        return ""
    given = [
        (each.partition_index, batch.first_offset, batch.last_offset, tuple(batch.acknowledge_types))
        for topic in request.topics
        for each in topic.partitions
        for batch in each.acknowledgement_batches
    ]
    return f"{node_id}: {given}" if given else ""


@given(steps(KINDS, 30), steps(KINDS, 12))
@example([("fill", 0, 2), ("read", 5), ("renew", 0), ("pass", 7), ("accept", 0), ("commit", 1_000)], [])
@example([("fill", 0, 2), ("read", 5), ("accept", 0), ("codes", 0, [ErrorCode.NETWORK_EXCEPTION]), ("pass", 200)], [])
@example([("fill", 0, 2), ("read", 5), ("renew", 0), ("accept", 0), ("break", 1), ("pass", 200)], [])
@example([("fill", 2, 1), ("read", 5), ("break", 1), ("read", 2), ("reject", 0), ("release", 0)], [])
@example([("fill", 2, 1), ("read", 5), ("break", 1), ("read", 2), ("reject", 1), ("release", 0)], [])
@example([("outlast", 0), ("accept", 0), ("accept", 0)], [])
@example([("fill", 0, 2), ("read", 5), ("fail to renew", 0, True), ("pass", 200)], [])
@run_stories(60)
def test_a_share_consumer_recovers(story: list[Step], then: list[Step]) -> None:
    used = Scene()
    for step in story:
        used.act(step)
    used.heal()
    used.drain()
    for broker in used.brokers.values():
        assert all(key in broker.done for key in broker.offsets()), "every record must be processed in the end"
    used.run(LOCK_MS)
    used.planner._held.expire(used.now_ms)
    assert used.planner._held.count == 0
    assert all(promise.done for promise in used.renewals), "every renewal ends"
    assert all(promise.done for _, promise in used.commits)
    assert sum(len(outcome.offsets) for outcome in used.outcomes) == len(used.given), "each acknowledgement ends once"
    fresh = Scene(used)
    fresh.drain()
    used.drain()
    level(used, fresh)
    assert_alike(used, fresh, then)


def level(used: Scene, fresh: Scene) -> None:
    """Let both scenes forget what the application held, connect, wait for open fetches, and reach the same time."""
    for scene in (used, fresh):
        for node_id in scene.brokers:
            scene.router.reach(node_id, scene.now_ms)
        scene.queue.is_asked = False
        scene.run(200)
        scene.queue.errors.clear()
        scene.handed.clear()
        scene.given.clear()
        scene.outcomes.clear()
        scene.renewals.clear()
        scene.commits.clear()
        scene._seen = [len(scene.simulation.sent), 0, 0]
    ahead_ms = used.now_ms - fresh.now_ms
    (fresh if ahead_ms > 0 else used).run(abs(ahead_ms))
