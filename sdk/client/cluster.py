"""A cluster as its clients use it: routes each request to the right broker and retries what may succeed.

Holds the metadata, the connections and the known coordinators of one client. Its methods await, but sleeping and
connecting are left to `transport/`.

Source: Apache Kafka, `NetworkClient`, `ConsumerNetworkClient`; KIP-580 (backoff).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TypeVar

from kafkawire.sdk.client.backoff import Backoff
from kafkawire.sdk.client.login import login, tls
from kafkawire.sdk.client.metadata import Broker, Metadata, Topic
from kafkawire.sdk.client.options import ClientOptions
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.client.requests import coordinator, find_coordinator
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import (
    AuthenticationFailed,
    BrokerError,
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
    RequestTimedOut,
)
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.tables.error_codes import INVALID_METADATA, ErrorCode
from kafkawire.sdk.transport.connection import BrokerConnection, ConnectionSettings
from kafkawire.sdk.transport.pool import ConnectionPool, Purpose
from kafkawire.sdk.transport.stream import TcpNetwork
from kafkawire.sdk.transport.timing import SingleFlight, random_fraction, sleep_ms
from kafkawire.sdk.transport.wire import Address, Network

__all__ = ["Cluster"]

logger = logging.getLogger("kafkawire.client")

Result = TypeVar("Result")

#: Codes after which the coordinator must be looked up again.
_COORDINATOR_MOVED = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)


class Cluster:
    """The cluster that a list of bootstrap servers leads to.

    Args:
        options: the client's options.
        network: reaches the brokers; None for TCP.
        creates_topics: whether asking for an unknown topic may create it, if the brokers allow that.

    Attributes:
        options: as given.
        metadata: the latest known state of the cluster.
        topics: names that `refresh` asks for; None for all topics of the cluster.
    """

    def __init__(self, options: ClientOptions, network: Network | None = None, *, creates_topics: bool = False) -> None:
        self.options = options
        self.metadata = Metadata(options.metadata_max_age_ms)
        self.topics: set[str] | None = set()
        self._creates_topics = creates_topics
        settings = ConnectionSettings(
            options.client_id, options.connect_timeout_ms, options.request_timeout_ms, login=login(options)
        )
        self._pool = ConnectionPool(network or TcpNetwork(options.max_frame_bytes, tls(options)), settings)
        self._backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms)
        self._refreshing: SingleFlight[None] = SingleFlight()
        self._coordinators: dict[str, int] = {}

    async def close(self) -> None:
        """Close all connections."""
        await self._refreshing.close()
        await self._pool.close()

    async def connection(self, node_id: int, purpose: Purpose = Purpose.DATA) -> BrokerConnection:
        """Return an open connection to a broker.

        Raises:
            ConnectFailed: it cannot be reached, or is no longer part of the cluster; the metadata becomes stale.
        """
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            self.metadata.invalidate()
            raise ConnectFailed(f"node {node_id}", "the cluster does not list it")
        try:
            return await self._pool.get(broker.address, purpose)
        except ConnectFailed:
            self.metadata.invalidate()
            raise

    async def any_connection(self) -> BrokerConnection:
        """Return a connection to any broker: a known one, else one of the bootstrap servers.

        Raises:
            AuthenticationFailed: one of them was reached, and does not trust this client or is not to be trusted.
            ConnectFailed: none can be reached; the text says why, broker by broker.
        """
        known = [broker.address for broker in self.metadata.brokers.values()]
        first = int(random_fraction() * len(known))
        reasons: dict[Address, ConnectFailed] = {}
        for address in [*known[first:], *known[:first], *self.options.bootstrap_servers]:
            if address not in reasons:
                try:
                    return await self._pool.get(address)
                except AuthenticationFailed:
                    raise  # further attempts with a wrong password may lock the user out
                except ConnectFailed as error:
                    reasons[address] = error
        failed = ConnectFailed("any broker", "; ".join(map(str, reasons.values())))
        raise failed from next(reversed(reasons.values()))

    async def controller(self) -> BrokerConnection:
        """Return a connection to the broker that takes requests for the controller.

        Raises:
            BrokerError: NOT_CONTROLLER, there is none now; worth a retry.
            ConnectFailed: it cannot be reached.
        """
        if self.metadata.controller_id is None or self.metadata.is_stale(monotonic_ms()):
            await self.refresh()
        if self.metadata.controller_id is None:
            raise BrokerError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller")
        return await self.connection(self.metadata.controller_id)

    async def refresh(self, topics: Collection[str] | None = None) -> None:
        """Ask a broker for the metadata once.

        Args:
            topics: names to ask for; None for those in `self.topics`.

        Raises:
            ConnectFailed, ConnectionLost, RequestTimedOut: no response; worth a retry.
        """
        wanted = self.topics if topics is None else frozenset(topics)
        key = None if wanted is None else frozenset(wanted)
        await self._refreshing.run(key, lambda: self._refresh(key))

    async def describe(self, names: Collection[str]) -> dict[str, Topic]:
        """Return the metadata of topics, asking until all of them are known.

        Raises:
            BrokerError: the first topic that cannot be described; a retriable error is raised after `api_timeout_ms`.
        """

        async def attempt() -> dict[str, Topic]:
            missing = self.metadata.missing(names)
            if missing:
                await self.refresh(missing)
            for name in self.metadata.missing(names):
                code = self.metadata.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                raise BrokerError(code, f"topic {name}")
            return {name: self.metadata.topics[name] for name in names}

        return await self.retrying(attempt)

    async def leaders(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Return partitions by the node id of their leader.

        Raises:
            BrokerError: a partition has no leader now, or does not exist; worth a retry.
        """
        wanted = list(partitions)
        if self.metadata.is_stale(monotonic_ms()) or any(self.metadata.leader(each) is None for each in wanted):
            await self.refresh({each.topic for each in wanted})
        found: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            leader = self.metadata.leader(partition)
            if leader is None:
                known = self.metadata.partition(partition) is not None
                code = ErrorCode.LEADER_NOT_AVAILABLE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise BrokerError(code, f"partition {partition}")
            found.setdefault(leader, []).append(partition)
        return found

    async def coordinator(self, group_id: str) -> BrokerConnection:
        """Return a connection to the coordinator of a group, kept apart from the connections for data.

        Raises:
            BrokerError: there is none now; worth a retry.
        """
        node_id = self._coordinators.get(group_id)
        if node_id is None or node_id not in self.metadata.brokers:
            connection = await self.any_connection()
            request = find_coordinator(group_id, connection.version_for(messages.FindCoordinatorRequest))
            response = await connection.request(request, messages.FindCoordinatorResponse)
            node_id, host, port = coordinator(response, f"coordinator of group {group_id}")
            self.metadata.brokers.setdefault(node_id, Broker(node_id, Address(host, port)))
            self._coordinators[group_id] = node_id
        try:
            return await self.connection(node_id, Purpose.GROUP)
        except ConnectFailed:
            self.forget_coordinator(group_id)
            raise

    def forget_coordinator(self, group_id: str) -> None:
        """Look up the coordinator again the next time it is needed."""
        self._coordinators.pop(group_id, None)

    def note(self, error: KafkaWireError, group_id: str | None = None) -> None:
        """Drop what an error shows to be outdated: leaders, or the coordinator of a group."""
        lost = isinstance(error, ConnectFailed | ConnectionLost | RequestTimedOut)
        if lost or (isinstance(error, BrokerError) and error.code in INVALID_METADATA):
            self.metadata.invalidate()
        moved = isinstance(error, BrokerError) and error.code in _COORDINATOR_MOVED
        if group_id is not None and (lost or moved):
            self.forget_coordinator(group_id)

    async def retrying(
        self,
        attempt: Callable[[], Awaitable[Result]],
        group_id: str | None = None,
        final: Collection[ErrorCode] = (),
    ) -> Result:
        """Call `attempt` until it succeeds or fails for good.

        Args:
            attempt: one try; must look up its broker each time.
            group_id: the group whose coordinator is asked, None if none is.
            final: retriable codes that must not be retried here.

        Raises:
            KafkaWireError: the last error, if it is not retriable or `api_timeout_ms` has passed.
        """
        deadline_ms = monotonic_ms() + self.options.api_timeout_ms
        failures = 0
        while True:
            try:
                return await attempt()
            except KafkaWireError as error:
                self.note(error, group_id)
                failures += 1
                pause_ms = self.pause_ms(failures)
                ends = not error.retriable or (isinstance(error, BrokerError) and error.code in final)
                if ends or monotonic_ms() + pause_ms > deadline_ms:
                    raise
                logger.info("trying again in %d ms: %s", pause_ms, error)
            await sleep_ms(pause_ms)

    def pause_ms(self, failures: int) -> float:
        """Return how long to wait after this many failures in a row."""
        return self._backoff.pause_ms(failures, random_fraction())

    async def _refresh(self, topics: frozenset[str] | None) -> None:
        connection = await self.any_connection()
        asked = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(topics)]
        request = MetadataRequest(asked, allow_auto_topic_creation=self._creates_topics)
        response = await connection.request(request, MetadataResponse)
        self.metadata.update(response, monotonic_ms(), is_complete=topics is None)
