"""The options of producers, consumers and admins: names, defaults, ranges.

Options are snake_case keywords. The dotted names of Kafka's documentation are accepted through `KAFKA_NAMES`; an
unknown name is refused with the nearest match, a value out of range with its limit. Defaults are Kafka's, apart from
`batch_size`.

Source: Apache Kafka, `CommonClientConfigs`, `ProducerConfig`, `ConsumerConfig`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar, cast

from kafkawire.sdk.client.partitioner import Partitioner
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.frames import MAX_FRAME_BYTES
from kafkawire.sdk.records import Compression
from kafkawire.sdk.transport.wire import Address, addresses

__all__ = [
    "KAFKA_NAMES",
    "AdminOptions",
    "ClientOptions",
    "ConsumerOptions",
    "ProducerOptions",
    "read_options",
]


#: Dotted names of Kafka's documentation, and what they are called here.
KAFKA_NAMES: Final[Mapping[str, str]] = {
    "acks": "acks",
    "auto.commit.interval.ms": "auto_commit_interval_ms",
    "auto.offset.reset": "auto_offset_reset",
    "batch.size": "batch_size",
    "bootstrap.servers": "bootstrap_servers",
    "buffer.memory": "buffer_memory",
    "check.crcs": "check_crcs",
    "client.id": "client_id",
    "compression.type": "compression",
    "default.api.timeout.ms": "api_timeout_ms",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "enable.auto.commit": "enable_auto_commit",
    "fetch.max.bytes": "fetch_max_bytes",
    "fetch.max.wait.ms": "fetch_max_wait_ms",
    "fetch.min.bytes": "fetch_min_bytes",
    "group.id": "group_id",
    "group.instance.id": "group_instance_id",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "linger.ms": "linger_ms",
    "max.in.flight.requests.per.connection": "max_in_flight",
    "max.partition.fetch.bytes": "max_partition_fetch_bytes",
    "max.poll.interval.ms": "max_poll_interval_ms",
    "max.poll.records": "max_poll_records",
    "max.request.size": "max_request_size",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "partition.assignment.strategy": "assignors",
    "partitioner.class": "partitioner",
    "request.timeout.ms": "request_timeout_ms",
    "retries": "retries",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "session.timeout.ms": "session_timeout_ms",
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
}

_INT32_MAX = 2**31 - 1
_ALL_REPLICAS = -1


def _number(default: int, low: int, high: int = _INT32_MAX) -> int:
    """Declare an integer option from `low` to `high`, both included."""
    return field(default=default, metadata={"low": low, "high": high})


def _choice(default: str, *values: str) -> str:
    """Declare an option with a few possible values."""
    return field(default=default, metadata={"values": values})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What every client takes.

    Attributes:
        bootstrap_servers: brokers to ask first, `host:port,host:port`.
        client_id: the name that brokers log and count quotas by.
        request_timeout_ms: for each answer of a broker.
        connect_timeout_ms: for reaching a broker.
        api_timeout_ms: for a call as a whole, its retries included.
        retry_backoff_ms: pause before the first retry; it doubles for each one, up to `retry_backoff_max_ms`.
        retry_backoff_max_ms: longest pause between retries.
        metadata_max_age_ms: after this, brokers and partitions are asked for again.
        max_frame_bytes: largest answer that is accepted.
    """

    bootstrap_servers: tuple[Address, ...]
    client_id: str = "kafkawire"
    request_timeout_ms: int = _number(30_000, 1)
    connect_timeout_ms: int = _number(10_000, 1)
    api_timeout_ms: int = _number(60_000, 1)
    retry_backoff_ms: int = _number(100, 0)
    retry_backoff_max_ms: int = _number(1_000, 0)
    metadata_max_age_ms: int = _number(300_000, 100)
    max_frame_bytes: int = _number(MAX_FRAME_BYTES, 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminOptions(ClientOptions):
    """What an admin takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions(ClientOptions):
    """What a producer takes.

    Attributes:
        acks: who must have the records before they count as delivered: "all" replicas in sync, 1 for the leader, 0 for
            nobody.
        linger_ms: how long an unfilled batch waits for more records.
        batch_size: bytes of a batch before compression. Kafka's default of 16 KiB halves the throughput measured here.
        buffer_memory: bytes of all records that are not acknowledged yet; above it `send` raises `BufferFull`.
        compression: of batches: "none", "gzip", "snappy", "lz4", "zstd".
        max_request_size: bytes of the largest record batch.
        retries: how often a batch is sent again, within `delivery_timeout_ms`.
        delivery_timeout_ms: from `send` until the acknowledgement.
        max_in_flight: produce requests on one connection that wait for their answer. Above 1, a batch that failed for a
            passing reason may be stored after a later one of the same partition that did not.
        partitioner: for records with a key; None for Kafka's own. Records without one stay on a partition for a batch.
    """

    acks: int = _ALL_REPLICAS
    linger_ms: int = _number(5, 0)
    batch_size: int = _number(128 * 1024, 128, 16 * 1024 * 1024)
    buffer_memory: int = _number(32 * 1024 * 1024, 1024, 2**62)
    compression: Compression = Compression.NONE
    max_request_size: int = _number(1024 * 1024, 1024)
    retries: int = _number(_INT32_MAX, 0)
    delivery_timeout_ms: int = _number(120_000, 1)
    max_in_flight: int = _number(5, 1, 1000)
    partitioner: Partitioner | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions(ClientOptions):
    """What a consumer takes.

    Attributes:
        group_id: the group that shares the topics and keeps the positions; None to read alone.
        group_instance_id: a name that stays the same over restarts, for static membership.
        auto_offset_reset: where to start without a position: "latest", "earliest", or "none" to raise.
        enable_auto_commit: commit what was handed out, every `auto_commit_interval_ms`, on rebalances and on close.
        auto_commit_interval_ms: see above.
        assignors: names of the strategies that this member can use, the preferred one first.
        session_timeout_ms: a member that was not heard of for so long is taken for dead.
        heartbeat_interval_ms: how often the member is heard of.
        max_poll_interval_ms: longest time between two reads of the application before the member leaves its group.
        max_poll_records: most records of one `getmany`.
        fetch_min_bytes: a broker answers a fetch when it has so much, or after `fetch_max_wait_ms`.
        fetch_max_wait_ms: see above.
        fetch_max_bytes: most bytes of one fetch; also of what is fetched ahead.
        max_partition_fetch_bytes: most bytes of one partition in one fetch.
        check_crcs: whether checksums of batches are verified.
    """

    group_id: str | None = None
    group_instance_id: str | None = None
    auto_offset_reset: str = _choice("latest", "latest", "earliest", "none")
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = _number(5_000, 1)
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")
    session_timeout_ms: int = _number(45_000, 1)
    heartbeat_interval_ms: int = _number(3_000, 1)
    max_poll_interval_ms: int = _number(300_000, 1)
    max_poll_records: int = _number(500, 1)
    fetch_min_bytes: int = _number(1, 0)
    fetch_max_wait_ms: int = _number(500, 0)
    fetch_max_bytes: int = _number(50 * 1024 * 1024, 1)
    max_partition_fetch_bytes: int = _number(1024 * 1024, 1)
    check_crcs: bool = True


Options = TypeVar("Options", bound=ClientOptions)


def read_options(
    kind: type[Options], bootstrap_servers: str | Iterable[str] | None, given: Mapping[str, object]
) -> Options:
    """Check the options of a client.

    Args:
        kind: which client's.
        bootstrap_servers: brokers to ask first; None if they are among `given`.
        given: names, dotted or not, and values.

    Raises:
        ConfigurationError: a name is unknown or given twice, a value is out of its range.
    """
    values: dict[str, object] = {} if bootstrap_servers is None else {"bootstrap_servers": bootstrap_servers}
    known = {option.name: option for option in fields(kind)}
    for given_name, value in given.items():
        name = KAFKA_NAMES.get(given_name, given_name)
        if name not in known:
            raise ConfigurationError(given_name, value, _unknown(given_name, set(known)))
        if name in values:
            raise ConfigurationError(given_name, value, f"{name} was given already")
        values[name] = value
    if "bootstrap_servers" not in values:
        raise ConfigurationError("bootstrap_servers", None, "at least one host:port is needed")
    checked = {name: _checked(name, value, known[name].metadata, known[name].default) for name, value in values.items()}
    return kind(**cast("dict[str, Any]", checked))


def _unknown(name: str, known: set[str]) -> str:
    candidates = sorted(known | {dotted for dotted, own in KAFKA_NAMES.items() if own in known})
    near = difflib.get_close_matches(name, candidates, n=1)
    return f"no such option; did you mean {near[0]}?" if near else "no such option"


def _checked(name: str, value: object, limits: Mapping[str, Any], default: object) -> object:
    """Return the value in the form that the options keep it in."""
    if name in _READERS:
        return _READERS[name](name, value)
    if "low" in limits:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigurationError(name, value, "expected an integer")
        if not limits["low"] <= value <= limits["high"]:
            raise ConfigurationError(name, value, f"expected {limits['low']} to {limits['high']}")
    elif "values" in limits:
        if value not in limits["values"]:
            raise ConfigurationError(name, value, f"expected one of {', '.join(limits['values'])}")
    elif isinstance(default, bool) and not isinstance(value, bool):
        raise ConfigurationError(name, value, "expected True or False")
    return value


def _bootstrap_servers(name: str, value: object) -> tuple[Address, ...]:
    if not isinstance(value, str | Iterable):
        raise ConfigurationError(name, value, "expected host:port,host:port")
    return addresses(value)


def _acks(name: str, value: object) -> int:
    known = {"all": _ALL_REPLICAS, "-1": _ALL_REPLICAS, "0": 0, "1": 1}
    if isinstance(value, bool) or str(value) not in known:
        raise ConfigurationError(name, value, 'expected "all", 1 or 0')
    return known[str(value)]


def _compression(name: str, value: object) -> Compression:
    if isinstance(value, Compression):
        return value
    names = {member.name.lower(): member for member in Compression}
    if value not in names:
        raise ConfigurationError(name, value, f"expected one of {', '.join(names)}")
    return names[str(value)]


def _text(name: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(name, value, "expected a string")
    return value


def _assignors(name: str, value: object) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, Iterable) or not (chosen := tuple(str(part).strip() for part in names)):
        raise ConfigurationError(name, value, "expected names of assignors")
    return chosen


def _partitioner(name: str, value: object) -> Partitioner | None:
    if value is not None and not callable(value):
        raise ConfigurationError(name, value, "expected a function of key and number of partitions")
    return cast("Partitioner | None", value)


_READERS: Final[Mapping[str, Callable[[str, object], object]]] = {
    "acks": _acks,
    "assignors": _assignors,
    "bootstrap_servers": _bootstrap_servers,
    "client_id": _text,
    "compression": _compression,
    "group_id": _text,
    "group_instance_id": _text,
    "partitioner": _partitioner,
}
