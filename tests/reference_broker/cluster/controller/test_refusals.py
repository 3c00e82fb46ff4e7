"""An error carries the result that a client gets."""

from __future__ import annotations

from kafkawire.reference_broker.cluster.controller.refusals import ACCEPTED, Refusal, Refused, refusal_of
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


def test_an_error_has_code_and_message() -> None:
    error = Refused(ErrorCode.INVALID_PARTITIONS, "too few")
    assert str(error) == "too few"
    assert error.refusal == Refusal(ErrorCode.INVALID_PARTITIONS, "too few")
    assert Refusal(ErrorCode.NONE, None) == ACCEPTED


def test_some_codes_have_a_text() -> None:
    text = "This is not the correct controller for this cluster."
    assert refusal_of(ErrorCode.NOT_CONTROLLER) == Refusal(ErrorCode.NOT_CONTROLLER, text)
    assert refusal_of(ErrorCode.STALE_BROKER_EPOCH) == Refusal(ErrorCode.STALE_BROKER_EPOCH)
