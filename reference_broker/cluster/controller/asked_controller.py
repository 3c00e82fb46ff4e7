"""The controller's interface for brokers and clients; every method answers exactly once, immediately or later.

A broker that is not the controller answers with NOT_CONTROLLER. `Controller` is the implementation; handlers refer to
this interface, so that a single broker does not load a controller.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

from kafkawire.reference_broker.cluster.controller.context import ReplicaAssignment
from kafkawire.reference_broker.cluster.controller.feature_updates import FeatureUpdate
from kafkawire.reference_broker.cluster.controller.refusals import Refusal
from kafkawire.sdk.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kafkawire.sdk.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kafkawire.sdk.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from kafkawire.sdk.protocol.tables.enums import ElectionType
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["AskedController"]


@runtime_checkable  # tests check a broker's parts against the names that handlers use
class AskedController(Protocol):
    """The controller's interface for requests."""

    def alter_partitions(
        self, request: AlterPartitionRequest, version: int, done: Callable[[AlterPartitionResponse], None]
    ) -> None:
        """Change the ISRs of partitions; see `Controller.alter_partitions`."""

    def shut_down_broker(
        self, request: ControlledShutdownRequest, done: Callable[[ControlledShutdownResponse], None]
    ) -> None:
        """Move leaders away from a broker; see `Controller.shut_down_broker`."""

    def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest, done: Callable[[AllocateProducerIdsResponse], None]
    ) -> None:
        """Hand out producer ids; see `Controller.allocate_producer_ids`."""

    def elect_leaders(
        self,
        partitions: Sequence[TopicPartition] | None,
        kind: ElectionType,
        done: Callable[[Mapping[TopicPartition, int | Refusal] | Refusal], None],
    ) -> None:
        """Elect leaders; see `Controller.elect_leaders`."""

    def alter_reassignments(
        self,
        wanted: Mapping[TopicPartition, Sequence[int] | None],
        done: Callable[[Mapping[TopicPartition, Refusal] | Refusal], None],
    ) -> None:
        """Start, replace or cancel reassignments; see `Controller.alter_reassignments`."""

    def list_reassignments(
        self,
        partitions: Collection[TopicPartition] | None,
        done: Callable[[Mapping[TopicPartition, ReplicaAssignment] | Refusal], None],
    ) -> None:
        """List reassignments in progress; see `Controller.list_reassignments`."""

    def update_features(
        self,
        updates: Sequence[FeatureUpdate],
        done: Callable[[Mapping[str, Refusal] | Refusal], None],
        *,
        validate_only: bool,
    ) -> None:
        """Change the finalized features; see `Controller.update_features`."""
