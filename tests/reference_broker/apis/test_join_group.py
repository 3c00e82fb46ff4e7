"""JoinGroup passes the fields of every version to the coordinator.

Method: send requests to a broker without sockets; `groups/classic/` tests the coordinator itself.
"""

import pytest

from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.group_of_one import group_in, stable
from tests.reference_broker.broker_bench import versions_of

Protocol = JoinGroupRequest.JoinGroupRequestProtocol


@pytest.fixture(autouse=True)
def _coordinator(bench):
    bench.offsets_topic()


def request(member_id="", group="g", **fields):
    return JoinGroupRequest(
        group, 10_000, 20_000, member_id, protocol_type="consumer", protocols=[Protocol("range", b"m")], **fields
    )


@pytest.mark.parametrize("version", versions_of(ApiKey.JOIN_GROUP))
def test_every_version(bench, version):
    response = bench.ask(request(), version)
    if version >= 4:
        assert (response.error_code, response.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
        assert response.member_id.startswith("client-")
        response = bench.ask(request(response.member_id), version)
    assert (response.error_code, response.generation_id, response.protocol_name) == (ErrorCode.NONE, 1, "range")
    assert response.protocol_type == ("consumer" if version >= 7 else None)
    assert response.leader == response.member_id
    assert [(member.member_id, bytes(member.metadata)) for member in response.members] == [(response.member_id, b"m")]
    member = group_in(bench).members[response.member_id]
    assert (member.client_id, member.client_host, member.session_timeout_ms) == ("client", "/host", 10_000)
    assert member.rebalance_timeout_ms == (20_000 if version >= 1 else 10_000)


@pytest.mark.parametrize("version", range(5, 10))
def test_static_members(bench, version):
    old = bench.ask(request(group_instance_id="i"), version)
    assert (old.error_code, old.members[0].group_instance_id) == (ErrorCode.NONE, "i")
    assert old.member_id.startswith("i-")


@pytest.mark.parametrize("version", range(5, 10))
def test_static_leader_that_comes_back_is_told_in_its_version_not_to_assign(bench, version):
    before = stable(bench, instance="i")
    protocols = [Protocol("range", b"subscription")]
    back = bench.ask(JoinGroupRequest("g", 10_000, 10_000, "", "i", "consumer", protocols), version)
    assert (back.error_code, back.generation_id) == (ErrorCode.NONE, 1)
    if version >= 9:
        assert (back.leader, back.skip_assignment, len(back.members)) == (back.member_id, True, 1)
    else:
        assert (back.leader, len(back.members)) == (before, 0), "the response has another leader"


@pytest.mark.parametrize("version", versions_of(ApiKey.JOIN_GROUP))
def test_errors(bench, version):
    nameless = bench.ask(request(group=""), version)
    assert nameless.error_code == ErrorCode.INVALID_GROUP_ID
    assert nameless.protocol_name == (None if version >= 7 else "")
    assert bench.ask(request("nobody"), version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_waits_for_the_others(bench):
    first = bench.ask(request(), 3)
    second = bench.ask(request(), 3)
    assert second.response is None
    bench.ask(request(first.member_id), 3)
    assert isinstance(second.response, JoinGroupResponse)
    assert second.response.generation_id == 2
