"""Calls from the transaction coordinator to this broker's logs and group coordinator.

Source: `KafkaApis.handleWriteTxnMarkersRequest`, `ReplicaManager.maybeSendPartitionToTransactionCoordinator` in Apache
Kafka, whose brokers send requests to each other for this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkawire.reference_broker.cluster.links import Cancel
from kafkawire.reference_broker.coordinators.shard import coordinator_error
from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.groups.requests import TransactionalCommit
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.storage.log.partition_log import Appended
from kafkawire.reference_broker.storage.producers.producers import Marker, Verification
from kafkawire.reference_broker.transactions.transaction_verification import Verifier
from kafkawire.reference_broker.work.timers import nothing
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import CONSUMER_OFFSETS_TOPIC, NO_SEQUENCE, Acks, TransactionVersion
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["verify_commit", "write_marker"]


def write_marker(
    replicas: Replicas,
    groups: GroupCoordinator,
    partition: Partition,
    marker: Marker,
    transaction_version: int,
    done: Callable[[BrokerError | None], None],
    now_ms: int,
) -> Cancel:
    """Write a marker to a partition; see `WriteMarker`. The write starts immediately."""
    name, number = partition
    replica = replicas.get(name, number)
    if replica is None:
        done(replicas.missing(name, number))
        return nothing
    if name == CONSUMER_OFFSETS_TOPIC:
        groups.complete_transaction(number, marker, transaction_version, done, now_ms)
        return nothing

    try:
        replica.check_acks(Acks.ALL)
    except BrokerError as error:
        done(error)
        return nothing

    def appended(outcome: Appended | BrokerError) -> None:
        if isinstance(outcome, BrokerError):
            done(outcome)
        else:
            replica.when_reached(outcome.last_offset + 1, done)

    replica.append_marker(marker, transaction_version, now_ms, appended)
    return nothing


def verify_commit(
    replicas: Replicas,
    verifier: Callable[[], Verifier],
    partition: Partition,
    transaction: TransactionalCommit,
    verified: Callable[[Verification | None], None],
    refused: Callable[[BrokerError], None],
    now_ms: int,
) -> None:
    """Ensure that a partition of the offsets topic is in a transaction; see `VerifyCommit`."""
    name, number = partition
    transactional_id, producer_id, epoch, version = transaction
    try:
        replica = replicas.leader(name, number)
    except BrokerError as error:
        refused(coordinator_error(error))
        return
    try:
        verification = replica.log.producers.begin_verification(
            producer_id, epoch, NO_SEQUENCE, now_ms, has_epoch_per_transaction=version >= TransactionVersion.TV_2
        )
    except BrokerError as error:
        refused(error)
        return
    if verification is None:
        verified(None)
        return

    def answered(found: Mapping[Partition, BrokerError]) -> None:
        if partition in found:
            refused(_told(found[partition]))
        else:
            verified(verification)

    verifier().ensure_partitions(transactional_id, producer_id, epoch, [partition], version, answered, now_ms)


def _told(error: BrokerError) -> BrokerError:
    """Return the error to report for a commit: clients can handle a loading coordinator, but not a network error."""
    if error.code is ErrorCode.NETWORK_EXCEPTION:
        return BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.detail)
    return error
