"""DescribeQuorum says that there is no quorum, in a way that clients understand.

Method: send the requests of `admin_cases.py`, with Kafka's answers, to a broker without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.describe_quorum import DescribeQuorumRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.admin_cases import admin_cases
from tests.reference_broker.apis.asked_bench import check_admin
from tests.reference_broker.apis.asked_cases import Case, name_of
from tests.reference_broker.broker_bench import BrokerBench


@pytest.fixture
def bench() -> BrokerBench:
    """A standalone broker."""
    return BrokerBench(MemoryDisk())


@pytest.mark.parametrize("case", admin_cases(ApiKey.DESCRIBE_QUORUM), ids=name_of)
def test_answers(bench: BrokerBench, case: Case) -> None:
    check_admin(bench, case)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum(bench: BrokerBench, version: int) -> None:
    kind = DescribeQuorumRequest
    response = bench.ask(kind([kind.TopicData("__cluster_metadata", [kind.PartitionData(0)])]), version)
    assert (response.error_code, response.topics) == (ErrorCode.UNSUPPORTED_VERSION, ())
    assert (response.error_message == "This broker is not part of a KRaft quorum.") is (version >= 2)
