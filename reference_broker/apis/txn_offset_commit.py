"""TxnOffsetCommit: commit a group's offsets as part of a transaction.

0: the lowest version. 1: throttle time. 2: leader epoch. 3: flexible; the member identifies itself (KIP-447). 4:
TRANSACTION_ABORTABLE. 5: adds the group to the transaction (KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.groups.checked_offsets import CheckedOffsets
from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.groups.requests import Commit, TransactionalCommit
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import not_authorized
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.long_requests import complete_by_work
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import (
    TXN_OFFSET_COMMIT_LAST_BEFORE_TV_2,
    AclOperation,
    ResourceType,
    TransactionVersion,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

PartitionResponse = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition

#: TRANSACTION_ABORTABLE came with KIP-890, which added no field.
_ABORTABLE_SINCE = 4


@serves(ApiKey.TXN_OFFSET_COMMIT)
def handle(
    call: Call,
    request: TxnOffsetCommitRequest,
    *,
    authorizer: Authorizer,
    groups: GroupCoordinator,
    metadata: MetadataCache,
    options: BrokerOptions,
) -> Work[TxnOffsetCommitResponse | DelayedOperation]:
    """Handle TxnOffsetCommit.

    Raises:
        BrokerError: the client may not write with the transactional id, or may not read with the group.
    """
    if not authorizer.allows(call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        raise not_authorized(ResourceType.TRANSACTIONAL_ID)
    if not authorizer.allows(call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        raise not_authorized(ResourceType.GROUP)
    checked = CheckedOffsets(options.offset_metadata_max_bytes, call.now_ms)
    for wanted in request.topics:
        if not authorizer.allows(call, AclOperation.READ, ResourceType.TOPIC, wanted.name):
            yield from checked.refuse(wanted.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            yield
            continue
        yield from checked.check(metadata.image.topics.get(wanted.name), wanted.partitions)
        yield
    if not checked.need_the_group:
        return (yield from _respond(request, checked.codes()))
    delayed = DelayedOperation()

    def answer(outcome: BrokerError | None) -> None:
        code = ErrorCode.NONE if outcome is None else outcome.code
        complete_by_work(call, delayed, _respond(request, checked.codes(code)))

    groups.commit_in_transaction(
        Commit(request.group_id, request.generation_id, request.member_id, request.group_instance_id),
        TransactionalCommit(request.transactional_id, request.producer_id, request.producer_epoch, _version(call)),
        checked.offsets,
        answer,
        call.now_ms,
    )
    return delayed


def _version(call: Call) -> TransactionVersion:
    """Return the features that the request's version implies; see `TransactionCoordinator.ensure_partitions`."""
    if call.version > TXN_OFFSET_COMMIT_LAST_BEFORE_TV_2:
        return TransactionVersion.TV_2
    return TransactionVersion.TV_1 if call.version >= _ABORTABLE_SINCE else TransactionVersion.TV_0


def _respond(request: TxnOffsetCommitRequest, codes: Iterator[Iterator[ErrorCode]]) -> Work[TxnOffsetCommitResponse]:
    topics = []
    for topic, of_topic in zip(request.topics, codes, strict=True):
        partitions: list[PartitionResponse] = []
        topics.append(TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(topic.name, partitions))
        for partition, code in zip(topic.partitions, of_topic, strict=True):
            partitions.append(PartitionResponse(partition.partition_index, code))
            yield
        yield
    return TxnOffsetCommitResponse(topics=topics)
