"""The owner of a router and its driver: how their log lines and errors name it.

Clients share one router and one driver with brokers that talk to other brokers. The user of a broker must not read that
"the client" has ended, and expects the lines in the broker's log.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

__all__ = ["CLIENT", "Owner"]


class Owner(NamedTuple):
    """The owner of a router and its driver.

    Attributes:
        name: its name after "the" or "this" in errors and log lines.
        logger: of its connections and calls, and of its defects.
        security_logger: of refused logins and certificates.
    """

    name: str
    logger: logging.Logger
    security_logger: logging.Logger


#: A producer, a consumer or an admin.
CLIENT: Final = Owner("client", logging.getLogger("kafkawire.client"), logging.getLogger("kafkawire.security"))
