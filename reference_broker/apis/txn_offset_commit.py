"""TxnOffsetCommit: commit a group's offsets with a transaction.

0: the lowest version. 1: throttle time. 2: leader epoch. 3: flexible; the member says who it is (KIP-447). 4:
TRANSACTION_ABORTABLE. 5: adds the group to the transaction (KIP-890).
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.registry import Call, serves
from kafkawire.reference_broker.delayed_operations import DelayedOperation
from kafkawire.reference_broker.groups.offsets import Partition
from kafkawire.reference_broker.groups.records import Committed
from kafkawire.reference_broker.groups.requests import Commit, TransactionalCommit
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import TXN_OFFSET_COMMIT_LAST_BEFORE_TV_2, TransactionVersion
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID

__all__ = ["handle"]

Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic

#: Partitions with these were given to the coordinator, whose error replaces them.
_CODES_OF_THE_GROUP = (ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE)

#: TRANSACTION_ABORTABLE came with KIP-890, which added no field.
_ABORTABLE_SINCE = 4


@serves(ApiKey.TXN_OFFSET_COMMIT)
def handle(call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse | DelayedOperation:
    """Handle TxnOffsetCommit."""
    offsets: dict[Partition, Committed] = {}
    codes = [_collect(call, topic, offsets) for topic in request.topics]
    if not any(code in _CODES_OF_THE_GROUP for of_topic in codes for code in of_topic):
        return _respond(request, codes, ErrorCode.NONE)
    delayed = DelayedOperation()

    def answer(outcome: BrokerError | None) -> None:
        delayed.complete(_respond(request, codes, ErrorCode.NONE if outcome is None else outcome.code))

    call.core.groups.commit_in_transaction(
        Commit(request.group_id, request.generation_id, request.member_id, request.group_instance_id),
        TransactionalCommit(request.transactional_id, request.producer_id, request.producer_epoch, _version(call)),
        offsets,
        answer,
        call.now_ms,
    )
    return delayed


def _version(call: Call) -> TransactionVersion:
    """Return what the request can do; see `TransactionCoordinator.verify`."""
    if call.version > TXN_OFFSET_COMMIT_LAST_BEFORE_TV_2:
        return TransactionVersion.TV_2
    return TransactionVersion.TV_1 if call.version >= _ABORTABLE_SINCE else TransactionVersion.TV_0


def _collect(call: Call, wanted: Topic, offsets: dict[Partition, Committed]) -> list[ErrorCode]:
    """Add the offsets of a topic that can be committed; return an error code for each partition."""
    topic = call.core.directory.topics.get(wanted.name)
    codes = []
    for partition in wanted.partitions:
        metadata = partition.committed_metadata or ""
        if topic is None or not 0 <= partition.partition_index < len(topic.logs):
            codes.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif len(metadata) > call.core.options.offset_metadata_max_bytes:
            codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
        else:
            codes.append(ErrorCode.NONE)
            offsets[wanted.name, partition.partition_index] = Committed(
                partition.committed_offset, partition.committed_leader_epoch, metadata, call.now_ms, ZERO_UUID
            )
    return codes


def _respond(
    request: TxnOffsetCommitRequest, codes: list[list[ErrorCode]], error: ErrorCode
) -> TxnOffsetCommitResponse:
    """Return the response; an error of the group replaces what could have been committed."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(
                topic.name,
                [
                    TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(
                        partition.partition_index, error if error and code in _CODES_OF_THE_GROUP else code
                    )
                    for partition, code in zip(topic.partitions, of_topic, strict=True)
                ],
            )
            for topic, of_topic in zip(request.topics, codes, strict=True)
        ]
    )
