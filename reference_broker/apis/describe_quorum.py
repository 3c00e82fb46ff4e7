"""DescribeQuorum: a standalone broker has no KRaft quorum.

0: flexible from the start. 1: times. 2: error texts, directories and endpoints.

A request for the quorum gets UNSUPPORTED_VERSION, after which Java's admin and its tools fail at once, as with a
cluster that is not based on KRaft. They would repeat the request if the error said that the metadata topic is not on
this broker, which is what Apache Kafka says of other topics.
"""

from __future__ import annotations

from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import CLUSTER_METADATA_TOPIC, AclOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Topic = DescribeQuorumResponse.TopicData
Partition = DescribeQuorumResponse.PartitionData

_NO_QUORUM = "This broker is not part of a KRaft quorum."
_NOT_HOSTED = "This server does not host this topic-partition."


@serves(ApiKey.DESCRIBE_QUORUM, scope=Scope.ALONE)
def handle(call: Call, request: DescribeQuorumRequest, *, authorizer: Authorizer) -> Work[DescribeQuorumResponse]:
    """Handle DescribeQuorum.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED.
    """
    require_on_cluster(authorizer, call, AclOperation.DESCRIBE, names_operation=False)
    asked = [(topic.topic_name, each.partition_index) for topic in request.topics for each in topic.partitions]
    if asked == [(CLUSTER_METADATA_TOPIC, 0)]:
        return DescribeQuorumResponse(ErrorCode.UNSUPPORTED_VERSION, _NO_QUORUM)
    topics = []
    for topic in request.topics:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partitions = [Partition(each.partition_index, code, _NOT_HOSTED) for each in topic.partitions]
        topics.append(Topic(topic.topic_name, partitions))
        yield
    return DescribeQuorumResponse(topics=topics)
