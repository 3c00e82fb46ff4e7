"""Each offset in a request gets a code, and an error for the group replaces the codes of the offsets that were valid.

Method: commit offsets for a topic with two partitions and for an unknown topic.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.groups.checked_offsets import CheckedOffsets
from kafkawire.reference_broker.groups.records import NO_EXPIRY, Committed
from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION
from kafkawire.reference_broker.requests.delayed_operations import finished
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.broker_bench import BrokerBench

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
TOO_LARGE, STALE = ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.STALE_MEMBER_EPOCH
KINDS = [
    OffsetCommitRequest.OffsetCommitRequestPartition,
    TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition,
]


def codes_of(checked: CheckedOffsets, error: ErrorCode = NONE) -> list[list[ErrorCode]]:
    return [list(of_topic) for of_topic in checked.codes(error)]


@pytest.fixture
def topic(bench: BrokerBench):
    bench.create(partitions=2)
    return bench.core.metadata.image.topics["t"]


@pytest.mark.parametrize("kind", KINDS)
def test_codes(topic, kind):
    checked = CheckedOffsets(3, 1_000)
    finished(
        checked.check(topic, [kind(number, 5, 1, metadata) for number, metadata in [(1, "abc"), (0, "abcd"), (2, "")]])
    )
    finished(checked.check(None, [kind(1, 5)]))
    assert codes_of(checked) == [[NONE, TOO_LARGE, UNKNOWN], [UNKNOWN]]
    assert codes_of(checked, STALE) == [[STALE, STALE, UNKNOWN], [UNKNOWN]]
    assert checked.offsets == {("t", 1): Committed(5, 1, "abc", 1_000, ZERO_UUID, NO_EXPIRY)}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_stored(topic, kind):
    checked = CheckedOffsets(0, 1_000, with_topic_ids=True, expire_timestamp=2_000)
    finished(checked.check(topic, [kind(0, 5, 1, None)]))
    assert checked.offsets == {("t", 0): Committed(5, 1, "", 1_000, topic.topic_id, 2_000)}


def test_the_group_is_asked_about_what_it_could_know(topic):
    kind = KINDS[0]
    checked = CheckedOffsets(0, 1_000, unknown=ErrorCode.UNKNOWN_TOPIC_ID)
    assert not checked.need_the_group
    finished(checked.check(None, [kind(0)]))
    finished(checked.check(topic, [kind(-1), kind(2)]))
    assert not checked.need_the_group
    assert codes_of(checked) == [[ErrorCode.UNKNOWN_TOPIC_ID], [UNKNOWN, UNKNOWN]]
    finished(checked.check(topic, [kind(0, committed_metadata="m")]))
    assert checked.need_the_group
    assert not checked.offsets


def test_a_partition_that_the_broker_has_not_heard_of_is_unknown(topic):
    gap = topic._replace(partitions=(UNKNOWN_PARTITION, topic.partitions[1]))
    checked = CheckedOffsets(0, 1_000)
    finished(checked.check(gap, [KINDS[0](number) for number in (-1, 0, 1, 2)]))
    assert codes_of(checked) == [[UNKNOWN, UNKNOWN, NONE, UNKNOWN]]
