"""A connection to ZooKeeper is secured by its settings, which are shown without the password."""

from __future__ import annotations

from kafkawire.sdk.registry.login import SaslDigest
from kafkawire.sdk.registry.zookeeper_security import OPEN_CONNECTION, ZooKeeperSecurity
from kafkawire.sdk.secret import Secret


def test_a_connection_is_open_unless_something_is_given() -> None:
    assert ZooKeeperSecurity() == OPEN_CONNECTION == (None, None, False)


def test_a_password_is_not_shown() -> None:
    shown = repr(ZooKeeperSecurity(sasl=SaslDigest("alice", Secret("swordfish")), has_identity=True))
    assert "alice" in shown
    assert "swordfish" not in shown
