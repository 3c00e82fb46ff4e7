"""Each broker is asked about its own log directories, and a failing broker does not affect the others.

Method: call two scripted in-memory brokers with hand-built responses. test_releases.py covers brokers that are too old.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.descriptions import LogDir, LogDirReplica, TopicPartitionReplica
from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.admin.administering import Pair

Described = messages.DescribeLogDirsResponse
Moved = messages.AlterReplicaLogDirsResponse

A0, B1 = TopicPartition("a", 0), TopicPartition("b", 1)


EMPTY = Described.DescribeLogDirsResult(0, "/d")


def described(*results: Described.DescribeLogDirsResult) -> Described:
    return Described(results=list(results))


def moved(codes: dict[TopicPartition, int]) -> Moved:
    return Moved(
        results=[
            Moved.AlterReplicaLogDirTopicResult(topic, [Moved.AlterReplicaLogDirPartitionResult(number, code)])
            for (topic, number), code in codes.items()
        ]
    )


def test_every_broker_is_asked() -> None:
    replicas = [Described.DescribeLogDirsTopic("a", [Described.DescribeLogDirsPartition(0, 70, 3, True)])]
    pair = Pair()
    pair.brokers[1].responders[ApiKey.DESCRIBE_LOG_DIRS] = lambda request: described(
        Described.DescribeLogDirsResult(0, "/d", replicas, 1000, 600, True),
        Described.DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, "/e"),
    )
    pair.brokers[2].responders[ApiKey.DESCRIBE_LOG_DIRS] = lambda request: described(EMPTY)

    async def test(admin: Admin) -> None:
        found = (await admin.describe_log_dirs()).all()
        assert found.keys() == {1, 2}
        assert found[2] == {"/d": LogDir(None, {}, None, None, False)}
        assert found[1]["/d"] == LogDir(None, {A0: LogDirReplica(70, 3, True)}, 1000, 600, True)
        offline = found[1]["/e"]
        assert str(offline.error) == "KAFKA_STORAGE_ERROR: log directories of node 1: /e"
        assert offline[1:] == ({}, None, None, False)

    pair.administering(test)
    (request,) = pair.brokers[1].asked(ApiKey.DESCRIBE_LOG_DIRS)
    assert isinstance(request, messages.DescribeLogDirsRequest)
    assert request.topics is None


@pytest.mark.usefixtures("time_skips")
@pytest.mark.parametrize("code", [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NONE], ids=["said", "empty"])
def test_a_broker_that_refuses_or_is_gone(code: ErrorCode) -> None:
    """Before version 3, a refusal has neither an error code nor directories."""
    pair = Pair()
    pair.brokers[1].responders[ApiKey.DESCRIBE_LOG_DIRS] = lambda request: described(EMPTY)
    pair.brokers[2].responders[ApiKey.DESCRIBE_LOG_DIRS] = lambda request: Described(error_code=code)

    async def test(admin: Admin) -> None:
        results = await admin.describe_log_dirs(1, 2, 9)
        assert list(results.values) == [1]
        assert list(results.errors) == [2, 9]
        assert str(results.errors[2]) == "CLUSTER_AUTHORIZATION_FAILED: log directories of node 2"
        assert "DescribeLogDirs to node 9: there was no broker to send it to" in str(results.errors[9])
        assert await admin.describe_log_dirs([]) == ({}, {})

    pair.administering(test, api_timeout_ms=200, request_timeout_ms=200, connect_timeout_ms=200)


def test_replicas_are_moved_by_their_brokers() -> None:
    on_one = [TopicPartitionReplica(*A0, 1), TopicPartitionReplica(*B1, 1)]
    on_two = TopicPartitionReplica(*A0, 2)
    pair = Pair()
    pair.brokers[1].responders[ApiKey.ALTER_REPLICA_LOG_DIRS] = lambda request: moved(
        {A0: 0, B1: ErrorCode.LOG_DIR_NOT_FOUND}
    )
    pair.brokers[2].responders[ApiKey.ALTER_REPLICA_LOG_DIRS] = lambda request: moved({A0: 0})

    async def test(admin: Admin) -> None:
        results = await admin.alter_replica_log_dirs({on_one[0]: "/d", on_two: "/d", on_one[1]: "/e"})
        assert results.values == {on_one[0]: None, on_two: None}
        assert {replica: str(error) for replica, error in results.errors.items()} == {
            on_one[1]: "LOG_DIR_NOT_FOUND: move of b-1 on node 1 to /e"
        }

    pair.administering(test)
    asked = {}
    for node_id, broker in pair.brokers.items():
        (request,) = broker.asked(ApiKey.ALTER_REPLICA_LOG_DIRS)
        assert isinstance(request, messages.AlterReplicaLogDirsRequest)
        asked[node_id] = {
            each.path: [(topic.name, list(topic.partitions)) for topic in each.topics] for each in request.dirs
        }
    assert asked == {1: {"/d": [("a", [0])], "/e": [("b", [1])]}, 2: {"/d": [("a", [0])]}}


def test_a_response_that_lacks_a_replica_is_an_error_of_its_broker() -> None:
    pair = Pair()
    pair.brokers[1].responders[ApiKey.ALTER_REPLICA_LOG_DIRS] = lambda request: moved({})
    pair.brokers[2].responders[ApiKey.ALTER_REPLICA_LOG_DIRS] = lambda request: moved({A0: 0})

    async def test(admin: Admin) -> None:
        results = await admin.alter_replica_log_dirs(
            {TopicPartitionReplica("a", 0, node_id): "/d" for node_id in (1, 2)}
        )
        assert list(results.values) == [TopicPartitionReplica("a", 0, 2)]
        (error,) = results.errors.values()
        assert isinstance(error, RemoteProtocolError)
        assert "AlterReplicaLogDirs lacks partition a-0" in str(error)

    pair.administering(test)
