"""The version is defined once: the package, the public API and the version that clients send to brokers agree.

Method: compare all of these places.
"""

from __future__ import annotations

from importlib.metadata import version

import kafkawire
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.version import __version__


def test_one_version_everywhere() -> None:
    assert kafkawire.__version__ == __version__ == version("kafkawire")
    assert __version__.encode() in b"".join(ClientConnection().handshake().parts)
