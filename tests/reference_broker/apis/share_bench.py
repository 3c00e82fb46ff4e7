"""A broker without sockets whose clients are members of share groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.sdk.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafkawire.sdk.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchRequest
from kafkawire.sdk.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation, ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import LISTENER, BrokerBench
from tests.reference_broker.storage.produced_batches import produced, values_in

__all__ = ["LOCK_MS", "Range", "ShareBench", "acquired", "values_of"]

#: The default time for which a record stays acquired.
LOCK_MS = 30_000

#: A range of offsets and its acknowledge types.
Range = tuple[int, int, Sequence[int]]

MEBIBYTE = 1024 * 1024

_OPTIONS = {
    "group_share_assignment_interval_ms": 0,
    "share_coordinator_state_topic_num_partitions": 1,
}


class ShareBench(BrokerBench):
    """A broker, and shortcuts for the requests of the members of the group `g`, which reads from its topic's start."""

    def __init__(self, data: Any, **options: object) -> None:
        super().__init__(data, **{**_OPTIONS, **options})

    @property
    def topic_id(self) -> bytes:
        """The id of the topic t."""
        return self.store.topics["t"].topic_id

    def begin_group(self, partitions: int = 1, *members: str, **configs: str) -> None:
        """Create the topic t, and let members join the group; the group's configurations are named with underscores."""
        self.create(partitions=partitions)
        self.offsets_topic()
        self.configure(**{"share_auto_offset_reset": "earliest", **configs})
        for member_id in members or ("m",):
            self.join(member_id)

    def configure(self, **configs: str) -> None:
        """Set configurations of the group."""
        Config = IncrementalAlterConfigsRequest.AlterableConfig
        given = [Config(name.replace("_", "."), AlterConfigOperation.SET, value) for name, value in configs.items()]
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(ConfigResourceType.GROUP, "g", given)
        (outcome,) = self.ask(IncrementalAlterConfigsRequest([resource])).responses
        assert not outcome.error_code, outcome.error_message

    def pass_turns(self) -> None:
        """Let the broker run its deferred work."""
        for _ in range(9):
            self.advance(0)

    def beat(self, member_id: str = "m", epoch: int = 0, *topics: str) -> Any:
        """Send a heartbeat; return the response."""
        request = ShareGroupHeartbeatRequest("g", member_id, epoch, None, list(topics) or None)
        answer = self.ask(request)
        if isinstance(answer, DelayedOperation):
            self.pass_turns()
            answer = self.through(answer.response, 1)  # type: ignore[arg-type]  # it has been answered by now
        return answer

    def join(self, member_id: str = "m") -> int:
        """Join the group and wait for an assignment; return the member's epoch."""
        told = self.beat(member_id, 0, "t")
        assert told.error_code == ErrorCode.NONE, told.error_message
        self.pass_turns()
        told = self.beat(member_id, told.member_epoch)
        assert told.error_code == ErrorCode.NONE, told.error_message
        return int(told.member_epoch)

    def fetch_later(
        self,
        epoch: int = 0,
        member_id: str = "m",
        *,
        partitions: Sequence[int] | None = None,
        acknowledged: Mapping[int, Sequence[Range]] | None = None,
        forgotten: Sequence[int] = (),
        topic_id: bytes | None = None,
        version: int | None = None,
        **fields: Any,
    ) -> Any:
        """Send ShareFetch; return the response, or a delayed operation.

        Args:
            epoch: the epoch of the session.
            member_id: the member.
            partitions: the partitions that are named; by default, partition 0 when a session is opened.
            acknowledged: what is acknowledged, keyed by partition.
            forgotten: the partitions that leave the session.
            topic_id: the id of the topic; by default, that of t.
            version: the version of the request.
            fields: other fields of the request.
        """
        acknowledged = acknowledged or {}
        if partitions is None:
            partitions = [0] if epoch == 0 else []
        Batch = ShareFetchRequest.AcknowledgementBatch
        named = [
            ShareFetchRequest.FetchPartition(
                number, [Batch(first, last, list(kinds)) for first, last, kinds in acknowledged.get(number, ())]
            )
            for number in dict.fromkeys((*partitions, *acknowledged))
        ]
        topic_id = self.topic_id if topic_id is None else topic_id
        given = {
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": 50 * MEBIBYTE,
            "max_records": 500,
            "batch_size": 500,
            **fields,
        }
        request = ShareFetchRequest("g", member_id, epoch, **given)
        request.topics = [ShareFetchRequest.FetchTopic(topic_id, named)] if named else []
        if forgotten:
            request.forgotten_topics_data = [ShareFetchRequest.ForgottenTopic(topic_id, list(forgotten))]
        return self.ask(request, version)

    def fetch(self, *args: Any, **fields: Any) -> Any:
        """Send ShareFetch, let the broker run its deferred work, and return the response."""
        answer = self.fetch_later(*args, **fields)
        if isinstance(answer, DelayedOperation):
            self.pass_turns()
            assert answer.response is not None, "the response is still delayed"
            answer = self.through(answer.response, 2)
        return answer

    def acknowledge(
        self, epoch: int, *ranges: Range, member_id: str = "m", partition: int = 0, is_renew_ack: bool = False
    ) -> Any:
        """Send ShareAcknowledge; return the response."""
        Batch = ShareAcknowledgeRequest.AcknowledgementBatch
        part = ShareAcknowledgeRequest.AcknowledgePartition(
            partition, [Batch(first, last, list(kinds)) for first, last, kinds in ranges]
        )
        topics = [ShareAcknowledgeRequest.AcknowledgeTopic(self.topic_id, [part])] if ranges else []
        answer = self.ask(ShareAcknowledgeRequest("g", member_id, epoch, is_renew_ack, topics))
        if isinstance(answer, DelayedOperation):
            self.pass_turns()
            assert answer.response is not None, "the response is still delayed"
            answer = self.through(answer.response, 2)
        return answer

    def produce_values(self, *values: bytes, partition: int = 0) -> None:
        """Produce one batch."""
        assert not self.produce(produced(*values), partition=partition).error_code

    def use_connection(self, host: str = "host") -> Peer:
        """Send later requests through a new connection; return it."""
        self.peer = Peer(LISTENER, host)
        return self.peer


def acquired(response: Any, partition: int = 0) -> list[tuple[int, int, int]]:
    """Return the acquired ranges of a partition: first offset, last offset, delivery count."""
    return [
        (part.first_offset, part.last_offset, part.delivery_count)
        for topic in response.responses
        for data in topic.partitions
        if data.partition_index == partition
        for part in data.acquired_records
    ]


def values_of(response: Any) -> list[bytes]:
    """Return the values of all records in a response."""
    return [
        value for topic in response.responses for data in topic.partitions for value in values_in(data.records or b"")
    ]
