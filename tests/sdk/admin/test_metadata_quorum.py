"""An admin describes the KRaft quorum as a broker reports it.

Method: call a scripted broker with hand-built responses.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.quorum_values import QuorumInfo, QuorumReplica
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.wire import Address
from tests.sdk.admin.administering import administering
from tests.sdk.scripted_broker import StoringBroker

Request = messages.DescribeQuorumRequest
Response = messages.DescribeQuorumResponse

TOPIC = "__cluster_metadata"


def described(*partitions: Response.PartitionData) -> Response:
    return Response(0, None, [Response.TopicData(TOPIC, list(partitions))] if partitions else [])


def test_a_quorum() -> None:
    voters = [Response.ReplicaState(1, b"\x01" * 16, 90, 1_000, 2_000), Response.ReplicaState(2, log_end_offset=-1)]
    partition = Response.PartitionData(0, 0, None, 1, 7, 88, voters, [Response.ReplicaState(3, log_end_offset=5)])
    response = described(partition)
    response.nodes = [Response.Node(1, [Response.Listener("CONTROLLER", "host", 9093)])]

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DESCRIBE_QUORUM] = lambda request: response
        assert await admin.describe_metadata_quorum() == QuorumInfo(
            1,
            7,
            88,
            (
                QuorumReplica(1, "AQEBAQEBAQEBAQEBAQEBAQ", 90, 1_000, 2_000),
                QuorumReplica(2, None, -1, None, None),
            ),
            (QuorumReplica(3, None, 5, None, None),),
            {1: {"CONTROLLER": Address("host", 9093)}},
        )
        assert broker.asked(ApiKey.DESCRIBE_QUORUM) == [Request([Request.TopicData(TOPIC, [Request.PartitionData(0)])])]

    administering(test)


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (
            Response(ErrorCode.UNSUPPORTED_VERSION, "there is none"),
            "UNSUPPORTED_VERSION: metadata quorum: there is none",
        ),
        (
            described(Response.PartitionData(0, ErrorCode.UNKNOWN_SERVER_ERROR, None)),
            "UNKNOWN_SERVER_ERROR: metadata quorum",
        ),
    ],
)
def test_errors(response: Response, text: str) -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DESCRIBE_QUORUM] = lambda request: response
        with pytest.raises(BrokerError, match=f"^{text}$"):
            await admin.describe_metadata_quorum()

    administering(test)


@pytest.mark.parametrize("response", [described(), described(Response.PartitionData(1))])
def test_a_response_without_the_partition(response: Response) -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DESCRIBE_QUORUM] = lambda request: response
        with pytest.raises(RemoteProtocolError, match="__cluster_metadata-0"):
            await admin.describe_metadata_quorum()

    administering(test)
