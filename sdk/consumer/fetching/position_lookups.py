"""Look up start positions: committed offsets, offsets by reset policy or time, and the ends of truncated logs.

Lookups for the same broker share one request. Each result affects only its own partition: a failed lookup is repeated
after its own pause.

Source: Apache Kafka, `OffsetFetcher`, `OffsetFetcherUtils`; KIP-320 (log truncation), KIP-1106 (`by_duration`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from kafkawire.sdk.client.options import ConsumerOptions
from kafkawire.sdk.consumer.fetching.partition_fetch import PartitionFetch, Planning
from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.errors import BrokerError, KafkaWireError, NoOffset, UnsupportedVersion
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsResponse
from kafkawire.sdk.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_OFFSET, OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Answer, Call, Node
from kafkawire.sdk.routing.list_offsets import EpochEnd, epoch_answers, epoch_request, list_answers, list_request
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.requests import carries
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.driver_interface import Versions

if TYPE_CHECKING:
    from kafkawire.sdk.groups.committed_offsets import Found

__all__ = ["CommittedSource", "PositionLookups"]

logger = logging.getLogger("kafkawire.consumer")

_RESET_PLACES = {"earliest": OffsetTimestamp.EARLIEST, "latest": OffsetTimestamp.LATEST}


class CommittedSource(Protocol):
    """Looks up the group's committed offsets."""

    def __call__(
        self, partitions: Collection[TopicPartition], on_found: Callable[[Found, int], None], now_ms: int
    ) -> None:
        """Report each partition once, with the current time; those with errors may be reported later than others."""
        ...


class PositionLookups:
    """Look up positions for one planner.

    Args:
        planner: the planner of the partitions.
        router: sends the requests.
        options: the consumer's options.
        wall_ms: returns the wall-clock time.
        committed: looks up committed offsets; None if there is no group.
    """

    def __init__(
        self,
        planner: Planning,
        router: Router,
        options: ConsumerOptions,
        wall_ms: Callable[[], int],
        committed: CommittedSource | None,
    ) -> None:
        self._planner = planner
        self._router = router
        self._options = options
        self._wall_ms = wall_ms
        self._committed = committed
        self._uncommitted: dict[TopicPartition, PartitionFetch] = {}
        self._lines = LogLimit(logger)
        self._wanted: dict[int, dict[TopicPartition, PartitionFetch]] = {}

    def reset_place(self) -> int | None:
        """Return the time that `auto_offset_reset` stands for; None if it asks for an error."""
        policy = self._options.auto_offset_reset
        if isinstance(policy, int):
            return self._wall_ms() - policy
        return _RESET_PLACES.get(policy)

    def want_committed(self, fetch: PartitionFetch) -> None:
        """Look up the group's committed offset of a partition."""
        self._uncommitted[fetch.partition] = fetch

    def want(self, fetch: PartitionFetch, leader: int) -> None:
        """Look up a partition's position at its leader, or check that the leader's log contains the position."""
        self._wanted.setdefault(leader, {})[fetch.partition] = fetch

    def poll(self, now_ms: int) -> None:
        """Send the lookups that are due."""
        if self._uncommitted:
            self._poll_committed(now_ms)
        if not self._wanted:
            return
        for leader, fetches in list(self._wanted.items()):
            current = {
                each: fetch
                for each, fetch in fetches.items()
                if self._planner.current(each) is fetch and self._is_due(fetch, leader)
            }
            link = self._planner.reach(leader, now_ms) if current else None
            if link is not None and link.connection is not None:
                self._note_leaders(current.values())
                checks = {each: fetch for each, fetch in current.items() if fetch.position is not None}
                resets = {each: fetch for each, fetch in current.items() if fetch.position is None}
                if checks and not _can_check(link.connection):
                    for fetch in checks.values():
                        self._is_in_log(fetch, now_ms)
                elif checks:
                    self._check(leader, checks, now_ms)
                if resets:
                    self._list(leader, resets, now_ms)
            if link is not None or not current:
                self._wanted.pop(leader, None)

    def _is_due(self, fetch: PartitionFetch, leader: int) -> bool:
        known = self._router.metadata.partition(fetch.partition)
        if known is None or known.leader != leader or fetch.is_asked or fetch.halted:
            return False
        return isinstance(fetch.place, int) if fetch.position is None else fetch.needs_check(known)

    def _note_leaders(self, fetches: Iterable[PartitionFetch]) -> None:
        """Record each leader's epoch when the leader is asked: by the time it answers, there may be another leader."""
        for fetch in fetches:
            known = self._router.metadata.partition(fetch.partition)
            fetch.leader_epoch = -1 if known is None else known.leader_epoch

    # Committed offsets.

    def _poll_committed(self, now_ms: int) -> None:
        wanted, self._uncommitted = self._uncommitted, {}
        epochs = {
            each: fetch.epoch
            for each, fetch in wanted.items()
            if self._planner.current(each) is fetch and fetch.position is None and fetch.place is None
        }
        if self._committed is None:
            for partition in epochs:
                self._without_commit(wanted[partition], now_ms)
        elif epochs:
            for partition in epochs:
                wanted[partition].is_asked = True
            self._committed(tuple(epochs), partial(self._take_committed, wanted, epochs), now_ms)

    def _take_committed(
        self,
        fetches: Mapping[TopicPartition, PartitionFetch],
        epochs: Mapping[TopicPartition, int],
        found: Found,
        now_ms: int,
    ) -> None:
        """Accept the offsets found so far; those of partitions that wait for another attempt follow later."""
        for partition, commit in found.items():
            fetch = fetches[partition]
            if self._planner.current(partition) is not fetch or fetch.epoch != epochs[partition]:
                continue
            fetch.is_asked = False
            if commit is None:
                self._without_commit(fetch, now_ms)
            elif isinstance(commit, KafkaWireError):
                self._planner.failed(fetch, commit, now_ms)
            else:
                self._planner.locate(fetch, Position(commit.offset, commit.leader_epoch), now_ms)

    def _without_commit(self, fetch: PartitionFetch, now_ms: int) -> None:
        place = self.reset_place()
        if place is None:
            error = NoOffset(f"{fetch.partition} has no committed offset, and auto_offset_reset is none")
            self._planner.halt_with(fetch, error, now_ms)
        else:
            fetch.place = place
            self._planner.consider(fetch, now_ms)

    # Offsets by time.

    def _list(self, leader: int, fetches: Mapping[TopicPartition, PartitionFetch], now_ms: int) -> None:
        metadata = self._router.metadata
        places = {each: fetch.place for each, fetch in fetches.items() if isinstance(fetch.place, int)}
        request = list_request(metadata, places, self._options.isolation_level, self._options.request_timeout_ms)
        self._submit(leader, fetches, request, ListOffsetsResponse, self._take_listed, now_ms)

    def _take_listed(
        self, response: ListOffsetsResponse, fetches: Mapping[TopicPartition, PartitionFetch], now_ms: int
    ) -> None:
        answers = list_answers(response)
        for partition, fetch in fetches.items():
            answer = answers.get(partition)
            if answer is None:
                answer = BrokerError(
                    ErrorCode.UNKNOWN_SERVER_ERROR, f"offset of {partition}: missing from the response"
                )
            if isinstance(answer, KafkaWireError):
                self._planner.failed(fetch, answer, now_ms)
            elif answer.offset == UNKNOWN_OFFSET:  # no record is that recent
                fetch.place = OffsetTimestamp.LATEST
                self._planner.consider(fetch, now_ms)
            else:
                position = Position(answer.offset, answer.leader_epoch)
                self._planner.locate(fetch, position, now_ms, is_checked=True)

    # Truncated logs.

    def _is_in_log(self, fetch: PartitionFetch, now_ms: int) -> None:
        """Fetch from a position that is in the leader's log; if there is a newer leader by now, ask again."""
        fetch.checked_epoch = fetch.leader_epoch
        self._planner.consider(fetch, now_ms)

    def _check(self, leader: int, fetches: Mapping[TopicPartition, PartitionFetch], now_ms: int) -> None:
        epochs = {each: fetch.position.leader_epoch for each, fetch in fetches.items() if fetch.position is not None}
        request = epoch_request(self._router.metadata, epochs)
        self._submit(leader, fetches, request, OffsetForLeaderEpochResponse, self._take_checked, now_ms)

    def _take_checked(
        self, response: OffsetForLeaderEpochResponse, fetches: Mapping[TopicPartition, PartitionFetch], now_ms: int
    ) -> None:
        answers = epoch_answers(response)
        for partition, fetch in fetches.items():
            answer = answers.get(partition)
            if answer is None:
                answer = BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"epoch of {partition}: missing from the response")
            if isinstance(answer, KafkaWireError):
                self._planner.failed(fetch, answer, now_ms)
                continue
            position = fetch.position
            assert position is not None
            if answer.offset == UNKNOWN_OFFSET or answer.leader_epoch < 0:
                self._planner.reset(
                    fetch, f"{partition}: epoch {position.leader_epoch} is unknown to the leader", now_ms
                )
            elif answer.offset < position.offset or answer.leader_epoch < position.leader_epoch:
                self._truncated(fetch, position, answer, now_ms)
            else:
                self._is_in_log(fetch, now_ms)

    def _truncated(self, fetch: PartitionFetch, position: Position, end: EpochEnd, now_ms: int) -> None:
        """Return to the offset at which the leader's log diverges from the records that were read."""
        reason = f"{fetch.partition}: the log was truncated before offset {position.offset}, to {end.offset}"
        if self.reset_place() is None:
            self._planner.halt_with(fetch, NoOffset(f"{reason}, and auto_offset_reset is none"), now_ms)
            return
        subject = "truncated", fetch.partition.topic
        self._lines.warning(subject, now_ms, "%s: later records were lost or replaced", reason)
        back = Position(min(end.offset, position.offset), end.leader_epoch)
        self._planner.locate(fetch, back, now_ms, is_checked=True)

    # Calls.

    def _submit(
        self,
        leader: int,
        fetches: Mapping[TopicPartition, PartitionFetch],
        request: Message,
        response: type[Answer],
        take: Callable[[Answer, Mapping[TopicPartition, PartitionFetch], int], None],
        now_ms: int,
    ) -> None:
        epochs = {each: fetch.epoch for each, fetch in fetches.items()}
        for fetch in fetches.values():
            fetch.is_asked = True
        deadline_ms = now_ms + self._options.request_timeout_ms
        done = partial(self._done, fetches, epochs, take)
        call = Call(Node(leader), lambda _: (request, None), response, deadline_ms, done, retries=False)
        self._router.submit(call, now_ms)

    def _done(
        self,
        fetches: Mapping[TopicPartition, PartitionFetch],
        epochs: Mapping[TopicPartition, int],
        take: Callable[[Answer, Mapping[TopicPartition, PartitionFetch], int], None],
        call: Call[Answer],
        now_ms: int,
    ) -> None:
        current = {
            each: fetch
            for each, fetch in fetches.items()
            if self._planner.current(each) is fetch and fetch.epoch == epochs[each] and fetch.is_asked
        }
        for fetch in current.values():
            fetch.is_asked = False
        if call.error is None:
            take(call.answer, current, now_ms)
            return
        for fetch in current.values():
            self._planner.failed(fetch, call.error, now_ms)


def _can_check(versions: Versions) -> bool:
    """Return whether a broker tells consumers where leader epochs end; older brokers tell only other brokers."""
    try:
        version = versions.version_for(OffsetForLeaderEpochRequest)
    except UnsupportedVersion:
        return False
    return carries(OffsetForLeaderEpochRequest, "replica_id", version)
