"""The error codes in a coordinator's response."""

from __future__ import annotations

from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitResponse
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchResponse
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["error_codes"]


def error_codes(answer: Message) -> set[int]:
    """Return the error codes in a response, including those in its parts."""
    match answer:
        case AddPartitionsToTxnResponse():
            return {
                part.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for part in topic.results_by_partition
            }
        case TxnOffsetCommitResponse() | OffsetCommitResponse():
            return {part.error_code for topic in answer.topics for part in topic.partitions}
        case OffsetFetchResponse():
            parts = {part.error_code for group in answer.groups for topic in group.topics for part in topic.partitions}
            return {group.error_code for group in answer.groups} - {ErrorCode.NONE} or parts
        case _:
            return {answer.error_code}  # type: ignore[attr-defined]  # the others have one for all
