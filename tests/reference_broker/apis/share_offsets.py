"""The requests about the offsets of share groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.sdk.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kafkawire.sdk.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kafkawire.sdk.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from kafkawire.sdk.protocol.schema import Message
from tests.reference_broker.apis.share_bench import ShareBench

__all__ = ["alter", "answered", "delete", "describe"]


def answered(bench: ShareBench, request: Message, version: int | None = None) -> Any:
    """Send a request, let the broker run its deferred work, and return the response."""
    answer = bench.ask(request, version)
    if isinstance(answer, DelayedOperation):
        bench.pass_turns()
        for _ in range(40):  # operations of the share coordinator are tried again for a few seconds
            if answer.response is None:
                bench.advance(100)
        assert answer.response is not None, "the response is still delayed"
        answer = bench.through(answer.response, 0 if version is None else version)
    return answer


def alter(bench: ShareBench, offsets: Mapping[str, Mapping[int, int]], group_id: str = "g") -> Any:
    """Move the start offsets of a group, keyed by topic and partition."""
    Topic = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
    Part = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition
    topics = [Topic(name, [Part(*part) for part in parts.items()]) for name, parts in offsets.items()]
    return answered(bench, AlterShareGroupOffsetsRequest(group_id, topics))


def delete(bench: ShareBench, *names: str, group_id: str = "g") -> Any:
    """Delete the offsets of topics."""
    Topic = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
    return answered(bench, DeleteShareGroupOffsetsRequest(group_id, [Topic(name) for name in names]))


def describe(
    bench: ShareBench, offsets: Mapping[str, Sequence[int]] | None = None, group_id: str = "g", version: int = 1
) -> Any:
    """Describe the offsets of a group: those of all its partitions, or of the given ones."""
    Group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    Topic = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic
    topics = None if offsets is None else [Topic(name, list(numbers)) for name, numbers in offsets.items()]
    (group,) = answered(bench, DescribeShareGroupOffsetsRequest([Group(group_id, topics)]), version).groups
    return group
