"""RemoveRaftVoter refuses every change, since there is no quorum.

Method: send the requests of `admin_cases.py`, with Kafka's answers, to a broker without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
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


@pytest.mark.parametrize("case", admin_cases(ApiKey.REMOVE_RAFT_VOTER), ids=name_of)
def test_answers(bench: BrokerBench, case: Case) -> None:
    check_admin(bench, case)


def test_a_change(bench: BrokerBench) -> None:
    own = bench.core.metadata.image.cluster_id
    for cluster_id in (None, own):
        response = bench.ask(RemoveRaftVoterRequest(cluster_id, 7))
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert response.error_message.startswith("Cluster doesn't support removing voters because")
