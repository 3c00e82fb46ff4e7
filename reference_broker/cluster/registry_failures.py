"""The errors that clients get when the registry cannot do what they request.

Source: `ApiError.fromThrowable` in Apache Kafka, which treats every ZooKeeper failure as an unknown error.
"""

from __future__ import annotations

import logging

from kafkawire.reference_broker.cluster.controller.refusals import Refused
from kafkawire.sdk.errors import BrokerError, EncodeError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import RegistryCode, RegistryError

__all__ = ["broker_error"]

_log = logging.getLogger("kafkawire.broker")


def broker_error(error: Exception, action: str) -> BrokerError:
    """Return the error for a client, and log it unless the client alone can fix it.

    Args:
        error: the error raised by a sequence of steps.
        action: what failed, as in "topic t was not created".
    """
    match error:
        case BrokerError():
            return error
        case Refused():
            return BrokerError(error.refusal.error_code, error.refusal.message or "")
        case EncodeError():
            return BrokerError(ErrorCode.INVALID_REQUEST, f"The registry cannot store this value: {error}")
        case RegistryError(code=RegistryCode.REQUEST_TOO_LARGE):
            return BrokerError(ErrorCode.POLICY_VIOLATION, str(error))
        case RegistryError() | DamagedZnode():
            _log.error("%s: %s", action, error)
        case _:
            _log.error("%s", action, exc_info=error)
    return BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{error}")
