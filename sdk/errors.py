"""The errors that kafkawire raises.

Three families say whose fault it was: `LocalProtocolError` (this program asked for something that the protocol does not
allow), `RemoteProtocolError` (the peer broke the protocol) and `BrokerError` (a broker responded with an error code).
The others are about networks, deadlines and limits. Every text names the thing, the value and the limit; `__cause__`
is the error behind it, if there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

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


class KafkaWireError(Exception):
    """The base of every error that kafkawire raises on purpose.

    Catch it where any of them is handled alike. `retriable` says whether repeating the same call may help: a client has
    already done so, until its time limit. After a `fatal` error, close the client and create a new one.
    """

    #: Whether the same call may succeed if repeated.
    retriable = False
    #: Whether the object that raised it is no longer usable.
    fatal = False

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls the class with the finished text, which is not what most of these classes take.
        return _copied, (type(self), self.args), self.__dict__

    def again(self) -> Self:
        """Return a copy to raise, for code that keeps the error to raise it more than once.

        Each time that one exception is raised, its traceback grows, and notes and contexts of all who caught it meet.
        """
        copied = copy(self)
        if hasattr(self, "__notes__"):
            copied.__notes__ = [*self.__notes__]
        copied.__cause__, copied.__context__ = self.__cause__, self.__context__
        copied.__suppress_context__ = self.__suppress_context__  # setting the cause changed it
        return copied.with_traceback(self.__traceback__)


class LocalProtocolError(KafkaWireError):
    """This program asked for something that the protocol does not allow.

    Nothing was sent. The call is wrong: correct it, repeating it does not help.
    """


class RemoteProtocolError(KafkaWireError):
    """The peer sent something that the protocol does not allow.

    Its connection is closed. If it happens again, make sure that the address is that of a Kafka broker and that its
    listener expects neither TLS nor SASL.
    """


class EncodeError(LocalProtocolError):
    """A value cannot be written.

    It has the wrong type, or is too large for its field: correct what `path` names.

    Args:
        path: the field, for example `topics[3].partitions[0].index`; empty for the message itself.
        reason: what is wrong, with the value and the limit.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


class UnsupportedVersion(LocalProtocolError):
    """A message, a field of it, or any tagged field does not exist in the version asked for.

    From a client: the broker is older or newer than what this release supports, or cannot do what was asked. From a
    codec: choose a version that has it, or leave the field at its default.
    """


class DecodeError(RemoteProtocolError):
    """Bytes cannot be decoded.

    They are damaged, cut off, or of another format or version. In a consumer, the partition has stopped. `seek` past
    the damaged batch to lose nothing else, or `resume` the partition to try again.

    Args:
        path: the field that could not be read, for example `topics[3].partitions[0].index`.
        offset: where the encoding of that field begins, in bytes from the start of the buffer.
        reason: what is wrong, with the value and the limit.
    """

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path or 'message'} at byte {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason


class PartialBatch(DecodeError):
    """What remains is not a whole record batch: it was cut off, or the length of the batch is damaged.

    A fetch response may end like this; a file or a column may not. If the data is still being written, read it again
    later; if not, what comes before `offset` is whole and the rest is lost.

    Args:
        offset: where the partial batch begins, in bytes from the start of the buffer.
        left_bytes: how many bytes remain.
        needed_bytes: how many bytes the batch announces; None if what remains is too short to say.
    """

    def __init__(self, offset: int, left_bytes: int, needed_bytes: int | None) -> None:
        if needed_bytes is None:
            reason = f"partial batch: {left_bytes} bytes are left, too few for its length and magic number"
        else:
            beyond = needed_bytes - left_bytes
            reason = f"partial batch: {needed_bytes} bytes, {left_bytes} are left, it ends {beyond} beyond the end"
        super().__init__("batch", offset, reason)
        self.left_bytes = left_bytes
        self.needed_bytes = needed_bytes


class UnknownRecord(DecodeError):
    """A record of an internal topic has a type or a version that this release does not know.

    A newer broker may have written it. Pass over it, or use a release of kafkawire that knows it; the other records of
    the topic can be read.

    Args:
        path: "key" or "value": where what is not known was read.
        topic: where the record was.
        type: its record type; None if its frame is of a version that is not known.
        version: of its value; None if it was not read.
        reason: what is not known, with what is.
    """

    def __init__(self, path: str, topic: str, type: int | None, version: int | None, reason: str) -> None:
        super().__init__(path, 0, f"{topic}: {reason}")
        self.topic = topic
        self.type = type
        self.version = version


class BrokerError(KafkaWireError):
    """A broker responded with an error code.

    Decide by `code`, an `ErrorCode`. If the error is retriable, the client has retried until its time limit, and trying
    again later may help; if not, the request or the cluster's configuration must change.

    Args:
        code: the number on the wire; one unknown to this release becomes UNKNOWN_SERVER_ERROR, and the text keeps the
            number.
        detail: what failed, and the broker's own message if it sent one.
    """

    def __init__(self, code: int, detail: str = "") -> None:
        try:
            self.code = tables.ErrorCode(code)
        except ValueError:
            self.code = tables.ErrorCode.UNKNOWN_SERVER_ERROR
            detail = f"error code {code}, unknown to this release; {detail}".rstrip("; ")
        super().__init__(f"{self.code.name}: {detail}" if detail else self.code.name)
        self.detail = detail
        self.retriable = self.code in tables.RETRIABLE
        self.fatal = self.code in tables.FATAL


class BatchRefused(BrokerError):
    """A record was not stored because the broker refused others of its batch, which have errors of their own.

    The broker found nothing wrong with this record: send it again if later records may come before it.

    Args:
        code: what the broker said of the batch.
        detail: which records it refused, and why.
    """

    def __init__(self, code: int, detail: str = "") -> None:
        super().__init__(code, detail)
        self.retriable = True


class ProducerFenced(BrokerError):
    """A producer that began later uses the same transactional id, or the coordinator has ended the transaction itself.

    What the open transaction sent is aborted. Close the producer, and leave the work to the other one. If there is no
    other, the transaction took longer than `transaction_timeout_ms`: create a producer again, and read its input again
    from the committed offsets.

    Args:
        code: what the broker said.
        detail: which transactional id, and what failed.
    """

    def __init__(self, code: int, detail: str = "") -> None:
        super().__init__(code, detail)
        self.fatal = True


class TransactionAborted(KafkaWireError):
    """The transaction of a record was aborted, or must be: nothing of it will be read as committed.

    The cause says why, unless the application asked for it. The producer remains usable: end the transaction, begin
    another and do its work again, from the offsets that were committed last.
    """


class ConnectFailed(KafkaWireError):
    """A broker, or every one of several, could not be reached.

    The text and `__cause__` say why: check name, port, firewall, and which address the broker advertises. Clients try
    again by themselves once they are started.

    Args:
        address: what it tried to connect to.
        reason: what went wrong.
        phase: how far it came: "dns", "tcp", "tls", "versions" or "sasl"; None if that is not known.
    """

    retriable = True

    def __init__(self, address: object, reason: object, phase: str | None = None) -> None:
        super().__init__(f"cannot connect to {address}: {phase + ': ' if phase else ''}{reason}")
        self.address = str(address)
        self.phase = phase


class AuthenticationFailed(ConnectFailed):
    """A broker was reached, but refused the login, or one side refused the other's certificate.

    It is not retried, because further attempts with a wrong password may lock the user out. Correct the `sasl_` or
    `ssl_` option, or the broker's users and certificates: the text says which side refused what.
    """

    retriable = False


class ConnectionLost(KafkaWireError):
    """A connection ended while a response was pending; whether the broker acted on the request is not known.

    Repeat what may be done twice; for the rest, ask the cluster what became of it.
    """

    retriable = True


class NeverAnswered(ConnectionLost):
    """A broker told its versions, and ended the connection at the first request, as a broker that expects SASL does.

    It may also have been stopped at that moment, so clients try again. When they start, they give up if it happens
    several times in a row: set `security_protocol` and `sasl_mechanism`.
    """


class RequestTimedOut(KafkaWireError):
    """A broker did not respond in time; whether it acted on the request is not known.

    Repeat what may be done twice. If brokers are slow rather than gone, raise `request_timeout_ms`.
    """

    retriable = True


class DeliveryTimedOut(KafkaWireError):
    """Records were not acknowledged within `delivery_timeout_ms`; the cause is the last error met while sending.

    They may have been stored nevertheless, if a request was under way: send them again if duplicates do no harm.
    """


class BufferFull(KafkaWireError):
    """A record does not fit into the producer's buffer now; it was not buffered.

    Await `drain` and send it again, or use `send_many`, which waits by itself. If it happens all the time, records come
    faster than the brokers take them; a larger `buffer_memory` only helps with bursts.
    """

    retriable = True


class RecordTooLarge(LocalProtocolError):
    """A record is larger than the largest request, or than the largest response.

    Send less in one record, or raise `max_request_size`, and with it `max.message.bytes` of the topic. A consumer stops
    at a batch that is larger than its `max_frame_bytes`: raise that, or seek past the batch.
    """


class NoOffset(KafkaWireError):
    """A partition has no position to start from, and `auto_offset_reset` is "none".

    The partition has stopped. `seek` to where reading should continue, or `resume` it to look for a committed offset
    again; or choose another `auto_offset_reset`.
    """


class DeserializationFailed(KafkaWireError):
    """A deserializer of the application raised; the error's cause is what it raised.

    Nothing of the record was handed out, and the partition has stopped there. Pass the error to `Consumer.skip` to
    leave the record out; `resume` the partition to try again. The error has the record as it was fetched, for a topic
    of dead letters.

    Args:
        what: "key" or "value".
        topic: of the record.
        partition: of the record.
        offset: of the record.
        reason: what the deserializer raised.
        key: its bytes, None if the record has no key.
        value: its bytes, None if it is a tombstone.
        headers: of the record, (name, value).
        timestamp_ms: of the record, in ms since the epoch.
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
        return type(self), (self.what, self.topic, self.partition, self.offset, self.reason, *record)


class Closed(LocalProtocolError):
    """A client or connection was used before it was started or after it was closed.

    Use clients inside `async with`. A closed client is not started again: create a new one. One that could not be
    started may be.
    """


class ConfigurationError(KafkaWireError, ValueError):
    """An option cannot be used.

    Correct it: docs/options.md lists all options. It is a `ValueError`, too.

    Args:
        option: its name.
        value: what was given; the text does not show it if the name says that it may be secret.
        reason: what is wrong, with the limit.
    """

    def __init__(self, option: str, value: object, reason: str) -> None:
        super().__init__(f"{option}={shown(option, value)}: {reason}")
        self.option = option
        self.reason = reason


def _copied(cls: type[KafkaWireError], args: tuple[Any, ...]) -> KafkaWireError:
    """Return an error with the text of another, for `pickle` and `copy`, which then add its attributes."""
    return cls.__new__(cls, *args)
