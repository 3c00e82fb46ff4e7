"""AddOffsetsToTxn adds the offsets partition of a group to the transaction, in every version.

Method: send requests to a broker without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.placement import partition_of
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.transaction_of_one import Transacting
from tests.reference_broker.broker_bench import BrokerBench, versions_of

VERSIONS = versions_of(ApiKey.ADD_OFFSETS_TO_TXN)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version(bench, version):
    x = Transacting(bench)
    assert x.add_offsets(version=version) == ErrorCode.NONE
    assert [(topic.topic, list(topic.partitions)) for topic in x.describe().topics] == [("__consumer_offsets", [0])]
    x.init()
    fenced = ErrorCode.INVALID_PRODUCER_EPOCH if version < 2 else ErrorCode.PRODUCER_FENCED
    assert x.add_offsets(version=version) == fenced


@pytest.mark.parametrize("group_id", ["g", "readers", "x"])
def test_partition_is_that_of_the_group(group_id):
    x = Transacting(BrokerBench(MemoryDisk(), offsets_topic_num_partitions=50))
    assert x.add_offsets(group_id) == ErrorCode.NONE
    (topic,) = x.describe().topics
    assert list(topic.partitions) == [partition_of(group_id, 50)]


def test_the_topic_of_groups_is_created(bench):
    assert bench.ask(AddOffsetsToTxnRequest("x", 1, 0, "g")).error_code == ErrorCode.NOT_COORDINATOR
    assert "__consumer_offsets" in bench.store.topics


def test_a_failing_disk():
    bench = BrokerBench(disk := MemoryDisk())
    disk.plan = fail_at(disk.calls + 3)
    assert bench.ask(AddOffsetsToTxnRequest("x", 1, 0, "g")).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
