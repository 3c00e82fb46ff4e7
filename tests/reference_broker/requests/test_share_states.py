"""The common parts of requests to a share coordinator: what they name, and how outcomes are reported.

Method: use made-up requests and outcomes.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.requests.delayed_operations import finished
from kafkawire.reference_broker.requests.share_states import by_topic, named_shares, told
from kafkawire.reference_broker.shares.shard import StateRefused
from kafkawire.reference_broker.shares.share_state import SharePartitionKey
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

T, U = b"t" * 16, b"u" * 16


def named(group_id, **topics):
    data = [
        DeleteShareGroupStateRequest.DeleteStateData(
            name.encode() * 16, [DeleteShareGroupStateRequest.PartitionData(number) for number in numbers]
        )
        for name, numbers in topics.items()
    ]
    return list(finished(named_shares(group_id, data)))


def test_share_partitions_are_named():
    keys = [SharePartitionKey("g", T, 0), SharePartitionKey("g", T, 1), SharePartitionKey("g", U, 0)]
    assert named("g", t=[0, 1, 0], u=[0]) == keys
    assert (named("", t=[0]), named("g", t=[0], u=[]), named("g")) == ([], [], [])
    parts = {key: key.partition for key in keys}
    assert finished(by_topic(parts)) == {T: [0, 1], U: [0]}


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (None, (ErrorCode.NONE, None)),
        ("anything", (ErrorCode.NONE, None)),
        (StateRefused(ErrorCode.INVALID_REQUEST, "why"), (ErrorCode.INVALID_REQUEST, "why")),
        (BrokerError(ErrorCode.NOT_COORDINATOR, "why"), (ErrorCode.NOT_COORDINATOR, "Unable to act: why")),
    ],
)
def test_outcomes(outcome, expected):
    assert told(outcome, "act") == expected
