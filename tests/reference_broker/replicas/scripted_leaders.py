"""A leader whose logs are lists; it answers followers as Apache Kafka 3.9 does, unless a test changes the answers.

All messages between leader and follower pass through the codec, in the version that the follower has chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kafkawire.reference_broker.replicas.fetcher import Planned
from kafkawire.reference_broker.storage.log.epochs import LeaderEpochs
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.codec import Codec, codec
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.storage.produced_batches import produced
from tests.reference_broker.storage.replicated_logs import placed

__all__ = ["ScriptedBroker", "ScriptedLog"]

Wanted = FetchRequest.FetchPartition
Data = FetchResponse.PartitionData


class ScriptedLog:
    """The log of a leader.

    Args:
        epoch: the leader's epoch.
        before: the log whose records the leader had when it began to lead.
        upto: the offset at which its copy of these records ends; None for all of them.

    Attributes:
        batches: the batches, each with its base offset, the offset after it, and its epoch.
    """

    def __init__(self, epoch: int = 0, before: ScriptedLog | None = None, upto: int | None = None) -> None:
        self.batches: list[tuple[int, int, int, bytes]] = []
        self.start_offset = self.base_offset = self.high_watermark = 0
        if before is not None:
            self.start_offset = before.start_offset
            self.base_offset = before.base_offset
            self.batches = [each for each in before.batches if upto is None or each[1] <= upto]
            self.high_watermark = min(before.high_watermark, self.next_offset)
        self.epoch = epoch
        self.begins = [(epoch, self.next_offset)]

    @property
    def next_offset(self) -> int:
        return self.batches[-1][1] if self.batches else self.base_offset

    @property
    def epochs(self) -> LeaderEpochs:
        starts: dict[int, int] = {}
        for base, _, epoch, _ in self.batches:
            starts.setdefault(epoch, base)
        for epoch, base in self.begins:
            starts.setdefault(epoch, base)
        epochs = LeaderEpochs(sorted(starts.items()))
        epochs.begin_at(self.start_offset)
        return epochs

    def append(self, *values: bytes, is_committed: bool = False) -> None:
        """Append a batch."""
        base = self.next_offset
        data = placed(produced(*values), base, self.epoch)
        self.batches.append((base, base + len(values), self.epoch, data))
        if is_committed:
            self.high_watermark = self.next_offset

    def begin_at(self, offset: int) -> None:
        """Remove the batches before an offset; if it is after the end, the log becomes empty and begins there."""
        self.batches = [each for each in self.batches if each[1] > offset]
        self.start_offset = offset
        self.base_offset = self.batches[0][0] if self.batches else offset
        if not self.batches:
            self.begins = [(self.epoch, offset)]
        self.high_watermark = max(self.high_watermark, offset)

    def check(self, epoch: int) -> None:
        """Compare the epoch in a request with the leader's."""
        if epoch < self.epoch:
            raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH)
        if epoch > self.epoch:
            raise BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def fetch(self, wanted: Wanted) -> Data:
        """Answer a follower."""
        data = Data(
            wanted.partition, high_watermark=self.high_watermark, log_start_offset=self.start_offset, records=b""
        )
        self.check(wanted.current_leader_epoch)
        if wanted.last_fetched_epoch >= 0:
            epoch, end_offset = self.epochs.end_of(wanted.last_fetched_epoch, self.next_offset)
            if epoch < 0 or wanted.fetch_offset < self.start_offset:
                raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
                data.diverging_epoch = FetchResponse.EpochEndOffset(epoch, end_offset)
                return data
        if not self.start_offset <= wanted.fetch_offset <= self.next_offset:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
        size_bytes = 0
        records = bytearray()
        for _, end, _, batch in self.batches:
            if end > wanted.fetch_offset and (not records or size_bytes + len(batch) <= wanted.partition_max_bytes):
                records += batch
                size_bytes += len(batch)
        data.records = bytes(records)
        return data

    def list(self, asked: ListOffsetsRequest.ListOffsetsPartition) -> int:
        """Answer a request for the start or the end of the log."""
        self.check(asked.current_leader_epoch)
        return self.start_offset if asked.timestamp == OffsetTimestamp.EARLIEST else self.next_offset


@dataclass
class _Session:
    """A fetch session."""

    epoch: int = 0
    wanted: dict[tuple[str | bytes, int], Wanted] = field(default_factory=dict)
    told: dict[tuple[str | bytes, int], tuple[int, int]] = field(default_factory=dict)


class ScriptedBroker:
    """The leader of some partitions.

    Args:
        ids: the ids of topics; a topic without an id is identified by name.

    Attributes:
        logs: the broker's logs; it does not lead a partition without one.
        change: changes each response for a partition; None for no changes.
        requests: the requests and their versions.
        keeps_sessions: whether the broker has room for sessions.
    """

    def __init__(self, ids: dict[str, bytes]) -> None:
        self.ids = ids
        self.logs: dict[tuple[str, int], ScriptedLog] = {}
        self.change: Callable[[Data], None] | None = None
        self.requests: list[tuple[Any, int]] = []
        self.keeps_sessions = True
        self._sessions: dict[int, _Session] = {}

    def forget_sessions(self) -> None:
        """Lose all sessions, as after a restart."""
        self._sessions.clear()

    def answer(self, planned: Planned) -> Message:
        """Answer a request that a fetcher has planned; request and answer pass through the codec."""
        sent_in: Codec[Any] = codec(type(planned.request), planned.version)
        answer = self.take(sent_in.decode(sent_in.encode(planned.request))[0], planned.version)
        answered_in: Codec[Any] = codec(type(answer), planned.version)
        message: Message = answered_in.decode(answered_in.encode(answer))[0]
        return message

    def take(self, request: FetchRequest | ListOffsetsRequest, version: int) -> FetchResponse | ListOffsetsResponse:
        """Answer a request that has arrived over a connection."""
        self.requests.append((request, version))
        return self._fetch(request, version) if isinstance(request, FetchRequest) else self._list(request)

    @property
    def last(self) -> Any:
        """The last request."""
        return self.requests[-1][0]

    def _list(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            found = []
            for asked in topic.partitions:
                entry = ListOffsetsResponse.ListOffsetsPartitionResponse(asked.partition_index)
                try:
                    entry.offset = self._log(topic.name, asked.partition_index).list(asked)
                except BrokerError as error:
                    entry.error_code = error.code
                found.append(entry)
            topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(topic.name, found))
        return ListOffsetsResponse(topics=topics)

    def _log(self, topic: str, number: int) -> ScriptedLog:
        if (topic, number) not in self.logs:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.logs[topic, number]

    def _fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        by_id = version > 12
        session_id, is_full = request.session_id, request.session_epoch == 0
        if is_full:
            self._sessions.pop(session_id, None)
            session_id = len(self.requests) if self.keeps_sessions else 0
            session = _Session()
            if self.keeps_sessions:
                self._sessions[session_id] = session
        elif session_id not in self._sessions:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        else:
            session = self._sessions[session_id]
            if session.epoch != request.session_epoch:
                return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.epoch += 1
        for gone in request.forgotten_topics_data:
            for number in gone.partitions:
                assert session.wanted.pop((gone.topic_id if by_id else gone.topic, number), None) is not None
        for topic in request.topics:
            for wanted in topic.partitions:
                session.wanted[topic.topic_id if by_id else topic.topic, wanted.partition] = wanted
        responses = []
        for (key, number), wanted in session.wanted.items():
            data = self._data(key, number, wanted)
            ends = data.high_watermark, data.log_start_offset
            is_news = data.records or data.error_code or data.diverging_epoch.epoch >= 0
            if not is_full and not is_news and session.told.get((key, number)) == ends:
                continue
            session.told[key, number] = (-1, -1) if data.error_code else ends
            if isinstance(key, bytes):
                responses.append(FetchResponse.FetchableTopicResponse(topic_id=key, partitions=[data]))
            else:
                responses.append(FetchResponse.FetchableTopicResponse(topic=key, partitions=[data]))
        return FetchResponse(session_id=session_id, responses=responses)

    def _data(self, key: str | bytes, number: int, wanted: Wanted) -> Data:
        names = {value: name for name, value in self.ids.items() if value != ZERO_UUID}
        name = names.get(key) if isinstance(key, bytes) else key
        try:
            if name is None:
                raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
            data = self._log(name, number).fetch(wanted)
        except BrokerError as error:
            data = Data(number, error_code=error.code, high_watermark=-1, records=b"")
        if self.change is not None:
            self.change(data)
        return data
