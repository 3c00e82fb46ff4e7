"""Heartbeat is answered in every version.

Method: send requests to a broker without sockets that has a group of one member.
"""

import pytest

from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.group_of_one import stable
from tests.reference_broker.broker_bench import versions_of


@pytest.mark.parametrize("version", versions_of(ApiKey.HEARTBEAT))
def test_every_version(bench, version):
    member = stable(bench)
    for request, code in (
        (HeartbeatRequest("g", 1, member), ErrorCode.NONE),
        (HeartbeatRequest("g", 0, member), ErrorCode.ILLEGAL_GENERATION),
        (HeartbeatRequest("g", 1, "nobody"), ErrorCode.UNKNOWN_MEMBER_ID),
        (HeartbeatRequest("none", 1, member), ErrorCode.UNKNOWN_MEMBER_ID),
        (HeartbeatRequest("", 1, member), ErrorCode.INVALID_GROUP_ID),
    ):
        assert bench.ask(request, version).error_code == code


def test_heartbeats_keep_a_member(bench):
    member = stable(bench)
    for _ in range(5):
        bench.advance(9_000)
        assert bench.ask(HeartbeatRequest("g", 1, member)).error_code == ErrorCode.NONE
    bench.advance(10_000)
    assert bench.ask(HeartbeatRequest("g", 1, member)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
