"""An error that stops a partition says how to read the partition again, in every copy of it."""

from __future__ import annotations

import pickle

import pytest

from kafkawire.sdk.consumer.stopped_partitions import stopping
from kafkawire.sdk.errors import BrokerError, DecodeError, DeserializationFailed, KafkaWireError, NoOffset
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (NoOffset("t-0 has none"), "resume(partition) or seek"),
        (BrokerError(ErrorCode.INVALID_REQUEST, "t-0"), "resume(partition) or seek"),
        (DecodeError("t-0", 7, "damaged"), "resume(partition) or seek"),
        (DeserializationFailed("value", "t", 0, 7, "no number"), "skip(error), resume(partition) or seek"),
    ],
)
def test_the_message(error: KafkaWireError, calls: str) -> None:
    expected = f"{error}; the partition is not read until {calls}"
    assert stopping(error) is error
    for each in (error, error.again(), pickle.loads(pickle.dumps(error))):
        assert type(each) is type(error)
        assert str(each) == expected
        assert vars(each) == vars(error)
