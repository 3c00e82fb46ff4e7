"""AddPartitionsToTxn adds all partitions or none; brokers may also add partitions of internal topics, and verify
partitions.

Method: send requests to a broker without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.transaction_of_one import Transacting
from tests.reference_broker.broker_bench import versions_of

VERSIONS = versions_of(ApiKey.ADD_PARTITIONS_TO_TXN)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version(bench, version):
    x = Transacting(bench)
    assert x.add(("a", 1), ("b", 0), version=version) == [ErrorCode.NONE] * 2
    state = x.describe()
    assert state.transaction_state == "Ongoing"
    assert [(topic.topic, list(topic.partitions)) for topic in state.topics] == [("a", [1]), ("b", [0])]
    (known,) = bench.core.transactions.transactions()
    assert known.client_version == (2 if version >= 4 else 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_or_none(bench, version):
    x = Transacting(bench)
    missing, other = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert x.add(("a", 0), ("none", 0), ("b", 2), version=version) == [other, missing, missing]
    internal = ErrorCode.NONE if version >= 4 else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert x.add(("__consumer_offsets", 0), version=version) == [internal]


@pytest.mark.parametrize("version", VERSIONS)
def test_fenced_producers(bench, version):
    x = Transacting(bench)
    x.init()
    fenced = ErrorCode.INVALID_PRODUCER_EPOCH if version < 2 else ErrorCode.PRODUCER_FENCED
    assert x.add(("a", 0), ("b", 0), version=version) == [fenced] * 2


def test_verification(bench):
    x = Transacting(bench)
    x.add(("a", 0))
    found = x.add(("a", 0), ("b", 0), version=5, verify=True)
    assert found == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    assert x.add(("a", 0), version=5, verify=True, producer=(99, 0)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]


def test_several_transactions(bench):
    x = Transacting(bench)
    Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
    topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic("a", [0])]
    asked = [Transaction("x", *x.producer, False, topics), Transaction("y", *x.producer, False, topics)]
    results = bench.ask(AddPartitionsToTxnRequest(asked), 5).results_by_transaction
    codes = [
        (result.transactional_id, result.topic_results[0].results_by_partition[0].partition_error_code)
        for result in results
    ]
    assert codes == [("x", ErrorCode.NONE), ("y", ErrorCode.INVALID_PRODUCER_ID_MAPPING)]
    assert bench.ask(AddPartitionsToTxnRequest([]), 5).results_by_transaction == ()


def test_a_partition_that_the_broker_has_not_heard_of_is_unknown(bench):
    x = Transacting(bench)
    topic = bench.core.metadata.image.topics["a"]
    bench.core.metadata.publish([topic._replace(partitions=(UNKNOWN_PARTITION, topic.partitions[1]))])
    missing, other = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert x.add(("a", 0), ("a", 1)) == [missing, other]
    assert x.add(("a", 1)) == [ErrorCode.NONE]
