"""The options of producers, consumers and admins: names, defaults, ranges.

Options are snake_case keywords; the dotted names of Kafka's documentation are accepted too. An unknown name is refused
with the nearest match, a value out of range with its limit. Defaults are Kafka's, apart from `batch_size`.

Source: Apache Kafka, `CommonClientConfigs`, `ProducerConfig`, `ConsumerConfig`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar, cast

from kafkawire.sdk.client.partitioner import Partitioner
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import INT32_MAX, REQUIRED, Options, choice, flag, number, option, text
from kafkawire.sdk.protocol.frames import MAX_FRAME_BYTES
from kafkawire.sdk.records import Compression
from kafkawire.sdk.transport.wire import Address, addresses

__all__ = ["AdminOptions", "ClientOptions", "ConsumerOptions", "ProducerOptions", "read_options"]

_ALL_REPLICAS: Final = -1


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


def _assignors(name: str, value: object) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, Iterable) or not (chosen := tuple(str(part).strip() for part in names)):
        raise ConfigurationError(name, value, "expected names of assignors")
    return chosen


def _partitioner(name: str, value: object) -> Partitioner | None:
    if value is not None and not callable(value):
        raise ConfigurationError(name, value, "expected a function of key and number of partitions")
    return cast("Partitioner | None", value)


class ClientOptions(Options):
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

    bootstrap_servers: tuple[Address, ...] = option(REQUIRED, _bootstrap_servers, kafka="bootstrap.servers")
    client_id: str = text("kafkawire", kafka="client.id")
    request_timeout_ms: int = number(30_000, 1, kafka="request.timeout.ms")
    connect_timeout_ms: int = number(10_000, 1, kafka="socket.connection.setup.timeout.ms")
    api_timeout_ms: int = number(60_000, 1, kafka="default.api.timeout.ms")
    retry_backoff_ms: int = number(100, 0, kafka="retry.backoff.ms")
    retry_backoff_max_ms: int = number(1_000, 0, kafka="retry.backoff.max.ms")
    metadata_max_age_ms: int = number(300_000, 100, kafka="metadata.max.age.ms")
    max_frame_bytes: int = number(MAX_FRAME_BYTES, 1024)


class AdminOptions(ClientOptions):
    """What an admin takes."""


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

    acks: int = option(_ALL_REPLICAS, _acks, kafka="acks")
    linger_ms: int = number(5, 0, kafka="linger.ms")
    batch_size: int = number(128 * 1024, 128, 16 * 1024 * 1024, kafka="batch.size")
    buffer_memory: int = number(32 * 1024 * 1024, 1024, 2**62, kafka="buffer.memory")
    compression: Compression = option(Compression.NONE, _compression, kafka="compression.type")
    max_request_size: int = number(1024 * 1024, 1024, kafka="max.request.size")
    retries: int = number(INT32_MAX, 0, kafka="retries")
    delivery_timeout_ms: int = number(120_000, 1, kafka="delivery.timeout.ms")
    max_in_flight: int = number(5, 1, 1000, kafka="max.in.flight.requests.per.connection")
    partitioner: Partitioner | None = option(None, _partitioner, kafka="partitioner.class")


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

    group_id: str | None = text(None, kafka="group.id")
    group_instance_id: str | None = text(None, kafka="group.instance.id")
    auto_offset_reset: str = choice("latest", "latest", "earliest", "none", kafka="auto.offset.reset")
    enable_auto_commit: bool = flag(True, kafka="enable.auto.commit")
    auto_commit_interval_ms: int = number(5_000, 1, kafka="auto.commit.interval.ms")
    assignors: tuple[str, ...] = option(
        ("range", "cooperative-sticky"), _assignors, kafka="partition.assignment.strategy"
    )
    session_timeout_ms: int = number(45_000, 1, kafka="session.timeout.ms")
    heartbeat_interval_ms: int = number(3_000, 1, kafka="heartbeat.interval.ms")
    max_poll_interval_ms: int = number(300_000, 1, kafka="max.poll.interval.ms")
    max_poll_records: int = number(500, 1, kafka="max.poll.records")
    fetch_min_bytes: int = number(1, 0, kafka="fetch.min.bytes")
    fetch_max_wait_ms: int = number(500, 0, kafka="fetch.max.wait.ms")
    fetch_max_bytes: int = number(50 * 1024 * 1024, 1, kafka="fetch.max.bytes")
    max_partition_fetch_bytes: int = number(1024 * 1024, 1, kafka="max.partition.fetch.bytes")
    check_crcs: bool = flag(True, kafka="check.crcs")


Kind = TypeVar("Kind", bound=ClientOptions)


def read_options(kind: type[Kind], bootstrap_servers: str | Iterable[str] | None, given: Mapping[str, object]) -> Kind:
    """Check the options of a client.

    Args:
        kind: which client's.
        bootstrap_servers: brokers to ask first; None if they are among `given`.
        given: names, dotted or not, and values.

    Raises:
        ConfigurationError: a name is unknown or given twice, or a value is out of its range.
    """
    first = () if bootstrap_servers is None else (("bootstrap_servers", bootstrap_servers),)
    return kind.read((*first, *given.items()))
