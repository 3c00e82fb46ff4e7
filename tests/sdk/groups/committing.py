"""A simulated client that commits, for tests of the state machine for commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkawire.sdk.errors import (
    BrokerError,
    KafkaWireError,
)
from kafkawire.sdk.groups.commit_outcome import Outcome
from kafkawire.sdk.groups.offsets import Offsets
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.routing.router import Router
from tests.sdk.groups.members import refusal
from tests.sdk.groups.readers import MemoryReader
from tests.sdk.simulation import Simulation, address, backoff, cluster, options

__all__ = ["T0", "T1", "T2", "Client", "Signer", "sent"]

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


class Signer:
    """A member; see `Member`."""

    def __init__(self) -> None:
        self.signature: GroupMetadata | None = GroupMetadata("g", 5, "m")
        self.rejections: list[tuple[GroupMetadata, ErrorCode]] = []
        self.failure: KafkaWireError | None = None

    def sign(self) -> GroupMetadata | None:
        return self.signature

    def rejected(self, signature: GroupMetadata, error: KafkaWireError, now_ms: int) -> None:
        assert isinstance(error, BrokerError)
        self.rejections.append((signature, error.code))


class Client:
    """A simulated client that commits."""

    def __init__(self, interval_ms: int | None = None, is_member: bool = True) -> None:
        self.router = Router(options(), backoff())
        self.reader = MemoryReader()
        self.reader.assign([T0, T1, T2])
        self.offsets = Offsets(self.router, backoff(), "g", self.reader, interval_ms, 10_000)
        self.signer = Signer()
        self.offsets.member = self.signer if is_member else None
        self.router.metadata.wanted = {"t"}
        self.simulation = Simulation(self.router, self.offsets)
        self.simulation.handlers[MetadataRequest] = cluster([1, 2], {"t": [1, 1, 1]})
        self.simulation.handlers[FindCoordinatorRequest] = lambda request, version: FindCoordinatorResponse(
            coordinators=[FindCoordinatorResponse.Coordinator("g", 2, *address(2))]
        )
        self.codes: dict[int, list[int]] = {}
        self.answer: Callable[[OffsetCommitRequest], Any] = self.by_partition
        self.simulation.handlers[OffsetCommitRequest] = lambda request, version: self.answer(request)

    def by_partition(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        """Answer for each partition with its codes, one after another, and then with success."""
        response = refusal(request, ErrorCode.NONE)
        assert isinstance(response, OffsetCommitResponse)
        for topic in response.topics:
            for partition in topic.partitions:
                codes = self.codes.get(partition.partition_index, [])
                partition.error_code = codes.pop(0) if codes else 0
        return response

    @property
    def requests(self) -> list[OffsetCommitRequest]:
        return self.simulation.requests(OffsetCommitRequest)

    def commit(self, offsets: dict[TopicPartition, int], timeout_ms: int = 5_000) -> list[Outcome | KafkaWireError]:
        outcomes: list[Outcome | KafkaWireError] = []
        given = {partition: OffsetAndMetadata(offset, "m", 3) for partition, offset in offsets.items()}
        now_ms = self.simulation.now_ms
        self.offsets.commit(given, now_ms + timeout_ms, lambda outcome, _: outcomes.append(outcome), now_ms)
        return outcomes


def sent(request: OffsetCommitRequest) -> dict[int, int]:
    return {each.partition_index: each.committed_offset for topic in request.topics for each in topic.partitions}
