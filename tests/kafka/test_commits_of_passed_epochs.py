"""With a past epoch, a member may commit for partitions it has owned since then, in a transaction or not (KIP-1251).

Method: let two members share two partitions on each broker; the first commits before and after giving one up.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any, TypeVar

from kafkawire import NewTopic
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import FrameSocket
from tests.kafka import topics
from tests.kafka.cleaning import until
from tests.kafka.produced import call
from tests.kafka.servers import Server

TIMEOUT_SECONDS = 30

#: Errors returned while the coordinator is being created or loaded.
_NOT_YET = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}

Response = TypeVar("Response", bound=Message)


class Member:
    """A member of a group that owns its assigned partitions."""

    def __init__(self, socket: FrameSocket, group: str, topic: str, topic_id: bytes) -> None:
        self.epoch = 0
        self.owned: list[int] = []
        self._socket, self._group, self._topic, self._topic_id = socket, group, topic, topic_id
        self._id = str(uuid.uuid4())

    def beat(self) -> None:
        """Send a heartbeat, and adopt the epoch and assignment from the response."""
        kind = ConsumerGroupHeartbeatRequest
        joins = self.epoch == 0
        request = kind(
            self._group,
            self._id,
            self.epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=[self._topic] if joins else None,
            topic_partitions=[kind.TopicPartitions(self._topic_id, self.owned)] if self.owned else [],
        )
        response = when_loaded(self._socket, request, 1, ConsumerGroupHeartbeatResponse)
        assert response.error_code == ErrorCode.NONE, response.error_message
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = [number for part in response.assignment.topic_partitions for number in part.partitions]

    def beat_until(self, owned: list[int], epoch: int) -> None:
        """Send heartbeats until the member owns these partitions and has reached this epoch."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.owned != owned or self.epoch < epoch:
            assert time.monotonic() < deadline, (self.owned, self.epoch)
            self.beat()

    def commit(self, epoch: int, *partitions: int, version: int = 9) -> ErrorCode:
        """Commit an offset, and return the error code, which is the same for all partitions."""
        kind = OffsetCommitRequest
        parts = [kind.OffsetCommitRequestPartition(number, 5) for number in partitions]
        topics = [kind.OffsetCommitRequestTopic(name=self._topic, partitions=parts)]
        response = call(self._socket, kind(self._group, epoch, self._id, topics=topics), version)
        assert isinstance(response, OffsetCommitResponse)
        (code,) = {part.error_code for part in response.topics[0].partitions}
        return ErrorCode(code)

    def commit_in_transaction(self, producer: InitProducerIdResponse, epoch: int, *partitions: int) -> ErrorCode:
        """Commit in a producer's transaction, and return the error code, which is the same for all partitions."""
        kind = TxnOffsetCommitRequest
        parts = [kind.TxnOffsetCommitRequestPartition(number, 6, committed_metadata="") for number in partitions]
        topics = [kind.TxnOffsetCommitRequestTopic(self._topic, parts)]
        ids = producer.producer_id, producer.producer_epoch
        response = call(self._socket, kind(self._group, self._group, *ids, epoch, self._id, topics=topics), 5)
        assert isinstance(response, TxnOffsetCommitResponse)
        (code,) = {part.error_code for part in response.topics[0].partitions}
        return ErrorCode(code)


def test_what_a_member_kept(either: Server) -> None:
    topic = f"passed-epochs-{uuid.uuid4().hex}"
    topic_id = asyncio.run(topics.create(either.bootstrap, NewTopic(topic, 2, 1)))[topic]
    host, port = either.bootstrap.rsplit(":", 1)
    with FrameSocket(host, int(port), TIMEOUT_SECONDS) as socket:
        call(socket, FindCoordinatorRequest(coordinator_keys=[topic]), 4)
        first, second = (Member(socket, topic, topic, topic_id) for _ in range(2))
        first.beat_until([0, 1], epoch=1)
        first.beat()
        passed = first.epoch
        assert first.commit(passed, 0, 1) == ErrorCode.NONE
        second.beat()
        first.beat_until([0], epoch=passed + 1)
        assert first.commit(first.epoch, 0, 1) == ErrorCode.NONE
        assert first.commit(passed, 0) == ErrorCode.NONE
        assert first.commit(passed, 1) == ErrorCode.STALE_MEMBER_EPOCH
        assert first.commit(passed, 0, 1) == ErrorCode.STALE_MEMBER_EPOCH
        assert first.commit(passed - 1, 0) == ErrorCode.STALE_MEMBER_EPOCH
        assert first.commit(first.epoch + 1, 0) == ErrorCode.STALE_MEMBER_EPOCH
        assert first.commit(first.epoch, 0, version=8) == ErrorCode.UNSUPPORTED_VERSION
        assert first.commit(first.epoch + 1, 0, version=8) == ErrorCode.UNSUPPORTED_VERSION
        second.beat_until([1], epoch=first.epoch)
        assert second.commit(second.epoch, 1) == ErrorCode.NONE
        assert second.commit(passed, 1) == ErrorCode.STALE_MEMBER_EPOCH
        producer = initialized(socket, topic)
        assert first.commit_in_transaction(producer, first.epoch, 0, 1) == ErrorCode.NONE
        assert first.commit_in_transaction(producer, passed, 0) == ErrorCode.NONE
        assert first.commit_in_transaction(producer, passed, 1) == ErrorCode.ILLEGAL_GENERATION
        assert first.commit_in_transaction(producer, passed, 0, 1) == ErrorCode.ILLEGAL_GENERATION
        assert first.commit_in_transaction(producer, passed - 1, 0) == ErrorCode.ILLEGAL_GENERATION
        assert first.commit_in_transaction(producer, first.epoch + 1, 0) == ErrorCode.ILLEGAL_GENERATION


def initialized(socket: FrameSocket, transactional_id: str) -> InitProducerIdResponse:
    """Return a new producer."""
    call(socket, FindCoordinatorRequest(key_type=CoordinatorType.TRANSACTION, coordinator_keys=[transactional_id]), 4)
    response = when_loaded(socket, InitProducerIdRequest(transactional_id, 60_000), 5, InitProducerIdResponse)
    assert response.error_code == ErrorCode.NONE
    return response


def when_loaded(socket: FrameSocket, request: Message, version: int, kind: type[Response]) -> Response:
    """Return a coordinator's response once the coordinator is available."""
    response: Any = None

    def is_loaded() -> bool:
        nonlocal response
        response = call(socket, request, version)
        return response.error_code not in _NOT_YET

    until(is_loaded, lambda: f"{type(request).__name__}: {ErrorCode(response.error_code).name}")
    assert isinstance(response, kind)
    return response
