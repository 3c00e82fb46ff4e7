"""How a connection to a ZooKeeper is secured, once the options and their files were read."""

from __future__ import annotations

import ssl
from typing import Final, NamedTuple

from kafkawire.sdk.registry.login import SaslDigest

__all__ = ["OPEN_CONNECTION", "ZooKeeperSecurity"]


class ZooKeeperSecurity(NamedTuple):
    """How a connection to a ZooKeeper is made.

    Attributes:
        tls: the configuration of TLS; None for a connection without it.
        sasl: the login; None for none.
        has_identity: whether the servers know who the program is: by its login, or by its certificate.
    """

    tls: ssl.SSLContext | None = None
    sasl: SaslDigest | None = None
    has_identity: bool = False


#: Without TLS and without a login.
OPEN_CONNECTION: Final = ZooKeeperSecurity()
