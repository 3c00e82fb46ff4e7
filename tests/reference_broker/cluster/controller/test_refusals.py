"""A refusal is an exception that carries the result for the client."""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.cluster.controller.refusals import ACCEPTED, Refusal, Refused, refusal_of, tell_refusal
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


@pytest.mark.parametrize(
    ("code", "level", "text"),
    [
        (
            ErrorCode.STALE_BROKER_EPOCH,
            "INFO",
            "broker 2 has registered again, and rejected UpdateMetadata because",
        ),
        (ErrorCode.STALE_CONTROLLER_EPOCH, "ERROR", "broker 2 rejected UpdateMetadata with error code 11"),
    ],
    ids=["the broker had another session", "another controller"],
)
def test_what_is_logged_of_a_broker_that_refuses(
    caplog: pytest.LogCaptureFixture, code: ErrorCode, level: str, text: str
) -> None:
    caplog.set_level("INFO")
    tell_refusal(2, "UpdateMetadata", code)
    (record,) = caplog.records
    assert record.levelname == level
    assert record.getMessage().startswith(text)
