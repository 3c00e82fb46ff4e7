"""Connections are counted, in all and by address."""

from kafkawire.reference_broker.network.connection_limits import ConnectionLimits


def test_in_all_and_per_address():
    limits = ConnectionLimits(3, 2)
    for _ in range(2):
        assert not limits.refusal("a")
        limits.opened("a")
    assert limits.refusal("a") == "it has 2 connections, max.connections.per.ip=2"
    assert not limits.refusal("b")
    limits.opened("b")
    for host in ("a", "b", "c"):
        assert limits.refusal(host) == "3 connections are open, max.connections=3"
    limits.closed("a")
    assert not limits.refusal("a")
    limits.closed("a")
    limits.closed("b")
    assert not limits._counts, "addresses that are gone are forgotten"
