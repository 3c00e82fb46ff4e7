"""An error carries the result that a client gets."""

from __future__ import annotations

from kafkawire.reference_broker.cluster.controller.refusals import ACCEPTED, Refusal, Refused
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


def test_an_error_has_code_and_message() -> None:
    error = Refused(ErrorCode.INVALID_PARTITIONS, "too few")
    assert str(error) == "too few"
    assert error.refusal == Refusal(ErrorCode.INVALID_PARTITIONS, "too few")
    assert Refusal(ErrorCode.NONE, None) == ACCEPTED
