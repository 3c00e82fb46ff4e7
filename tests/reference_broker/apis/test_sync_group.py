"""SyncGroup passes the fields of every version to the coordinator.

Method: send requests to a broker without sockets that has a group of one member.
"""

import pytest

from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.group_of_one import join
from tests.reference_broker.broker_bench import versions_of

Assignment = SyncGroupRequest.SyncGroupRequestAssignment


def named(generation_id, member_id, *assignments):
    return SyncGroupRequest(
        "g", generation_id, member_id, protocol_type="consumer", protocol_name="range", assignments=assignments
    )


@pytest.mark.parametrize("version", versions_of(ApiKey.SYNC_GROUP))
def test_every_version(bench, version):
    member = join(bench)
    response = bench.ask(named(1, member, Assignment(member, b"mine")), version)
    assert (response.error_code, bytes(response.assignment)) == (ErrorCode.NONE, b"mine")
    shown = ("consumer", "range") if version >= 5 else (None, None)
    assert (response.protocol_type, response.protocol_name) == shown
    wrong = bench.ask(named(2, member), version)
    assert (wrong.error_code, bytes(wrong.assignment)) == (ErrorCode.ILLEGAL_GENERATION, b"")


@pytest.mark.parametrize("names", [{}, {"protocol_type": "consumer"}, {"protocol_name": "range"}])
def test_protocol_has_to_be_named(bench, names):
    member = join(bench)
    assert bench.ask(SyncGroupRequest("g", 1, member, **names), 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
