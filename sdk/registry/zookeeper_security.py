"""How to secure a connection to ZooKeeper, as read from the options and their files."""

from __future__ import annotations

import ssl
from typing import Final, NamedTuple

from kafkawire.sdk.registry.login import SaslDigest

__all__ = ["OPEN_CONNECTION", "ZooKeeperSecurity"]


class ZooKeeperSecurity(NamedTuple):
    """How to secure a connection to ZooKeeper.

    Attributes:
        tls: the TLS configuration; None for a connection without TLS.
        sasl: the SASL login; None if there is none.
        has_identity: whether the servers can identify the program by its login or by its certificate.
    """

    tls: ssl.SSLContext | None = None
    sasl: SaslDigest | None = None
    has_identity: bool = False


#: Without TLS and without a login.
OPEN_CONNECTION: Final = ZooKeeperSecurity()
