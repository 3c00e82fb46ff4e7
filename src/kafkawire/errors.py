"""The errors that kafkawire raises, their meanings, and how to react to them.

    try:
        raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic payments")
    except KafkaWireError as error:
        assert isinstance(error, BrokerError) and error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert not error.retriable

All errors derive from `KafkaWireError`. They can be pickled and copied; `__cause__` holds the underlying error, if any.
"""

from __future__ import annotations

from typing import Never

from kafkawire.sdk.errors import (
    AuthenticationFailed,
    BatchRefused,
    BrokerError,
    BufferFull,
    Closed,
    ConfigurationError,
    ConnectFailed,
    ConnectionLost,
    DecodeError,
    DeliveryTimedOut,
    DeserializationFailed,
    EncodeError,
    KafkaWireError,
    LocalProtocolError,
    NeverAnswered,
    NoOffset,
    PartialBatch,
    ProducerFenced,
    RecordTooLarge,
    RemoteProtocolError,
    RequestTimedOut,
    TransactionAborted,
    UnknownRecord,
    UnsupportedVersion,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = [
    "AuthenticationFailed",
    "BatchRefused",
    "BrokerError",
    "BufferFull",
    "Closed",
    "ConfigurationError",
    "ConnectFailed",
    "ConnectionLost",
    "DecodeError",
    "DeliveryTimedOut",
    "DeserializationFailed",
    "EncodeError",
    "ErrorCode",
    "KafkaWireError",
    "LocalProtocolError",
    "NeverAnswered",
    "NoOffset",
    "PartialBatch",
    "ProducerFenced",
    "RecordTooLarge",
    "RemoteProtocolError",
    "RequestTimedOut",
    "TransactionAborted",
    "UnknownRecord",
    "UnsupportedVersion",
]


def __getattr__(name: str) -> Never:
    """Raise an error that suggests kafkawire's name for another client's name."""
    from kafkawire.sdk.client.name_hints import missing  # only needed to report an error

    raise missing(__name__, name)
