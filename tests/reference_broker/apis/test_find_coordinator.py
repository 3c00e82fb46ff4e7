"""FindCoordinator names this broker for groups in every version, and nobody for what it does not coordinate.

Method: a broker without sockets.
"""

import pytest

from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import versions_of

VERSIONS = versions_of(ApiKey.FIND_COORDINATOR)


def ask(bench, kind, version):
    if version < 4:
        return bench.ask(FindCoordinatorRequest("g", kind), version)
    (found,) = bench.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["g"]), version).coordinators
    assert found.key == "g"
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_groups(bench, version):
    found = ask(bench, CoordinatorType.GROUP, version)
    assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.NONE, 1, "broker", 9092)
    assert "__consumer_offsets" in bench.core.directory.topics


@pytest.mark.parametrize(
    ("kind", "version", "code"),
    [
        (CoordinatorType.TRANSACTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (CoordinatorType.TRANSACTION, 6, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (CoordinatorType.SHARE, 5, ErrorCode.INVALID_REQUEST),
        (CoordinatorType.SHARE, 6, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (9, 6, ErrorCode.INVALID_REQUEST),
    ],
)
def test_nobody(bench, kind, version, code):
    found = ask(bench, kind, version)
    assert (found.error_code, found.node_id, found.port) == (code, -1, -1)


def test_several_keys(bench):
    response = bench.ask(FindCoordinatorRequest(coordinator_keys=["a", "b"]), 4)
    assert [found.key for found in response.coordinators] == ["a", "b"]
