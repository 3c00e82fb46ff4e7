"""Pauses double, stay within 20 % jitter, and never exceed the maximum; attempts stop when they must.

Method: check a table of failures and random numbers, derived from KIP-580; make attempts while the test sets the clock;
and read the SDK's imports from its source.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from pathlib import Path

import pytest

import kafkawire
from kafkawire.sdk.errors import (
    AuthenticationFailed,
    BrokerError,
    ConfigurationError,
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
    NoOffset,
    RequestTimedOut,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.retry import (
    Attempts,
    Backoff,
    is_connection_error,
    is_denial,
    is_refusal,
    may_pass,
    outdates_coordinator,
    outdates_metadata,
)

RETRIABLE = BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
FINAL = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
BACKOFF = Backoff(100, 1_000, lambda: 0.5)


@pytest.mark.parametrize(
    ("failures", "fraction", "expected"),
    [
        (1, 0.5, 100),
        (1, 0.0, 80),
        (1, 1.0, 120),
        (2, 0.5, 200),
        (3, 0.0, 320),
        (4, 0.5, 800),
        (5, 0.0, 1000),
        (10_000, 1.0, 1000),
    ],
)
def test_pause(failures: int, fraction: float, expected: int) -> None:
    assert Backoff(100, 1000, lambda: fraction).pause_ms(failures) == expected


def test_no_pause() -> None:
    assert Backoff(0, 0, lambda: 0.9).pause_ms(7) == 0


def test_attempts_wait_longer_until_one_succeeds() -> None:
    attempts = Attempts(BACKOFF)
    assert attempts.not_before_ms == 0
    for now_ms, expected in ((1_000, 1_100), (1_100, 1_300), (1_300, 1_700)):
        assert attempts.failed(RETRIABLE, now_ms)
        assert attempts.not_before_ms == expected
    assert (attempts.failures, attempts.last_error) == (3, RETRIABLE)
    attempts.succeeded()
    assert (attempts.failures, attempts.not_before_ms, attempts.last_error) == (0, 0, None)
    assert attempts.failed(RETRIABLE, 5_000)
    assert attempts.not_before_ms == 5_100


def test_denials_have_long_pauses_of_their_own_and_never_end() -> None:
    attempts = Attempts(BACKOFF, deadline_ms=1_001, retries=0)
    for _ in range(9):
        attempts.failed(RETRIABLE, 0)
    pauses_ms = []
    for _ in range(8):
        attempts.denied(FINAL, 5_000)
        pauses_ms.append(attempts.not_before_ms - 5_000)
    assert pauses_ms == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]
    assert (attempts.failures, attempts.last_error) == (8, FINAL)
    assert Backoff(2_000, 60_000, lambda: 0.5).after_denials().pause_ms(9) == 60_000


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), True),
        (BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED), True),
        (BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), True),
        (BrokerError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), False),
        (BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE), False),
        (AuthenticationFailed("a:1", "no"), False),
        (None, False),
    ],
)
def test_what_an_administrator_can_grant(error: KafkaWireError | None, expected: bool) -> None:
    assert is_denial(error) is expected


@pytest.mark.parametrize(
    ("attempts", "error", "goes_on"),
    [
        (Attempts(BACKOFF), RETRIABLE, True),
        (Attempts(BACKOFF), FINAL, False),
        (Attempts(BACKOFF, final={ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}), RETRIABLE, False),
        (Attempts(BACKOFF, retries=0), RETRIABLE, False),
        (Attempts(BACKOFF, retries=1), RETRIABLE, True),
        (Attempts(BACKOFF, deadline_ms=1_100), RETRIABLE, False),
        (Attempts(BACKOFF, deadline_ms=1_101), RETRIABLE, True),
    ],
)
def test_attempts_end(attempts: Attempts, error: KafkaWireError, goes_on: bool) -> None:
    assert attempts.failed(error, 1_000) is goes_on


def test_an_error_that_is_mended_counts_as_an_attempt() -> None:
    """This holds for any error, and does not change the deadline or the number of retries."""
    attempts = Attempts(BACKOFF, deadline_ms=1_350, retries=2)
    assert attempts.failed(FINAL, 1_000, is_mended=True)
    assert attempts.failed(FINAL, 1_100, is_mended=True)
    assert not attempts.are_spent
    assert not attempts.failed(FINAL, 1_200, is_mended=True)
    assert attempts.are_spent
    assert not Attempts(BACKOFF, deadline_ms=1_100).failed(FINAL, 1_000, is_mended=True)


@pytest.mark.parametrize(
    ("error", "final", "also", "expected"),
    [
        (RETRIABLE, (), (), True),
        (FINAL, (), (), False),
        (RETRIABLE, {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}, (), False),
        (RETRIABLE, {ErrorCode.NOT_COORDINATOR}, {ErrorCode.UNKNOWN_SERVER_ERROR}, True),
        (FINAL, (), {ErrorCode.GROUP_AUTHORIZATION_FAILED}, True),
        (FINAL, (), {ErrorCode.UNKNOWN_SERVER_ERROR}, False),
        (ConnectionLost("reset"), (), (), True),
        (NoOffset("none"), (), {ErrorCode.UNKNOWN_SERVER_ERROR}, False),
    ],
)
def test_what_may_pass(
    error: KafkaWireError, final: Collection[ErrorCode], also: Collection[ErrorCode], expected: bool
) -> None:
    assert may_pass(error, final, also) is expected


def test_nothing_else_reads_which_codes_are_retriable() -> None:
    """An error knows whether it is retriable; a module that needs to decide asks the error or `retry.py`."""
    package = Path(kafkawire.__file__).parent / "sdk"
    sets = {"RETRIABLE", "INVALID_METADATA"}
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if path.relative_to(package).parts[:2] != ("protocol", "tables")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if (isinstance(node, ast.ImportFrom) and sets & {alias.name for alias in node.names})
        or (isinstance(node, ast.Attribute) and node.attr in sets)
    }
    assert found == {"errors.py", "routing/retry.py"}


@pytest.mark.parametrize(
    ("error", "of_connection", "metadata", "coordinator"),
    [
        (ConnectFailed("b:1", "refused"), True, True, True),
        (ConnectionLost("reset"), True, True, True),
        (RequestTimedOut("late"), True, True, True),
        (BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER), False, True, False),
        (BrokerError(ErrorCode.UNKNOWN_TOPIC_ID), False, True, False),
        (BrokerError(ErrorCode.NOT_CONTROLLER), False, True, False),
        (BrokerError(ErrorCode.NOT_COORDINATOR), False, False, True),
        (BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE), False, False, True),
        (RETRIABLE, False, False, False),
        (FINAL, False, False, False),
        (NoOffset("none"), False, False, False),
    ],
)
def test_what_an_error_outdates(error: KafkaWireError, of_connection: bool, metadata: bool, coordinator: bool) -> None:
    assert is_connection_error(error) is of_connection
    assert outdates_metadata(error) is metadata
    assert outdates_coordinator(error) is coordinator


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (AuthenticationFailed("a:1", "no"), True),
        (ConfigurationError("ssl_cafile", "x", "no file"), True),
        (ConnectFailed("a:1", "no"), False),
        (FINAL, False),
        (None, False),
    ],
)
def test_what_must_not_be_tried_again(error: KafkaWireError | None, expected: bool) -> None:
    assert is_refusal(error) is expected
