"""A broker's refusal is raised with the missing permission or the exceeded limit, and with the original information."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow

from kafkawire.sdk.errors import BrokerError, Closed, KafkaWireError, TransactionAborted
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.spark.sink.options import WriteOptions
from kafkawire.sdk.spark.sink.refusals import Refusals


def raised(error: KafkaWireError, topic: str | None = "out", *columns: dict[str, Any]) -> KafkaWireError:
    """Return the exception that replaces an error after rows with these columns."""
    rows = [pyarrow.RecordBatch.from_pydict(each) for each in columns]
    try:
        with Refusals(WriteOptions({}, topic, False, "w"), rows) as passing:
            assert list(passing) == rows
            raise error
    except KafkaWireError as found:
        return found


@pytest.mark.parametrize(
    ("code", "topic", "advice"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "out", "the user needs Write on that topic"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "out", "the user needs Write on topic out, and before"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None, "the user needs Write on the topics of the column `topic`, and"),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "out", "Write on transactional ids that begin with w-"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "out", "the user needs Read on groups that begin with w-"),
    ],
)
def test_rights(code: ErrorCode, topic: str | None, advice: str) -> None:
    error = BrokerError(code, "what was asked")
    error.add_note("a note")
    found = raised(error, topic)
    assert isinstance(found, BrokerError)
    assert found.code is code
    assert str(found).startswith(f"{code.name}: what was asked; ")
    assert advice in str(found)
    assert found.__notes__ == ["a note"]
    assert found.__cause__ is error


def test_what_is_behind_an_error() -> None:
    """The cause says more than the producer's text, which names options that the user did not give."""
    error = KafkaWireError("enable_idempotence=True: the cluster issues no producer id")
    error.__cause__ = BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "producer id")
    assert str(raised(error)).startswith("CLUSTER_AUTHORIZATION_FAILED: producer id; the user needs Write on topic out")
    other = TransactionAborted("it was")
    other.__cause__ = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert raised(other) is other
    lone = Closed("it was")
    assert raised(lone) is lone


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ([{"value": ["abc", None]}, {"value": ["a"]}], 3),
        ([{"value": [b"a", b"bb"], "key": ["äöü", None]}], 7),
        ([{"value": [b"a", b"bb"], "key": pyarrow.nulls(2), "other": ["x" * 9] * 2}], 2),
        ([{"value": pyarrow.array([], pyarrow.string())}], 0),
        ([], 0),
    ],
)
def test_sizes(columns: list[dict[str, Any]], expected: int) -> None:
    error = raised(BrokerError(ErrorCode.MESSAGE_TOO_LARGE, "1 record for out-0"), "out", *columns)
    assert str(error) == (
        f"MESSAGE_TOO_LARGE: 1 record for out-0; the largest row of the task so far has {expected} bytes of key and "
        "value; the limit is the topic's max.message.bytes or the brokers' message.max.bytes"
    )


def test_no_error() -> None:
    with Refusals(WriteOptions({}), []) as rows:
        assert list(rows) == []
