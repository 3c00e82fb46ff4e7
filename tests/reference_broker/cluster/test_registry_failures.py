"""Each failure of the registry becomes an error that clients understand; failures that need an operator are logged.

Method: convert each kind of error that a sequence of steps raises.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.cluster.controller.refusals import Refused
from kafkawire.reference_broker.cluster.registry_failures import broker_error
from kafkawire.sdk.errors import BrokerError, EncodeError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import RegistryCode, RegistryError

#: name: the error, the code for the client, whether it is logged
ERRORS: dict[str, tuple[Exception, ErrorCode, bool]] = {
    "own": (BrokerError(ErrorCode.INVALID_CONFIG, "no"), ErrorCode.INVALID_CONFIG, False),
    "refused": (Refused(ErrorCode.TOPIC_ALREADY_EXISTS, "no"), ErrorCode.TOPIC_ALREADY_EXISTS, False),
    "not encoded": (EncodeError("config.a", "no"), ErrorCode.INVALID_REQUEST, False),
    "too large": (RegistryError(RegistryCode.REQUEST_TOO_LARGE, "/a", "no"), ErrorCode.POLICY_VIOLATION, False),
    "expired": (RegistryError(RegistryCode.SESSION_EXPIRED, "/a", "no"), ErrorCode.UNKNOWN_SERVER_ERROR, True),
    "not allowed": (RegistryError(RegistryCode.NO_AUTH, "/a", "no"), ErrorCode.UNKNOWN_SERVER_ERROR, True),
    "damaged": (DamagedZnode("/a", "", "no"), ErrorCode.UNKNOWN_SERVER_ERROR, True),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error(name: str, caplog: pytest.LogCaptureFixture) -> None:
    raised, code, is_logged = ERRORS[name]
    error = broker_error(raised, "topic t is not created")
    assert (error.code, "no" in (error.detail or "")) == (code, True)
    assert ("topic t is not created" in caplog.text) is is_logged


@pytest.mark.defect
def test_a_defect_is_logged_with_its_traceback() -> None:
    assert broker_error(ValueError("no"), "topic t is not created").code is ErrorCode.UNKNOWN_SERVER_ERROR
