"""The options of producers, consumers and admins: names, defaults, ranges.

Options are snake_case keywords; the dotted names of Kafka's documentation are accepted too. The error for an unknown
name suggests the nearest match, that for a value out of range states the limit. Defaults are Kafka's, except
`batch_size`.

Source: Apache Kafka, `CommonClientConfigs`, `ProducerConfig`, `ConsumerConfig`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

from kafkawire.sdk.client.partitioner import Partitioner
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import INT32_MAX, REQUIRED, Options, choice, flag, number, option, text
from kafkawire.sdk.protocol.frames import MAX_FRAME_BYTES
from kafkawire.sdk.protocol.tables.enums import Acks
from kafkawire.sdk.records import Compression
from kafkawire.sdk.transport.wire import Address, addresses

__all__ = ["AdminOptions", "ClientOptions", "ConsumerOptions", "ProducerOptions", "read_options"]


def _bootstrap_servers(name: str, value: object) -> tuple[Address, ...]:
    if not isinstance(value, str | Iterable):
        raise ConfigurationError(name, value, "expected host:port,host:port")
    return addresses(value)


def _acks(name: str, value: object) -> int:
    known = {"all": Acks.ALL, **{str(int(acks)): acks for acks in Acks}}
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


def _optional_flag(name: str, value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise ConfigurationError(name, value, "expected True, False or None")
    return value


def _partitioner(name: str, value: object) -> Partitioner | None:
    if value is not None and not callable(value):
        raise ConfigurationError(name, value, "expected a function of key and number of partitions")
    return cast("Partitioner | None", value)


class ClientOptions(Options):
    """The options of every client.

    Attributes:
        bootstrap_servers: brokers to connect to first, `host:port,host:port`.
        client_id: the name that brokers use for logs and quotas.
        request_timeout_ms: how long to wait for a response.
        connect_timeout_ms: how long to wait for a connection, version negotiation included.
        api_timeout_ms: how long a call may take, retries included.
        retry_backoff_ms: pause before the first retry; doubles with each retry, up to `retry_backoff_max_ms`.
        retry_backoff_max_ms: longest pause between retries.
        metadata_max_age_ms: age at which the metadata is refreshed.
        connections_max_idle_ms: a connection that was not used for so long is closed.
        max_frame_bytes: largest response accepted.
    """

    bootstrap_servers: tuple[Address, ...] = option(REQUIRED, _bootstrap_servers, kafka="bootstrap.servers")
    client_id: str = text("kafkawire", kafka="client.id")
    request_timeout_ms: int = number(30_000, 1, kafka="request.timeout.ms")
    connect_timeout_ms: int = number(10_000, 1, kafka="socket.connection.setup.timeout.ms")
    api_timeout_ms: int = number(60_000, 1, kafka="default.api.timeout.ms")
    retry_backoff_ms: int = number(100, 0, kafka="retry.backoff.ms")
    retry_backoff_max_ms: int = number(1_000, 0, kafka="retry.backoff.max.ms")
    metadata_max_age_ms: int = number(300_000, 100, kafka="metadata.max.age.ms")
    connections_max_idle_ms: int = number(540_000, 1_000, kafka="connections.max.idle.ms")
    max_frame_bytes: int = number(MAX_FRAME_BYTES, 1024)


class AdminOptions(ClientOptions):
    """The options of an admin."""


class ProducerOptions(ClientOptions):
    """The options of a producer.

    Attributes:
        acks: which replicas must have a record before it is acknowledged: "all" in-sync replicas, 1 for the leader, 0
            for none.
        linger_ms: how long an unfilled batch waits for more records.
        batch_size: bytes of a batch before compression. Kafka's default of 16 KiB halves the throughput measured here.
        buffer_memory: most bytes of records that are not acknowledged yet; above it `send` raises `BufferFull`.
        compression: "none", "gzip", "snappy", "lz4" or "zstd".
        max_request_size: bytes of the largest record batch.
        retries: how often a batch may be retried, within `delivery_timeout_ms`.
        delivery_timeout_ms: longest time from `send` to the acknowledgement.
        max_in_flight: most produce requests on one connection that wait for their response. Without idempotence, a
            batch that is retried may be stored after a later batch of the same partition if this is above 1.
        enable_idempotence: True to store each record once and in order, whatever is retried, or fail; None to do so
            unless another option or the cluster rules it out; False to do without.
        metadata_max_idle_ms: a topic that nothing was sent to for so long is forgotten.
        partitioner: chooses the partition of records with a key; None for Kafka's own. Records without a key fill one
            batch after the other.
    """

    acks: int = option(Acks.ALL, _acks, kafka="acks")
    linger_ms: int = number(5, 0, kafka="linger.ms")
    batch_size: int = number(128 * 1024, 128, 16 * 1024 * 1024, kafka="batch.size")
    buffer_memory: int = number(32 * 1024 * 1024, 1024, 2**62, kafka="buffer.memory")
    compression: Compression = option(Compression.NONE, _compression, kafka="compression.type")
    max_request_size: int = number(1024 * 1024, 1024, kafka="max.request.size")
    retries: int = number(INT32_MAX, 0, kafka="retries")
    delivery_timeout_ms: int = number(120_000, 1, kafka="delivery.timeout.ms")
    max_in_flight: int = number(5, 1, 1000, kafka="max.in.flight.requests.per.connection")
    enable_idempotence: bool | None = option(None, _optional_flag, kafka="enable.idempotence")
    metadata_max_idle_ms: int = number(300_000, 5_000, kafka="metadata.max.idle.ms")
    partitioner: Partitioner | None = option(None, _partitioner, kafka="partitioner.class")


class ConsumerOptions(ClientOptions):
    """The options of a consumer.

    Attributes:
        group_id: the group that assigns the partitions and stores the offsets; None to read without a group.
        group_instance_id: an id that survives restarts, for static membership; None for dynamic membership.
        auto_offset_reset: where to start without a committed offset: "latest", "earliest", or "none" to raise.
        enable_auto_commit: whether to commit finished records every `auto_commit_interval_ms`, on rebalances and on
            close.
        auto_commit_interval_ms: time between automatic commits.
        assignors: names of the assignors that this member supports, the preferred one first.
        session_timeout_ms: after this long without a heartbeat the coordinator removes the member.
        heartbeat_interval_ms: time between heartbeats.
        max_poll_interval_ms: longest time between two reads by the application before the member leaves its group.
        max_poll_records: most records returned by one `getmany`.
        fetch_min_bytes: a broker delays a fetch until it has this many bytes, or `fetch_max_wait_ms` has passed.
        fetch_max_wait_ms: longest delay of a fetch.
        fetch_max_bytes: most bytes of one fetch, and of everything fetched ahead.
        max_partition_fetch_bytes: most bytes of one partition in one fetch.
        check_crcs: whether to verify the checksums of batches.
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
        kind: the class of the client's options.
        bootstrap_servers: brokers to connect to first; None if they are in `given`.
        given: values by name, dotted or not.

    Raises:
        ConfigurationError: a name is unknown or given twice, or a value is out of range.
    """
    first = () if bootstrap_servers is None else (("bootstrap_servers", bootstrap_servers),)
    return kind.read((*first, *given.items()))
