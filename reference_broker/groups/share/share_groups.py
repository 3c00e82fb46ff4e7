"""Share groups as the handlers in `apis/` use them: operations that involve the group coordinator and the persister.

Every callback is called exactly once, with the outcome once it is committed, or with the error that prevented it.

Source: `GroupCoordinatorService` in Apache Kafka, whose order of checks and texts are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from kafkawire.reference_broker.coordinators.partition import ignore
from kafkawire.reference_broker.coordinators.shard import Done
from kafkawire.reference_broker.groups.consumer.group import Partitions
from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.groups.refusals import is_blank
from kafkawire.reference_broker.groups.share.group import ShareGroup
from kafkawire.reference_broker.groups.share.requests import (
    NO_ERROR,
    Beat,
    NewStates,
    OffsetAlteration,
    Refusal,
    ShareHeartbeat,
    StateDeletion,
)
from kafkawire.reference_broker.metadata.image import MetadataDelta
from kafkawire.reference_broker.shares.persister import Persister
from kafkawire.reference_broker.shares.share_state import SharePartitionKey, ShareState
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kafkawire.sdk.protocol.tables.enums import JOIN_GROUP_MEMBER_EPOCH, LEAVE_GROUP_MEMBER_EPOCH
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["DeletedOffsets", "Outcomes", "ShareGroups"]

R = TypeVar("R")

#: The outcomes of operations of the persister, keyed by topic id and partition number.
Outcomes = dict[tuple[bytes, int], R | BrokerError]

#: Kafka's text for a group id that is empty.
_NO_GROUP_ID = "The group id is invalid."


class DeletedOffsets(NamedTuple):
    """The outcomes of deleting a group's offsets.

    Attributes:
        deleted: the names of the topics whose offsets were deleted, keyed by topic id.
        refused: the outcomes of topics without offsets, keyed by name.
        failed: the names and the outcomes of topics that the persister refused, keyed by topic id.
    """

    deleted: dict[bytes, str]
    refused: dict[str, Refusal]
    failed: dict[bytes, tuple[str, Refusal]]


class ShareGroups:
    """The share groups that this broker coordinates.

    Args:
        groups: the group coordinator.
        persister: stores the state of share partitions.
        timers: the broker's timers.
    """

    def __init__(self, groups: GroupCoordinator, persister: Persister, timers: Timers) -> None:
        self._groups = groups
        self._persister = persister
        self._timers = timers

    # Members.

    def beat(self, request: ShareHeartbeat, done: Done[ShareGroupHeartbeatResponse], now_ms: int) -> None:
        """Handle a heartbeat; states that it asks for are begun after the response."""

        def ended(outcome: Beat | BrokerError) -> None:
            if isinstance(outcome, BrokerError):
                done(outcome)
                return
            done(outcome.response)
            if outcome.states is not None:
                self._begin(outcome.states, ignore)

        try:
            _check(request)
        except BrokerError as error:
            done(error)
        else:
            self._groups.submit_share(request.group_id, lambda share: share.beat(request, now_ms), ended, now_ms)

    def describe(self, group_id: str, done: Done[ShareGroup], now_ms: int) -> None:
        """Call `done` with a share group, which `done` must not keep."""
        if not group_id:
            done(BrokerError(ErrorCode.INVALID_GROUP_ID, _NO_GROUP_ID))
        else:
            self._groups.submit_share(group_id, lambda share: share.find(group_id), done, now_ms)

    # States.

    def _begin(self, states: NewStates, done: Callable[[Outcomes[None]], None]) -> None:
        """Ask the persister to begin states, and write the outcome; `done` gets it."""
        group_id, epoch, offsets = states
        partitions = {topic_id: frozenset(numbers) for topic_id, numbers in offsets.items()}

        def ended(outcomes: Outcomes[None]) -> None:
            is_begun = not any(isinstance(outcome, BrokerError) for outcome in outcomes.values())
            self._timers.soon(partial(self._write_begun, group_id, partitions, is_begun, lambda: done(outcomes)))

        awaited: _Awaited[None] = _Awaited(partitions, ended)
        for topic_id, numbers in offsets.items():
            for number, offset in numbers.items():
                key = SharePartitionKey(group_id, topic_id, number)
                self._persister.initialize(key, epoch, offset, partial(awaited.put, (topic_id, number)))

    def _write_begun(
        self, group_id: str, partitions: Partitions, is_begun: bool, done: Callable[[], None], now_ms: int
    ) -> None:
        def written(outcome: BrokerError | None) -> None:
            if outcome is not None and is_begun:
                self._write_begun(group_id, partitions, False, done, now_ms)
            else:
                done()

        if is_begun:
            self._groups.submit_share(
                group_id, lambda share: share.states_begun(group_id, partitions, now_ms), written, now_ms
            )
        else:
            self._groups.submit_share(
                group_id, lambda share: share.states_refused(group_id, partitions, now_ms), written, now_ms
            )

    def _delete_states(
        self, group_id: str, partitions: Partitions, done: Callable[[Outcomes[None], int], None]
    ) -> None:
        """Ask the persister to delete states; `done` gets the outcomes and the time."""

        def ended(outcomes: Outcomes[None]) -> None:
            self._timers.soon(lambda now_ms: done(outcomes, now_ms))

        awaited: _Awaited[None] = _Awaited(partitions, ended)
        for topic_id, numbers in partitions.items():
            for number in numbers:
                key = SharePartitionKey(group_id, topic_id, number)
                self._persister.delete(key, partial(awaited.put, (topic_id, number)))

    def changed(self, delta: MetadataDelta) -> None:
        """Forget the states of deleted topics, which the share coordinator deletes by itself."""
        gone = frozenset(
            change.before.topic_id for change in delta.topics if change.is_deletion and change.before is not None
        )
        if gone:
            self._timers.soon(
                lambda now_ms: self._groups.submit_share_to_all(lambda share: share.forget_topics(gone), ignore, now_ms)
            )

    # Groups.

    def delete(self, group_id: str, done: Done[None], now_ms: int) -> None:
        """Delete a group of any type; the states of a share group are deleted first."""

        def states_deleted(outcomes: Outcomes[None], now_ms: int) -> None:
            errors = [outcome for outcome in outcomes.values() if isinstance(outcome, BrokerError)]
            if errors:
                done(errors[-1])
            else:
                self._groups.delete(group_id, done, now_ms)

        def found(partitions: Partitions | BrokerError) -> None:
            if isinstance(partitions, BrokerError):
                done(partitions)
            elif partitions:
                self._delete_states(group_id, partitions, states_deleted)
            else:
                self._groups.delete(group_id, done, now_ms)

        self._groups.submit_share(group_id, lambda share: share.states_to_delete(group_id), found, now_ms)

    # Offsets.

    def partitions(self, group_id: str, done: Done[Partitions], now_ms: int) -> None:
        """Call `done` with the share partitions of a group that have a state; none if there is no such group."""

        def ended(group: ShareGroup | BrokerError) -> None:
            if isinstance(group, BrokerError) and group.code is ErrorCode.GROUP_ID_NOT_FOUND:
                done({})
            else:
                done(group if isinstance(group, BrokerError) else group.states.assignable)

        self._groups.submit_share(group_id, lambda share: share.find(group_id), ended, now_ms)

    def summaries(
        self,
        group_id: str,
        partitions: Mapping[bytes, Iterable[int]],
        done: Callable[[Outcomes[ShareState | None]], None],
    ) -> None:
        """Call `done` with the states of share partitions; None for those without one."""
        asked = {topic_id: frozenset(numbers) for topic_id, numbers in partitions.items()}
        awaited: _Awaited[ShareState | None] = _Awaited(asked, done)
        for topic_id, numbers in asked.items():
            for number in numbers:
                key = SharePartitionKey(group_id, topic_id, number)
                self._persister.summary(key, partial(awaited.put, (topic_id, number)))

    def alter_offsets(
        self, group_id: str, wanted: Mapping[str, Mapping[int, int]], done: Done[OffsetAlteration], now_ms: int
    ) -> None:
        """Move the start offsets of an empty group.

        Args:
            group_id: the group.
            wanted: the new start offsets, keyed by topic name and partition number.
            done: called once with the outcomes or the error.
            now_ms: the current time.
        """

        def begun(alteration: OffsetAlteration, outcomes: Outcomes[None]) -> None:
            for name, topic_id in alteration.topic_ids.items():
                results = alteration.results[name]
                for number, result in results.items():
                    outcome = outcomes.get((topic_id, number))
                    if result is NO_ERROR and isinstance(outcome, BrokerError):
                        results[number] = Refusal.of(outcome)
            done(alteration)

        def altered(alteration: OffsetAlteration | BrokerError) -> None:
            if isinstance(alteration, BrokerError):
                done(alteration)
            elif alteration.states.offsets:
                self._begin(alteration.states, partial(begun, alteration))
            else:
                done(alteration)

        if not group_id:
            done(BrokerError(ErrorCode.INVALID_GROUP_ID, _NO_GROUP_ID))
        else:
            self._groups.submit_share(
                group_id, lambda share: share.alter_offsets(group_id, wanted, now_ms), altered, now_ms
            )

    def delete_offsets(self, group_id: str, names: Sequence[str], done: Done[DeletedOffsets], now_ms: int) -> None:
        """Delete the offsets of topics from an empty group.

        Args:
            group_id: the group.
            names: the topics.
            done: called once with the outcomes or the error.
            now_ms: the current time.
        """

        def states_deleted(deletion: StateDeletion, outcomes: Outcomes[None], now_ms: int) -> None:
            failed = {}
            for (topic_id, _), outcome in outcomes.items():
                if isinstance(outcome, BrokerError):
                    failed[topic_id] = deletion.names[topic_id], Refusal.of(outcome)
            deleted = {topic_id: name for topic_id, name in deletion.names.items() if topic_id not in failed}
            result = DeletedOffsets(deleted, deletion.results, failed)

            def written(outcome: BrokerError | None) -> None:
                done(result if outcome is None else outcome)

            self._groups.submit_share(group_id, lambda share: share.offsets_deleted(group_id, deleted), written, now_ms)

        def begun(deletion: StateDeletion | BrokerError) -> None:
            if isinstance(deletion, BrokerError):
                done(deletion)
            elif deletion.partitions:
                self._delete_states(group_id, deletion.partitions, partial(states_deleted, deletion))
            else:
                done(DeletedOffsets({}, deletion.results, {}))

        if not group_id:
            done(BrokerError(ErrorCode.INVALID_GROUP_ID, _NO_GROUP_ID))
        else:
            self._groups.submit_share(group_id, lambda share: share.delete_offsets(group_id, names), begun, now_ms)


class _Awaited(Generic[R]):
    """The outcomes of the persister's operations, until all are known."""

    def __init__(self, partitions: Mapping[bytes, frozenset[int]], done: Callable[[Outcomes[R]], None]) -> None:
        self._count = sum(map(len, partitions.values()))
        self._outcomes: Outcomes[R] = {}
        self._done = done
        if not self._count:
            done(self._outcomes)

    def put(self, partition: tuple[bytes, int], outcome: R | BrokerError) -> None:
        """Record an outcome."""
        self._outcomes[partition] = outcome
        if len(self._outcomes) == self._count:
            self._done(self._outcomes)


def _check(request: ShareHeartbeat) -> None:
    """Check the fields of a heartbeat in Kafka's order.

    Raises:
        BrokerError: INVALID_REQUEST.
    """
    is_joining = request.epoch == JOIN_GROUP_MEMBER_EPOCH
    faults = (
        (is_blank(request.member_id), "MemberId can't be empty."),
        (is_blank(request.group_id), "GroupId can't be empty."),
        (is_blank(request.rack_id), "RackId can't be empty."),
        (is_joining and not request.topics, "SubscribedTopicNames must be set in first request."),
        (request.epoch < LEAVE_GROUP_MEMBER_EPOCH, "MemberEpoch is invalid."),
    )
    for is_fault, text in faults:
        if is_fault:
            raise BrokerError(ErrorCode.INVALID_REQUEST, text)
