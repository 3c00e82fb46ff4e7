"""The outcome of an error has the error's code and its text.

Method: make outcomes.
"""

from __future__ import annotations

from kafkawire.reference_broker.groups.share.requests import NO_ERROR, Refusal
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


def test_outcomes():
    assert NO_ERROR == (ErrorCode.NONE, None)
    assert Refusal.of(BrokerError(ErrorCode.NON_EMPTY_GROUP, "why")) == (ErrorCode.NON_EMPTY_GROUP, "why")
    assert Refusal.of(BrokerError(ErrorCode.NON_EMPTY_GROUP, "")) == (ErrorCode.NON_EMPTY_GROUP, None)
