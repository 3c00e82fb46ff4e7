"""The values that subscriptions are matched with come from the request and its connection.

Method: take a request from a peer about which everything is known.
"""

from __future__ import annotations

from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.reference_broker.requests.telemetry_origin import origin_of
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from tests.reference_broker.broker_bench import LISTENER, BrokerBench


def test_origin() -> None:
    bench = BrokerBench(MemoryDisk())
    peer = Peer(LISTENER, "10.0.0.7", 4711)
    peer.software_name, peer.software_version = "librdkafka", "2.5.3"
    request = Request(APIS[ApiKey.PUSH_TELEMETRY], 0, 0, "shop", None, 1)
    origin = origin_of(Call(bench.core.requests.services, request, peer, 0))
    assert origin[:5] == ("shop", "librdkafka", "2.5.3", "10.0.0.7", 4711)
    assert origin.farewells is peer.farewells
