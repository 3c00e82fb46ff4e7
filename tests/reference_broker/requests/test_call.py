"""A call contains the data of one request, and the parts of the broker that all requests share."""

from kafkawire.reference_broker.requests.call import Call
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey


def test_calls_are_not_throttled_unless_somebody_says_so(bench):
    request = Request(APIS[ApiKey.METADATA], 12, 0, None, None, 10)
    call = Call(bench.core.requests.services, request, bench.peer, 5)
    assert (call.client_id, call.now_ms, call.throttle_ms) == ("", 5, 0)


def test_what_is_shared_is_the_brokers(bench):
    request = Request(APIS[ApiKey.METADATA], 12, 0, "client", None, 10)
    call = Call(bench.core.requests.services, request, bench.peer, 5)
    assert call.timers is bench.core.timers
    assert (call.client_id, call.version, call.client_host) == ("client", 12, bench.peer.host)
