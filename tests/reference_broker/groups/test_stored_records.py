"""Records whose values hardly matter may come from any Kafka release; others may not.

Method: decode records with the bytes of a future version.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.records import encode
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord
from kafkawire.reference_broker.groups.stored_records import decode_stored
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.group_metadata import GroupMetadataKey
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_metadata import ShareGroupMetadataKey
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_topology import StreamsGroupTopologyKey
from kafkawire.sdk.protocol.schema import Message

LATER = b"\x00\x63and more"


@pytest.mark.parametrize(
    "key",
    [ConsumerGroupRegularExpressionKey("g", "t.*"), ConsumerGroupPartitionMetadataKey("g")],
)
def test_what_hardly_counts_is_kept_with_defaults(key: Message) -> None:
    stored, _ = encode(CoordinatorRecord(key, None))
    found = decode_stored(stored, LATER)
    assert found is not None
    assert found.key == key
    assert found.value is not None


@pytest.mark.parametrize(
    "key",
    [
        GroupMetadataKey("g"),
        ConsumerGroupMemberMetadataKey("g", "m"),
        ShareGroupMetadataKey("g"),
        StreamsGroupTopologyKey("g"),
    ],
)
def test_what_counts_has_to_be_known(key: Message) -> None:
    stored, _ = encode(CoordinatorRecord(key, None))
    with pytest.raises(DecodeError, match="version 99"):
        decode_stored(stored, LATER)


def test_types_that_nobody_knows_are_passed_over() -> None:
    assert decode_stored(b"\x00\x63", LATER) is None
