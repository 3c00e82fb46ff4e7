"""A broker of share partitions in memory, which acquires records, checks sessions and acknowledgements as Kafka's does.

It answers requests as values, so simulations and scripted brokers can both use it. Everything that an acknowledgement
does is recorded for tests.

Source: Apache Kafka, `SharePartitionManager.newContext`, `SharePartition.acknowledge`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kafkawire.sdk.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafkawire.sdk.protocol.tables.enums import (
    ACKNOWLEDGE_GAP,
    FINAL_SHARE_SESSION_EPOCH,
    INITIAL_SHARE_SESSION_EPOCH,
    AcknowledgeType,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.consumer.batches import made

__all__ = ["LOCK_MS", "Applied", "Place", "ShareBroker"]

LOCK_MS = 30_000

#: A partition, identified by its topic's id and its number.
Place = tuple[bytes, int]


class Applied(NamedTuple):
    """An acknowledgement that the broker has applied."""

    member_id: str
    place: Place
    offset: int
    type: int
    delivery_count: int


class _Held(NamedTuple):
    member_id: str
    until_ms: int


class _Session:
    def __init__(self) -> None:
        self.epoch = 1
        self.places: dict[Place, None] = {}


class ShareBroker:
    """A broker that leads all partitions of one share group.

    Args:
        clock_ms: returns the time.

    Attributes:
        batches: (base offset, number of offsets, bytes) of the batches of each partition.
        counts: how many times each offset was delivered.
        done: the offsets that are accepted, rejected or gaps.
        held: who holds each acquired offset.
        granted: when the lock of each delivery of an offset runs out, or ran out, unless it ended early.
        sessions: the sessions, keyed by member id.
        applied: the acknowledgements that were applied, in order.
        refused: the codes of acknowledgements that were refused.
        faults: error codes for the next acknowledgements of a partition.
        fetch_faults: error codes for the next fetches of a partition.
        top_faults: error codes for the next requests as a whole.
        elsewhere: the partitions that another broker leads.
        lock_ms: how long acquisition locks last.
        max_sessions: the maximum number of sessions.
    """

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self.clock_ms = clock_ms
        self.batches: dict[Place, list[tuple[int, int, bytes]]] = {}
        self.counts: Counter[tuple[Place, int]] = Counter()
        self.done: dict[tuple[Place, int], int] = {}
        self.held: dict[tuple[Place, int], _Held] = {}
        self.granted: dict[tuple[Place, int, int], int] = {}
        self.sessions: dict[str, _Session] = {}
        self.applied: list[Applied] = []
        self.refused: list[ErrorCode] = []
        self.faults: dict[Place, list[ErrorCode]] = {}
        self.fetch_faults: dict[Place, list[ErrorCode]] = {}
        self.top_faults: list[ErrorCode] = []
        self.elsewhere: set[Place] = set()
        self.lock_ms = LOCK_MS
        self.max_sessions = 1_000

    def fill(self, place: Place, *values: bytes) -> None:
        """Append a batch with these values."""
        log = self.batches.setdefault(place, [])
        base = log[-1][0] + log[-1][1] if log else 0
        log.append((base, len(values), made(base, *values)))

    def append(self, place: Place, count: int, data: bytes) -> None:
        """Append a batch of any content that takes a number of offsets."""
        log = self.batches.setdefault(place, [])
        log.append((log[-1][0] + log[-1][1] if log else 0, count, data))

    def hand_over(self, place: Place, other: ShareBroker) -> None:
        """Let another broker lead a partition; its locks are lost."""
        self.elsewhere.add(place)
        other.elsewhere.discard(place)
        other.batches[place] = self.batches.pop(place, [])
        for key in [key for key in self.held if key[0] == place]:
            del self.held[key]
        for key in [key for key in self.counts if key[0] == place]:
            other.counts[key] = self.counts.pop(key)
        for key in [key for key in self.done if key[0] == place]:
            other.done[key] = self.done.pop(key)

    def disconnect(self, member_id: str) -> None:
        """End a member's session, because its connection has ended; its records are available again."""
        if self.sessions.pop(member_id, None) is not None:
            self._release(member_id)

    def offsets(self) -> Iterable[tuple[Place, int]]:
        """Yield all offsets."""
        for place, log in self.batches.items():
            for base, count, _ in log:
                yield from ((place, offset) for offset in range(base, base + count))

    # Requests.

    def share_fetch(self, request: ShareFetchRequest) -> ShareFetchResponse:
        """Answer a fetch."""
        member_id = request.member_id or ""
        acknowledged = {
            (topic.topic_id, each.partition_index): each.acknowledgement_batches
            for topic in request.topics
            for each in topic.partitions
            if each.acknowledgement_batches
        }
        code = self._open(request, member_id, has_acknowledgements=bool(acknowledged))
        if code != ErrorCode.NONE:
            return ShareFetchResponse(error_code=code)
        session = self.sessions[member_id]
        for topic in request.topics:
            session.places.update(((topic.topic_id, each.partition_index), None) for each in topic.partitions)
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                session.places.pop((forgotten.topic_id, number), None)
        if self.top_faults and request.share_session_epoch != INITIAL_SHARE_SESSION_EPOCH:
            return ShareFetchResponse(error_code=self.top_faults.pop(0))
        found: dict[Place, ShareFetchResponse.PartitionData] = {}
        for place, batches in acknowledged.items():
            code = self._acknowledge(member_id, place, batches)
            found[place] = ShareFetchResponse.PartitionData(place[1], acknowledge_error_code=code, records=b"")
        left = request.max_records
        for place in session.places:
            data = found.get(place) or ShareFetchResponse.PartitionData(place[1], records=b"")
            faults = self.fetch_faults.get(place)
            if faults or place in self.elsewhere:
                data.error_code = faults.pop(0) if faults else ErrorCode.NOT_LEADER_OR_FOLLOWER
                data.current_leader = ShareFetchResponse.LeaderIdAndEpoch(-1, -1)
                found[place] = data
            elif left > 0 and (taken := self._acquire(member_id, place, left)):
                data.records = b"".join(each for _, _, each in taken[1])
                data.acquired_records = taken[0]
                left -= sum(each.last_offset - each.first_offset + 1 for each in taken[0])
                found[place] = data
        return ShareFetchResponse(acquisition_lock_timeout_ms=self.lock_ms, responses=_by_topic(found))

    def share_acknowledge(self, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
        """Answer an acknowledgement."""
        member_id, epoch = request.member_id or "", request.share_session_epoch
        session = self.sessions.get(member_id)
        if epoch == INITIAL_SHARE_SESSION_EPOCH:
            return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        if session is None:
            return ShareAcknowledgeResponse(error_code=ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != FINAL_SHARE_SESSION_EPOCH:
            if epoch != session.epoch:
                return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            session.epoch += 1
        if self.top_faults:
            return ShareAcknowledgeResponse(error_code=self.top_faults.pop(0))
        topics: dict[bytes, list[ShareAcknowledgeResponse.PartitionData]] = {}
        for topic in request.topics:
            for each in topic.partitions:
                place = topic.topic_id, each.partition_index
                renews = any(AcknowledgeType.RENEW in one.acknowledge_types for one in each.acknowledgement_batches)
                assert request.is_renew_ack or not renews, "the request must say that it renews locks"
                code = self._acknowledge(member_id, place, each.acknowledgement_batches)
                topics.setdefault(place[0], []).append(ShareAcknowledgeResponse.PartitionData(place[1], code))
        if epoch == FINAL_SHARE_SESSION_EPOCH:
            self.disconnect(member_id)
        listed = [ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse(*each) for each in topics.items()]
        return ShareAcknowledgeResponse(acquisition_lock_timeout_ms=self.lock_ms, responses=listed)

    # Sessions.

    def _open(self, request: ShareFetchRequest, member_id: str, *, has_acknowledgements: bool) -> ErrorCode:
        epoch = request.share_session_epoch
        if epoch == INITIAL_SHARE_SESSION_EPOCH:
            if has_acknowledgements:
                return ErrorCode.INVALID_REQUEST
            self.disconnect(member_id)
            if len(self.sessions) >= self.max_sessions:
                return ErrorCode.SHARE_SESSION_LIMIT_REACHED
            self.sessions[member_id] = _Session()
            return ErrorCode.NONE
        session = self.sessions.get(member_id)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.epoch += 1
        return ErrorCode.NONE

    def _release(self, member_id: str) -> None:
        for key in [key for key, held in self.held.items() if held.member_id == member_id]:
            del self.held[key]

    # Records.

    def _lock(self, member_id: str, key: tuple[Place, int]) -> None:
        held = self.held[key] = _Held(member_id, self.clock_ms() + self.lock_ms)
        self.granted[*key, self.counts[key]] = held.until_ms

    def _is_held(self, key: tuple[Place, int]) -> bool:
        held = self.held.get(key)
        if held is not None and held.until_ms <= self.clock_ms():
            del self.held[key]
            held = None
        return held is not None

    def _acquire(
        self, member_id: str, place: Place, limit: int
    ) -> tuple[list[ShareFetchResponse.AcquiredRecords], list[tuple[int, int, bytes]]] | None:
        ranges: list[ShareFetchResponse.AcquiredRecords] = []
        taken = []
        for base, count, data in self.batches.get(place, ()):
            if limit <= 0:
                break
            free = [
                offset
                for offset in range(base, base + count)
                if (place, offset) not in self.done and not self._is_held((place, offset))
            ][:limit]
            for offset in free:
                key = place, offset
                self.counts[key] += 1
                self._lock(member_id, key)
                last = ranges[-1] if ranges else None
                if last and last.last_offset == offset - 1 and last.delivery_count == self.counts[key]:
                    last.last_offset = offset
                else:
                    ranges.append(ShareFetchResponse.AcquiredRecords(offset, offset, self.counts[key]))
            limit -= len(free)
            if free:
                taken.append((base, count, data))
        return (ranges, taken) if ranges else None

    def _acknowledge(self, member_id: str, place: Place, batches: Iterable[Any]) -> ErrorCode:
        given: list[tuple[int, int]] = []
        for each in batches:
            offsets = range(each.first_offset, each.last_offset + 1)
            types = list(each.acknowledge_types)
            assert len(types) in (1, len(offsets)), each
            given += zip(offsets, types * len(offsets) if len(types) == 1 else types, strict=True)
        assert given == sorted(given), "offsets must be in order"
        assert len(given) == len({offset for offset, _ in given}), "an offset is acknowledged once per request"
        faults = self.faults.get(place)
        code = faults.pop(0) if faults else ErrorCode.NONE
        if place in self.elsewhere:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        for offset, _ in given:
            key = place, offset
            if not self._is_held(key) or self.held[key].member_id != member_id:
                code = code or ErrorCode.INVALID_RECORD_STATE
        if code != ErrorCode.NONE:
            self.refused.append(code)
            return code
        for offset, type in given:
            key = place, offset
            self.applied.append(Applied(member_id, place, offset, type, self.counts[key]))
            if type == AcknowledgeType.RENEW:
                self._lock(member_id, key)
                continue
            del self.held[key]
            if type in (ACKNOWLEDGE_GAP, AcknowledgeType.ACCEPT, AcknowledgeType.REJECT):
                self.done[key] = type
        return ErrorCode.NONE


def _by_topic(
    found: dict[Place, ShareFetchResponse.PartitionData],
) -> list[ShareFetchResponse.ShareFetchableTopicResponse]:
    topics: dict[bytes, list[ShareFetchResponse.PartitionData]] = {}
    for place, data in found.items():
        topics.setdefault(place[0], []).append(data)
    return [ShareFetchResponse.ShareFetchableTopicResponse(*each) for each in topics.items()]
