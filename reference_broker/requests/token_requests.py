"""Which connections may send requests about delegation tokens.

Source: `KafkaApis.allowTokenRequests` in Apache Kafka.
"""

from __future__ import annotations

from typing import Final

from kafkawire.reference_broker.metadata.principal import ANONYMOUS
from kafkawire.reference_broker.requests.peer import Peer

__all__ = ["NO_TIME", "may_send_token_requests"]

#: The protocols without a login; with TLS, a client certificate may identify the client.
_PLAINTEXT: Final = "PLAINTEXT"
_TLS: Final = "SSL"

#: The value for a time in a response that reports an error.
NO_TIME: Final = -1


def may_send_token_requests(peer: Peer) -> bool:
    """Return whether a client has authenticated itself, and not with a delegation token."""
    protocol = peer.listener.protocol
    is_unknown = protocol == _PLAINTEXT or (protocol == _TLS and peer.principal == ANONYMOUS)
    return not (peer.is_token or is_unknown)
