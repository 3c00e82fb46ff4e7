"""The text form of a peer contains everything that is known about it, and its loss is reported once."""

from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.requests.peer import ANONYMOUS, Peer
from kafkawire.sdk.transport.wire import Address

LISTENER = Listener("INTERNAL", Address("", 9092), Address("broker", 9092))


def test_shown_for_the_log():
    peer = Peer(LISTENER, "10.0.0.7")
    assert (peer.host, peer.principal, peer.is_token) == ("/10.0.0.7", ANONYMOUS, False)
    assert str(peer) == "User:ANONYMOUS at /10.0.0.7 on INTERNAL"
    peer.software_name, peer.software_version = "kafkawire", "1.0"
    assert str(peer) == "User:ANONYMOUS at /10.0.0.7 (kafkawire 1.0) on INTERNAL"


def test_a_lost_connection_is_told_once():
    told = []
    peer = Peer(LISTENER, "10.0.0.7", 5000)
    assert peer.port == 5000
    peer.farewells["a"] = lambda: told.append("replaced")
    peer.farewells["a"] = lambda: told.append("a")
    peer.farewells["b"] = lambda: told.append("b")
    peer.lost()
    peer.lost()
    assert told == ["a", "b"]
