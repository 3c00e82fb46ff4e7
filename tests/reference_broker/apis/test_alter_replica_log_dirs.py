"""AlterReplicaLogDirs accepts the directory that replicas are in, and has no other directory to move them to.

Method: call the handler with the replicas of a broker without sockets, one of which has failed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkawire.reference_broker.apis.alter_replica_log_dirs import handle
from kafkawire.reference_broker.requests.delayed_operations import finished
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench, versions_of

VERSIONS = versions_of(ApiKey.ALTER_REPLICA_LOG_DIRS)

Topic = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic
Place = AlterReplicaLogDirsRequest.AlterReplicaLogDir

#: The longest name of a topic whose partition 0 can be moved, and a longer name.
LONG, TOO_LONG = "l" * 213, "l" * 214


@pytest.fixture
def bench(tmp_path: Path) -> BrokerBench:
    """A broker that hosts t-0 and t-1; the second has failed."""
    bench = BrokerBench(tmp_path / "data")
    bench.create("t", 2)
    log = bench.core.directory.log("t", 1)
    assert log is not None
    log.fail(OSError(5, "broken"))
    return bench


def codes(bench: BrokerBench, version: int, *places: Place) -> dict[tuple[str, int], int]:
    received, _ = codec(AlterReplicaLogDirsRequest, version).decode(
        codec(AlterReplicaLogDirsRequest, version).encode(AlterReplicaLogDirsRequest(places))
    )
    call: Any = None
    work = handle(
        call,
        received,
        authorizer=bench.core.authorizer,
        directory=bench.core.directory,
        replicas=bench.core.replicas,
    )
    response = bench.through(finished(work), version)
    return {
        (topic.topic_name, each.partition_index): each.error_code
        for topic in response.results
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_replicas_that_are_there(bench: BrokerBench, version: int) -> None:
    here = Place(bench.core.directory.path, [Topic("t", [0, 1, 2]), Topic("none", [0]), Topic(LONG, [0])])
    assert codes(bench, version, here) == {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.KAFKA_STORAGE_ERROR,
        ("t", 2): ErrorCode.REPLICA_NOT_AVAILABLE,
        ("none", 0): ErrorCode.REPLICA_NOT_AVAILABLE,
        (LONG, 0): ErrorCode.REPLICA_NOT_AVAILABLE,
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_another_directory(bench: BrokerBench, version: int) -> None:
    there = Place("/elsewhere", [Topic("t", [0, 2]), Topic(TOO_LONG, [0]), Topic("empty", [])])
    assert codes(bench, version, there) == {
        ("t", 0): ErrorCode.LOG_DIR_NOT_FOUND,
        ("t", 2): ErrorCode.LOG_DIR_NOT_FOUND,
        (TOO_LONG, 0): ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


def test_the_last_order_counts(bench: BrokerBench) -> None:
    here, there = (Place(path, [Topic("t", [0])]) for path in (bench.core.directory.path, "/elsewhere"))
    assert codes(bench, VERSIONS[-1], here, there) == {("t", 0): ErrorCode.LOG_DIR_NOT_FOUND}
    assert codes(bench, VERSIONS[-1], there, here) == {("t", 0): ErrorCode.NONE}
