"""Errors about the leader of a partition name the leader, and its address.

Method: use a broker without sockets whose image has several brokers.
"""

from __future__ import annotations

from kafkawire.reference_broker.requests.share_leaders import NamedLeaders
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


def leaders(bench):
    request = Request(APIS[ApiKey.SHARE_FETCH], 1, 0, "client", ShareFetchRequest(), 1)
    make = ShareFetchResponse
    return NamedLeaders(bench.call(request), bench.core.replicas, make.LeaderIdAndEpoch, make.NodeEndpoint)


def test_a_leader_is_named_with_its_address(bench):
    bench.create()
    named = leaders(bench)
    assert named.leader("t", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) is None
    assert named.endpoints() == ()
    for code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
        leader = named.leader("t", 0, code)
        assert leader is not None
        assert (leader.leader_id, leader.leader_epoch) == (1, 0)
    (endpoint,) = named.endpoints()
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (1, "broker", 9092)


def test_an_unknown_leader_has_no_address(bench):
    named = leaders(bench)
    leader = named.leader("none", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert leader is not None
    assert leader.leader_id == -1
    assert named.endpoints() == ()
