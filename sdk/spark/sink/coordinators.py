"""The sink's blocking requests to coordinators: the offsets of its groups, and the ends of prepared transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.client.options import AdminOptions, read_options
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.groups.offset_requests import TopicNames, fetch_request, fetch_results
from kafkawire.sdk.producer.transactions.prepared import PreparedTransaction, add_offsets, end_prepared
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.routing.call import Coordinator
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.routing.requests import check
from kafkawire.sdk.spark.blocking_client import BlockingClient
from kafkawire.sdk.spark.sink.options import connect_limit_ms
from kafkawire.sdk.transport.driver_interface import Versions
from kafkawire.sdk.transport.waiting import result_of

__all__ = ["Coordinators"]


class Coordinators(BlockingClient):
    """A client to be used in a `with`; its methods raise the errors that an admin client raises, and those listed.

    Args:
        options: producer options, named as in docs/options.md; options that other clients lack are ignored.

    Raises:
        ConfigurationError: an option is invalid.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        given = {name: value for name, value in options.items() if name in AdminOptions.OPTIONS}
        read = read_options(AdminOptions, None, {**given, "io": "thread"})
        super().__init__(lambda: ClientCore("sink", read, None), connect_limit_ms(options))

    def committed(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return all committed offsets of a group, after waiting for open transactions that could change them.

        Raises:
            BrokerError: the user may not read the group.
        """
        return result_of(self._committed, group_id)

    def add_offsets(
        self, prepared: PreparedTransaction, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Add a group's offsets to a transaction; see `add_offsets` of the producer."""
        result_of(self._add_offsets, prepared, group_id, offsets)

    def end(self, transactions: Iterable[PreparedTransaction], *, commits: bool) -> None:
        """Commit or abort transactions, all of them concurrently.

        Raises:
            KafkaWireError: the first error; it is raised after an attempt to end each of them.
        """
        result_of(self._end, list(transactions), commits)

    async def _committed(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        asked = OffsetFetchRequest()
        names: TopicNames = {}
        found: dict[TopicPartition, OffsetAndMetadata] = {}

        def request(versions: Versions) -> tuple[Message, int]:
            nonlocal asked, names
            asked, version, names = fetch_request(group_id, None, self._core.router.metadata, versions)
            return asked, version

        def read(response: OffsetFetchResponse) -> None:
            code, results = fetch_results(response, asked, names)
            check(code, f"committed offsets of group {group_id}")
            for partition, code, offset in results:
                check(code, f"committed offset of group {group_id} in {partition}")
                if offset is not None:
                    found[partition] = offset

        async def ask() -> None:
            coordinator = Coordinator(CoordinatorType.GROUP, group_id)
            await self._core.operations.request(coordinator, request, OffsetFetchResponse, read)

        await self._core.perform(ask())
        return found

    async def _add_offsets(
        self, prepared: PreparedTransaction, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        await self._core.perform(add_offsets(self._core.operations, prepared, group_id, offsets))

    async def _end(self, transactions: list[PreparedTransaction], commits: bool) -> None:
        operations = self._core.operations
        ends = [self._core.perform(end_prepared(operations, each, commits=commits)) for each in transactions]
        first: KafkaWireError | None = None
        for each, end in zip(transactions, ends, strict=True):
            try:
                await end
            except KafkaWireError as error:
                error.add_note(f"Reported by the coordinator of transactional id {each.transactional_id}.")
                first = first or error
        if first is not None:
            raise first
