"""The errors that kafkawire raises.

Three families of errors show where an error comes from: `LocalProtocolError` (this program asked for something that the
protocol does not allow), `RemoteProtocolError` (the peer broke the protocol) and `BrokerError` (a broker responded with
an error code). The others are about networks, deadlines and limits. Every message names the object, the value and the
limit; `__cause__` is the underlying error, if there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Protocol, Self

from kafkawire.sdk.protocol import tables
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.secret import shown

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


class _ItemOutcomes(Protocol):
    """The outcome of each item of an operation on several items: `kafkawire.ItemResults`."""

    @property
    def values(self) -> Mapping[Any, Any]:
        """The results of the items that succeeded."""
        ...

    @property
    def errors(self) -> Mapping[Any, KafkaWireError]:
        """The error of each item that failed."""
        ...


class KafkaWireError(Exception):
    """The base of every error that kafkawire raises on purpose.

    Catch it to handle all of them in the same way. `retriable` says whether repeating the call may help, although a
    client has already retried until its time limit. After a `fatal` error, close the client and create a new one.
    """

    #: Whether the call may succeed if it is repeated.
    retriable = False
    #: Whether the object that raised the error is no longer usable.
    fatal = False
    #: The outcome of every item, if this is the first error of an operation on several items; None otherwise.
    results: _ItemOutcomes | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, the class is called with the finished message, which most of these classes do not accept.
        return _copied, (type(self), self.args), self.__dict__

    def again(self) -> Self:
        """Return a copy to raise, for code that stores the error and raises it more than once.

        Each time an exception object is raised again, its traceback grows, and it accumulates the notes and contexts of
        all handlers.
        """
        copied = copy(self)
        if hasattr(self, "__notes__"):
            copied.__notes__ = [*self.__notes__]
        copied.__cause__, copied.__context__ = self.__cause__, self.__context__
        copied.__suppress_context__ = self.__suppress_context__  # setting the cause changed it
        return copied.with_traceback(self.__traceback__)


class LocalProtocolError(KafkaWireError):
    """This program asked for something that the protocol does not allow.

    Nothing was sent. Correct the call; repeating it does not help.
    """


class RemoteProtocolError(KafkaWireError):
    """The peer sent something that the protocol does not allow.

    The connection is closed. If this happens again, make sure that the address belongs to a Kafka broker and that its
    listener expects neither TLS nor SASL.
    """


class EncodeError(LocalProtocolError):
    """A value cannot be encoded.

    The value has the wrong type, or is too large for its field: correct the field in `path`.

    Args:
        path: the field, for example `topics[3].partitions[0].index`; empty for the message itself.
        reason: what is wrong, with the value and the limit.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


class UnsupportedVersion(LocalProtocolError):
    """A message, one of its fields, or any tagged field does not exist in the requested version.

    From a client: this release does not support the broker's version, or the broker does not support the operation.
    From a codec: choose a version that has the field, or leave the field at its default.
    """


class DecodeError(RemoteProtocolError):
    """Bytes cannot be decoded.

    They are damaged, truncated, or in another format or version. In a consumer, the partition has stopped: `seek` past
    the damaged batch to lose nothing else, or `resume` the partition to try again.

    Args:
        path: the field that could not be read, for example `topics[3].partitions[0].index`.
        offset: the start of that field's encoding, in bytes from the start of the buffer.
        reason: what is wrong, with the value and the limit.
    """

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path or 'message'} at byte {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason


class PartialBatch(DecodeError):
    """The remaining bytes are not a whole record batch: it was truncated, or its length field is damaged.

    A fetch response may end with a partial batch; a file or a column must not. If the data is still being written, read
    it again later; otherwise everything before `offset` is intact and the rest is lost.

    Args:
        offset: the start of the partial batch, in bytes from the start of the buffer.
        left_bytes: the number of remaining bytes.
        needed_bytes: the size given by the length field; None if too few bytes remain to read that field.
    """

    def __init__(self, offset: int, left_bytes: int, needed_bytes: int | None) -> None:
        if needed_bytes is None:
            reason = f"partial batch: {left_bytes} bytes are left, too few for its length and magic number"
        else:
            missing = needed_bytes - left_bytes
            reason = (
                f"partial batch: {needed_bytes} bytes are needed, but {left_bytes} are left, so {missing} are missing"
            )
        super().__init__("batch", offset, reason)
        self.left_bytes = left_bytes
        self.needed_bytes = needed_bytes


class UnknownRecord(DecodeError):
    """A record of an internal topic has a type or a version that this release does not know.

    A newer broker may have written it. Skip the record, or use a release of kafkawire that knows the type; the other
    records of the topic can be read.

    Args:
        path: "key" or "value", the part that is unknown.
        topic: the topic of the record.
        type: its record type; None if the version of its frame is unknown.
        version: the version of its value; None if it was not read.
        reason: what is unknown, and what is known.
    """

    def __init__(self, path: str, topic: str, type: int | None, version: int | None, reason: str) -> None:
        super().__init__(path, 0, f"{topic}: {reason}")
        self.topic = topic
        self.type = type
        self.version = version


class BrokerError(KafkaWireError):
    """A broker responded with an error code.

    Check `code`, an `ErrorCode`, to decide what to do. If the error is retriable, the client has retried until its time
    limit, and trying again later may help; if not, change the request or the cluster's configuration.

    Args:
        code: the number on the wire; a number unknown to this release becomes UNKNOWN_SERVER_ERROR, which the message
            still contains.
        detail: what failed, and the broker's own message if it sent one.
    """

    def __init__(self, code: int, detail: str = "") -> None:
        try:
            self.code = tables.ErrorCode(code)
        except ValueError:
            self.code = tables.ErrorCode.UNKNOWN_SERVER_ERROR
            detail = f"error code {code}, which this release does not know; {detail}".rstrip("; ")
        super().__init__(f"{self.code.name}: {detail}" if detail else self.code.name)
        self.detail = detail
        self.retriable = self.code in tables.RETRIABLE
        self.fatal = self.code in tables.FATAL


class BatchRefused(BrokerError):
    """A record was not stored because the broker rejected other records in its batch, which have their own errors.

    The broker found nothing wrong with this record: send it again if later records may be stored before it.

    Args:
        code: the broker's error code for the batch.
        detail: the rejected records and the reasons.
    """

    def __init__(self, code: int, detail: str = "") -> None:
        super().__init__(code, detail)
        self.retriable = True


class ProducerFenced(BrokerError):
    """A newer producer uses the same transactional id, or the coordinator has ended the transaction.

    The open transaction is aborted. Close this producer, and leave the work to the newer one. If there is none, the
    transaction took longer than `transaction_timeout_ms`: create a new producer, and read its input again from the
    committed offsets.

    Args:
        code: the broker's error code.
        detail: the transactional id, and what failed.
    """

    def __init__(self, code: int, detail: str = "") -> None:
        super().__init__(code, detail)
        self.fatal = True


class TransactionAborted(KafkaWireError):
    """The transaction of a record was aborted, or must be; none of its records will be read as committed.

    The cause says why, unless the application aborted it. The producer remains usable: end the transaction, begin
    another one and repeat the work from the last committed offsets.
    """


class ConnectFailed(KafkaWireError):
    """A broker could not be reached, or none of several brokers could be reached.

    The message and `__cause__` say why: check the name, the port, the firewall and the address that the broker
    advertises. Clients that have started try again automatically. If none of several brokers could be reached, the
    message has the reason of each, and the cause is the last of them.

    Args:
        address: the address of the attempt; those of several brokers are separated by commas.
        reason: what went wrong.
        phase: the phase that failed: "dns", "tcp", "tls", "versions" or "sasl"; None if unknown, or if several brokers
            failed in different phases.
    """

    retriable = True

    def __init__(self, address: object, reason: object, phase: str | None = None) -> None:
        super().__init__(f"cannot connect to {address}: {phase + ': ' if phase else ''}{reason}")
        self.address = str(address)
        self.phase = phase


class AuthenticationFailed(ConnectFailed):
    """A broker was reached, but rejected the login, or one side rejected the other's certificate.

    `start` does not try again. A running client does, after pauses of up to half a minute, because many attempts with a
    wrong password may lock the user out. Correct the `sasl_` or `ssl_` option, or the broker's users and certificates:
    the message says which side rejected what.
    """

    retriable = False


class ConnectionLost(KafkaWireError):
    """A connection ended while a response was pending; it is unknown whether the broker acted on the request.

    Repeat operations that are safe to do twice; for others, check the outcome in the cluster.
    """

    retriable = True


class NeverAnswered(ConnectionLost):
    """A broker sent its versions but closed the connection at the first request, as a broker that expects SASL does.

    The broker may also have stopped at that moment, so clients try again. `start` gives up if it happens repeatedly:
    set `security_protocol` and `sasl_mechanism`.
    """


class RequestTimedOut(KafkaWireError):
    """A broker did not respond in time; it is unknown whether it acted on the request.

    Repeat operations that are safe to do twice. If brokers are slow rather than unreachable, raise
    `request_timeout_ms`.
    """

    retriable = True


class DeliveryTimedOut(KafkaWireError):
    """Records were not acknowledged within `delivery_timeout_ms`; the cause is the last error during sending.

    They may still have been stored, if a request was in flight: send them again if duplicates are harmless.
    """


class BufferFull(KafkaWireError):
    """The producer's buffer has no room for a record at the moment; the record was not buffered.

    Await `drain` and send it again, or use `send_many`, which waits automatically. If this happens constantly, records
    are sent faster than the brokers store them; a larger `buffer_memory` helps only with bursts.
    """

    retriable = True


class RecordTooLarge(LocalProtocolError):
    """A record does not fit into the largest request or the largest response.

    Send smaller records, or raise `max_request_size` together with the topic's `max.message.bytes`. A consumer stops
    at a batch that is larger than its `max_frame_bytes`: raise that, or seek past the batch.
    """


class NoOffset(KafkaWireError):
    """A partition has no position to start from, and `auto_offset_reset` is "none".

    The partition has stopped. `seek` to where reading should continue, `resume` the partition to look for a committed
    offset again, or choose another `auto_offset_reset`.
    """


class DeserializationFailed(KafkaWireError):
    """One of the application's deserializers raised an error, which is the cause of this one.

    The record was not delivered, and the partition has stopped at it. Pass the error to `Consumer.skip` to skip the
    record; `resume` the partition to try again. The error contains the record as it was fetched, for use in a dead
    letter topic.

    Args:
        what: "key" or "value".
        topic: the record's topic.
        partition: the record's partition.
        offset: the record's offset.
        reason: the deserializer's error.
        key: the bytes of the key; None if the record has no key.
        value: the bytes of the value; None for a tombstone.
        headers: the record's headers, (name, value).
        timestamp_ms: the record's timestamp, in ms since the epoch.
    """

    def __init__(
        self,
        what: str,
        topic: str,
        partition: int,
        offset: int,
        reason: object,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int = -1,
    ) -> None:
        super().__init__(f"the {what} of the record at offset {offset} of {topic}-{partition}: {quoted(reason, 200)}")
        self.what = what
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.reason = reason
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp_ms = timestamp_ms

    def __reduce__(self) -> tuple[object, ...]:
        record = self.key, self.value, self.headers, self.timestamp_ms
        arguments = self.what, self.topic, self.partition, self.offset, self.reason, *record
        return type(self), arguments, {"args": self.args}  # the consumer has extended the message


class Closed(LocalProtocolError):
    """A client or connection was used before it was started or after it was closed.

    Use clients inside `async with`. A closed client cannot be started again: create a new one. A client that failed to
    start can be started again.
    """


class ConfigurationError(KafkaWireError, ValueError):
    """An option cannot be used.

    docs/options.md lists all options. This error is also a `ValueError`.

    Args:
        option: the option's name.
        value: the given value; the message does not show it if the option's name suggests that it is secret.
        reason: what is wrong, with the limit.
    """

    def __init__(self, option: str, value: object, reason: str) -> None:
        super().__init__(f"{option}={shown(option, value)}: {reason}")
        self.option = option
        self.reason = reason

    @classmethod
    def joined(cls, errors: Sequence[ConfigurationError]) -> ConfigurationError:
        """Return one error with the messages of several, a line each, and the option and the reason of the first."""
        first = errors[0]
        first.args = ("\n".join(map(str, errors)),)
        return first


def _copied(cls: type[KafkaWireError], args: tuple[Any, ...]) -> KafkaWireError:
    """Return an error with another error's message, for `pickle` and `copy`, which then add the attributes."""
    return cls.__new__(cls, *args)
