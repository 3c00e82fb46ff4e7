"""Requests of the members of share groups, in sequences that can be run on any broker, and comparable answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafkawire import NewTopic
from kafkawire.sdk.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kafkawire.sdk.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kafkawire.sdk.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchRequest
from kafkawire.sdk.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kafkawire.sdk.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation, ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.records import walk
from kafkawire.sdk.transport.blocking import FrameSocket
from tests.kafka import topics
from tests.kafka.cleaning import until
from tests.kafka.produced import TIMEOUT_MS, call, produce
from tests.reference_broker.storage.produced_batches import produced

__all__ = ["Range", "ShareSteps"]

#: A range of offsets and its acknowledge types.
Range = tuple[int, int, Sequence[int]]

#: Fields that differ from broker to broker.
_MASKED = {"throttle_time_ms", "node_endpoints", "unknown_tags", "leader_epoch", "client_host"}

#: The errors of a broker that is about to serve a group.
_NOT_YET = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE}

PRODUCE_VERSION = 9


class ShareSteps:
    """A connection to a broker, and the answers to its requests.

    Args:
        bootstrap: the broker's address.
        name: the name of the topic, and of the group.
        partitions: the number of partitions of the topic.
        configs: configurations of the group, named with underscores.

    Attributes:
        answers: what was asked and answered, in a comparable form.
    """

    def __init__(self, bootstrap: str, name: str, partitions: int = 1, **configs: str) -> None:
        self.name = name
        self.bootstrap = bootstrap
        host, _, port = bootstrap.rpartition(":")
        self.socket = FrameSocket(host, int(port), TIMEOUT_MS / 1000)
        self.answers: list[tuple[Any, ...]] = []
        asyncio.run(topics.create(bootstrap, NewTopic(name, partitions, 1, {"retention.ms": "-1"})))
        found = call(self.socket, MetadataRequest([MetadataRequest.MetadataRequestTopic(name=name)]), 12)
        self.topic_id = bytes(found.topics[0].topic_id)  # type: ignore[attr-defined]  # a metadata response
        self.names = {self.topic_id: name, ZERO_UUID: None, b"u" * 16: "unknown"}
        self._configure({"share_auto_offset_reset": "earliest", "share_assignment_interval_ms": "0", **configs})

        self._await_coordinator()

    def _await_coordinator(self) -> None:
        """Let the broker create the topic of the group coordinator, and wait until it serves the group."""

        def is_served() -> bool:
            found: Any = call(self.socket, FindCoordinatorRequest(coordinator_keys=[self.name]), 4)
            described: Any = call(self.socket, ShareGroupDescribeRequest([self.name]), 1)
            return not found.coordinators[0].error_code and described.groups[0].error_code not in _NOT_YET

        until(is_served, f"the group {self.name} has no coordinator")

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def _configure(self, configs: Mapping[str, str]) -> None:
        Config = IncrementalAlterConfigsRequest.AlterableConfig
        given = [Config(name.replace("_", "."), AlterConfigOperation.SET, value) for name, value in configs.items()]
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(ConfigResourceType.GROUP, self.name, given)
        answer: Any = call(self.socket, IncrementalAlterConfigsRequest([resource]), 1)
        assert not answer.responses[0].error_code, answer

    def ask(self, label: str, request: Message, version: int | None = None) -> Any:
        """Send a request; note the answer, and return it."""
        api = APIS[ApiKey(request.SCHEMA.key or 0)]
        version = api.stable_versions.last if version is None else version
        answer: Any = call(self.socket, request, version)
        self.answers.append((label, self._comparable(answer)))
        return answer

    def _comparable(self, value: Any) -> Any:
        if isinstance(value, Message):
            found = {
                field.name: self._comparable(getattr(value, field.name))
                for field in value.FIELDS
                if field.name not in _MASKED
            }
            if "records" in found:
                found["records"] = [
                    bytes(record.value or b"")
                    for batch in walk(value.records or b"")  # type: ignore[attr-defined]  # a partition
                    for record in batch.records()
                ]
            return found
        if isinstance(value, bytes | bytearray | memoryview):
            return self.names.get(bytes(value), bytes(value))
        if isinstance(value, list | tuple):
            return sorted((self._comparable(part) for part in value), key=repr)
        return value

    # Requests.

    def produce(self, *values: bytes, partition: int = 0) -> None:
        """Append one batch."""
        assert partition == 0
        assert not produce(self.socket, self.name, bytes(produced(*values)), PRODUCE_VERSION).code

    def beat(self, label: str, member_id: str, epoch: int, names: Iterable[str] | None = None, **fields: Any) -> Any:
        """Send a heartbeat."""
        request = ShareGroupHeartbeatRequest(self.name, member_id, epoch)
        request.subscribed_topic_names = None if names is None else list(names)
        for name, value in fields.items():
            setattr(request, name, value)
        return self.ask(label, request)

    def join(self, member_id: str = "m") -> int:
        """Join the group, and wait for partitions; return the member's epoch."""
        answers = list(self.answers)
        told = self.beat("", member_id, 0, [self.name])

        def has_partitions() -> bool:
            nonlocal told
            assert not told.error_code, told
            if told.assignment is None or not told.assignment.topic_partitions:
                told = self.beat("", member_id, told.member_epoch)
            return told.assignment is not None and bool(told.assignment.topic_partitions)

        until(has_partitions, lambda: f"the member has no partitions: {told}")
        self.answers = answers
        return int(told.member_epoch)

    def fetch(
        self,
        label: str,
        epoch: int,
        member_id: str = "m",
        *,
        partitions: Sequence[int] | None = None,
        acknowledged: Mapping[int, Sequence[Range]] | None = None,
        topic_id: bytes | None = None,
        version: int | None = None,
        **fields: Any,
    ) -> Any:
        """Send ShareFetch."""
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
        given = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 2**20, "max_records": 500, "batch_size": 500}
        request = ShareFetchRequest(self.name, member_id, epoch)
        for name, value in {**given, **fields}.items():
            setattr(request, name, value)
        request.topics = [ShareFetchRequest.FetchTopic(topic_id or self.topic_id, named)] if named else []
        return self.ask(label, request, version)

    def acknowledge(
        self, label: str, epoch: int, *ranges: Range, member_id: str = "m", partition: int = 0, **fields: Any
    ) -> Any:
        """Send ShareAcknowledge."""
        Batch = ShareAcknowledgeRequest.AcknowledgementBatch
        part = ShareAcknowledgeRequest.AcknowledgePartition(
            partition, [Batch(first, last, list(kinds)) for first, last, kinds in ranges]
        )
        request = ShareAcknowledgeRequest(self.name, member_id, epoch)
        request.topics = [ShareAcknowledgeRequest.AcknowledgeTopic(self.topic_id, [part])] if ranges else []
        for name, value in fields.items():
            setattr(request, name, value)
        return self.ask(label, request)

    def describe(self, label: str, *group_ids: str) -> Any:
        """Describe groups."""
        return self.ask(label, ShareGroupDescribeRequest(list(group_ids) or [self.name]))

    def describe_offsets(self, label: str, offsets: Mapping[str, Sequence[int]] | None = None) -> Any:
        """Describe offsets."""
        Group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
        Topic = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic
        named = None if offsets is None else [Topic(name, list(numbers)) for name, numbers in offsets.items()]
        return self.ask(label, DescribeShareGroupOffsetsRequest([Group(self.name, named)]))

    def alter_offsets(self, label: str, offsets: Mapping[str, Mapping[int, int]], group_id: str | None = None) -> Any:
        """Move the start offsets."""
        Topic = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
        Part = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition
        named = [Topic(name, [Part(*part) for part in parts.items()]) for name, parts in offsets.items()]
        return self.ask(label, AlterShareGroupOffsetsRequest(self.name if group_id is None else group_id, named))

    def delete_offsets(self, label: str, *names: str, group_id: str | None = None) -> Any:
        """Delete the offsets of topics."""
        Topic = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
        named = [Topic(name) for name in names]
        return self.ask(label, DeleteShareGroupOffsetsRequest(self.name if group_id is None else group_id, named))
