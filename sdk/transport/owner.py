"""The owner of a router and its driver, as named in their log lines and errors.

Clients use the same router and driver classes as brokers that talk to other brokers. A broker's user must not read that
"the client" has ended, and expects to find the lines in the broker's log.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

__all__ = ["CLIENT", "Owner"]


class Owner(NamedTuple):
    """The owner of a router and its driver.

    Attributes:
        name: the name that follows "the" or "this" in errors and log lines.
        logger: the logger for its connections, calls and defects.
        security_logger: the logger for rejected logins and certificates.
    """

    name: str
    logger: logging.Logger
    security_logger: logging.Logger


#: A producer, a consumer or an admin.
CLIENT: Final = Owner("client", logging.getLogger("kafkawire.client"), logging.getLogger("kafkawire.security"))
