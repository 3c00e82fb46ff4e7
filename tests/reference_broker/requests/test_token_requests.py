"""Only clients that have logged in, and not with a delegation token, may send requests about delegation tokens.

Method: send all four requests from each peer in a table to a broker without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.metadata.principal import USER, KafkaPrincipal
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.sdk.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kafkawire.sdk.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kafkawire.sdk.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkawire.sdk.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.wire import Address
from tests.reference_broker.apis.token_bench import TokenBench


@pytest.mark.parametrize(
    ("protocol", "user", "is_token", "is_allowed"),
    [
        ("PLAINTEXT", "alice", False, False),
        ("SSL", "ANONYMOUS", False, False),
        ("SSL", "alice", False, True),
        ("SSL", "alice", True, False),
        ("SASL_PLAINTEXT", "alice", False, True),
        ("SASL_PLAINTEXT", "ANONYMOUS", False, True),
        ("SASL_PLAINTEXT", "alice", True, False),
        ("SASL_SSL", "alice", False, True),
    ],
)
def test_who_may_send_requests(protocol: str, user: str, is_token: bool, is_allowed: bool) -> None:
    bench = TokenBench()
    address = Address("", 9093)
    bench.peer = Peer(Listener("L", address, address, protocol), "host")
    bench.peer.principal, bench.peer.is_token = KafkaPrincipal(USER, user), is_token
    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert (bench.ask(DescribeDelegationTokenRequest(None)).error_code == refused) is not is_allowed
    assert (bench.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1)).error_code == refused) is not is_allowed
    assert (bench.ask(RenewDelegationTokenRequest(b"x")).error_code == refused) is not is_allowed
    assert (bench.ask(ExpireDelegationTokenRequest(b"x")).error_code == refused) is not is_allowed
