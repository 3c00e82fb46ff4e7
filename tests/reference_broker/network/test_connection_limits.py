"""Connections are counted in total and for each address."""

import pytest

from kafkawire.reference_broker.network.connection_limits import ConnectionLimits, ListenerLimits, read_overrides
from kafkawire.sdk.errors import ConfigurationError


def test_in_all_and_per_address():
    limits = ConnectionLimits(3, 2)
    for _ in range(2):
        assert not limits.refusal("a")
        limits.opened("a")
    assert limits.refusal("a") == "the address has 2 connections, and max.connections.per.ip is 2"
    assert not limits.refusal("b")
    limits.opened("b")
    assert limits.full() == "3 connections are open, and max.connections is 3"
    limits.closed("a")
    assert not limits.full()
    assert not limits.refusal("a")
    limits.closed("a")
    limits.closed("b")
    assert not limits._counts, "addresses without connections are forgotten"


def test_some_addresses_have_limits_of_their_own():
    limits = ConnectionLimits(10, 1, {"a": 2, "b": 0})
    for _ in range(2):
        assert not limits.refusal("a")
        limits.opened("a")
    assert limits.refusal("a") == "the address has 2 connections, and max.connections.per.ip.overrides is 2"
    assert limits.refusal("b") == "the address has 0 connections, and max.connections.per.ip.overrides is 0"
    assert not limits.refusal("c")


def test_limits_are_changed():
    limits = ConnectionLimits(1, 1)
    limits.opened("a")
    assert limits.full()
    limits.change(3, 2, {"b": 0})
    assert not limits.full()
    assert not limits.refusal("a")
    assert limits.refusal("b") == "the address has 0 connections, and max.connections.per.ip.overrides is 0"
    limits.change(1, 2, {})
    assert limits.full() == "1 connections are open, and max.connections is 1"
    assert not limits.refusal("b"), "it has no limit of its own any more"


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("", {}),
        ("10.0.0.1:5", {"10.0.0.1": 5}),
        (" 10.0.0.1 : 5 , name:0,", {"10.0.0.1": 5, "address of name": 0}),
        ("::1:7,[fe80::1]:8", {"::1": 7, "fe80::1": 8}),
    ],
)
def test_overrides(text, limits):
    assert read_overrides(text, lambda host: "address of name" if host == "name" else host) == limits


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:", "10.0.0.1:many", "10.0.0.1:-1", "unknown:1"])
def test_overrides_that_cannot_be(text):
    def resolve(host):
        raise OSError("the name is unknown")

    with pytest.raises(ConfigurationError, match=r"max\.connections\.per\.ip\.overrides"):
        read_overrides(text, resolve)


def test_shortage_refuses_what_the_limits_allow():
    limits = ConnectionLimits(2, 2, shortage=["", "no descriptors"].__getitem__)
    assert not limits.refusal("a")
    limits.opened("a")
    assert limits.refusal("a") == "no descriptors"


def test_shortage_depends_on_the_connections_of_all_addresses() -> None:
    limits = ConnectionLimits(9, 9, shortage=["", "", "no descriptors"].__getitem__)
    for host in ("a", "b"):
        assert not limits.refusal(host)
        limits.opened(host)
    assert limits.refusal("c") == "no descriptors"
    limits.closed("a")
    assert not limits.refusal("c")


def test_a_listener_counts_its_own_connections():
    limits = ConnectionLimits(3, 3)
    one, other = ListenerLimits("ONE", 1, limits), ListenerLimits("OTHER", 5, limits)
    one.opened("a")
    assert one.full() == "1 connections are open, and listener.name.one.max.connections is 1"
    assert not other.full()
    other.opened("b")
    other.opened("b")
    assert other.full() == "3 connections are open, and max.connections is 3"
    one.closed("a")
    assert not one.full()
    assert not other.full()
    for _ in range(3):
        one.opened("c")
    assert other.refusal("c") == "the address has 3 connections, and max.connections.per.ip is 3"


def test_who_waits_looks_again_when_there_may_be_room():
    limits = ConnectionLimits(9, 9)
    listener = ListenerLimits("ONE", 9, limits)
    listener.opened("a")
    for change in (
        lambda: listener.closed("a"),
        lambda: listener.change(5),
        lambda: limits.change(9, 9, {}),
    ):
        told = []
        listener.wait(lambda told=told: told.append(1))
        limits.wait(lambda told=told: told.append(2))
        change()
        assert told == [1, 2]
        limits.wake()
        assert told == [1, 2], "each waits again if it has to"
