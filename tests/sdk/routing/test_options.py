"""A router accepts the options of any owner that has the required attributes, not only a client's.

Method: check a router's first action with separate options and with the options of every client.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.client.options import AdminOptions, ConsumerOptions, ProducerOptions, read_options
from kafkawire.sdk.routing.options import RoutingOptions
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.driver_interface import Open
from tests.sdk.routing.routed import PeerOptions
from tests.sdk.simulation import backoff


def first_asked(options: RoutingOptions) -> str:
    """Return the address to which a new router connects first."""
    (action,) = Router(options, backoff()).poll(0)
    assert isinstance(action, Open)
    return str(action.link)


def test_an_owner_may_have_options_of_its_own() -> None:
    assert first_asked(PeerOptions()) == "peer:9092"


@pytest.mark.parametrize("kind", [AdminOptions, ConsumerOptions, ProducerOptions])
def test_the_options_of_every_client_will_do(kind: type[AdminOptions | ConsumerOptions | ProducerOptions]) -> None:
    assert first_asked(read_options(kind, "broker:1", {})) == "broker:1"
