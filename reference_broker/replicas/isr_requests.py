"""AlterPartition: the ISR changes that the leaders on this broker request from the controller.

One request is in flight at a time. All waiting changes go into the next request, which is sent after the answer, or
after a pause if the answer has an error. Whatever happens to connections and controllers, a change stays until the
controller has answered for its partition, or until another change for the partition replaces it.

Source: `DefaultAlterPartitionManager` in Apache Kafka; KIP-497. Kafka rejects a change while an older change for the
same partition is waiting; this broker replaces the older one, since another change comes only with a new term of the
leader.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

from kafkawire.reference_broker.replicas.follower_positions import UNKNOWN_BROKER_EPOCH
from kafkawire.reference_broker.replicas.in_sync import CommittedIsr, ProposedIsr
from kafkawire.reference_broker.work.background import call
from kafkawire.reference_broker.work.timers import nothing
from kafkawire.sdk.errors import BrokerError, Closed
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import LeaderRecoveryState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["PAUSE_MS", "TIMEOUT_MS", "VERSION_WITH_EPOCHS", "AlterPartition", "Answered", "Controller", "IsrChange"]

BrokerState = AlterPartitionRequest.BrokerState
PartitionData = AlterPartitionResponse.PartitionData

#: The pause after an answer with an error, as in Apache Kafka; it is long enough for a change of controller.
PAUSE_MS: Final = 50

#: The time limit for an attempt; each attempt uses the broker epoch that is current when it starts. There is no overall
#: limit, since the followers that a change affects may be needed at any time.
TIMEOUT_MS: Final = 30_000


def _versions(message: type[Message], field: str) -> VersionRange:
    return next(known.versions for known in message.FIELDS if known.name == field)


#: The first version with the epochs of the brokers in the ISR (KIP-903).
VERSION_WITH_EPOCHS: Final = _versions(AlterPartitionRequest.PartitionData, "new_isr_with_epochs").first

_VERSION_WITH_NAMES: Final = _versions(AlterPartitionRequest.TopicData, "topic_name").last

_RECOVERY_STATES: Final = frozenset(LeaderRecoveryState)

_log = logging.getLogger("kafkawire.broker")

#: Called once with the answer for a partition.
Answered = Callable[[CommittedIsr | ErrorCode], None]


class Controller(Protocol):
    """Sends requests to the controller (see `ControllerClient`)."""

    def ask(
        self, message: Message, done: Callable[[Message | Exception], None], timeout_ms: int, version: int | None = None
    ) -> Callable[[], None]:
        """Send a request, and return a function that abandons it; `done` is called once, after this returns."""
        ...


class IsrChange(NamedTuple):
    """A change to one partition's ISR.

    Attributes:
        partition: its topic and number.
        topic_id: the id of the topic; zeros if it has none.
        proposed: the change.
        broker_epochs: the epochs of the other brokers in the ISR, where known (KIP-903).
    """

    partition: Partition
    topic_id: bytes
    proposed: ProposedIsr
    broker_epochs: Mapping[int, int]


class AlterPartition:
    """The changes that the leaders on a broker request.

    Args:
        broker_id: the id of the broker.
        broker_epoch: returns the epoch of its current registration.
        controller: sends the requests.
        later: calls a function after some milliseconds; returns a function that cancels the call.
        now_ms: the clock, used only for log lines.
        version_with_ids: the version of requests in which every topic has an id; see `PeerVersions`.
    """

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        controller: Controller,
        later: Callable[[int, Callable[[], None]], Callable[[], None]],
        now_ms: Callable[[], int],
        version_with_ids: int = VERSION_WITH_EPOCHS,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._later = later
        self._now_ms = now_ms
        self._version_with_ids = version_with_ids
        self._limit = LogLimit(_log)
        #: The unanswered changes, at most one per partition, including those in flight.
        self._changes: dict[Partition, tuple[IsrChange, Answered]] = {}
        #: Whether a request is in flight, or the pause before the next one has not ended.
        self._is_busy = False
        self._is_closed = False
        self._stop: Callable[[], None] = nothing

    def __len__(self) -> int:
        """Return the number of unanswered changes."""
        return len(self._changes)

    def submit(self, change: IsrChange, done: Answered) -> None:
        """Request a change; it replaces an older change for the partition, which then gets no answer.

        Args:
            change: the change.
            done: called once with the answer, after this returns, unless the change is replaced or withdrawn.
        """
        self._changes[change.partition] = change, done
        self._send()

    def withdraw(self, partition: Partition) -> None:
        """Forget the change for a partition that this broker no longer leads, or leads in another epoch.

        If the change has been sent, the controller may still make it.
        """
        self._changes.pop(partition, None)

    def close(self) -> None:
        """Abandon everything."""
        self._is_closed = True
        self._changes.clear()
        self._stop()

    def _send(self) -> None:
        if self._is_busy or self._is_closed or not self._changes:
            return
        self._is_busy = True
        sent = dict(self._changes)
        changes = [each for each, _ in sent.values()]
        request, version, names = _request(self._broker_id, self._broker_epoch(), changes, self._version_with_ids)
        self._stop = self._controller.ask(request, partial(self._answered, sent, names), TIMEOUT_MS, version)

    def _answered(
        self,
        sent: dict[Partition, tuple[IsrChange, Answered]],
        names: dict[bytes, str],
        outcome: Message | Exception,
    ) -> None:
        if self._is_closed or isinstance(outcome, Closed):
            return  # the broker is stopping
        has_errors = True
        if isinstance(outcome, AlterPartitionResponse) and outcome.error_code == ErrorCode.NONE:
            has_errors = self._tell(sent, _answers(outcome, names))
        else:
            if isinstance(outcome, AlterPartitionResponse):
                outcome = BrokerError(outcome.error_code)
            self._limit.warning("failed", self._now_ms(), "AlterPartition will be resent: %s", outcome)
        if has_errors:
            self._stop = self._later(PAUSE_MS, self._continue)
        else:
            self._continue()

    def _tell(
        self, sent: dict[Partition, tuple[IsrChange, Answered]], answers: dict[Partition, CommittedIsr | ErrorCode]
    ) -> bool:
        """Give the leaders their answers; return whether there was an error."""
        has_errors = False
        for partition, entry in sent.items():
            answer = answers.get(partition)
            has_errors |= not isinstance(answer, CommittedIsr)
            if answer is None:  # the change stays, so it will be sent again
                text = "the controller's AlterPartition response omitted %s, so the change will be sent again"
                self._limit.warning("omitted", self._now_ms(), text, partition)
            elif self._changes.get(partition) is entry:
                del self._changes[partition]
                call(entry[1], answer)
        return has_errors

    def _continue(self) -> None:
        self._is_busy = False
        self._send()


def _request(
    broker_id: int, broker_epoch: int, changes: list[IsrChange], version_with_ids: int
) -> tuple[AlterPartitionRequest, int, dict[bytes, str]]:
    """Return a request for changes, its version, and topic names keyed by id; it uses ids if every topic has one."""
    by_id = all(each.topic_id != ZERO_UUID for each in changes)
    version = version_with_ids if by_id else _VERSION_WITH_NAMES
    names: dict[bytes, str] = {}
    partitions: dict[bytes | str, list[AlterPartitionRequest.PartitionData]] = {}
    for (name, number), topic_id, proposed, epochs in changes:
        data = AlterPartitionRequest.PartitionData(
            partition_index=number, leader_epoch=proposed.leader_epoch, partition_epoch=proposed.partition_epoch
        )
        if by_id:
            names[topic_id] = name
        if version >= VERSION_WITH_EPOCHS:
            known = {**epochs, broker_id: broker_epoch}
            data.new_isr_with_epochs = [
                BrokerState(each, known.get(each, UNKNOWN_BROKER_EPOCH)) for each in proposed.isr
            ]
        else:
            data.new_isr = proposed.isr
        partitions.setdefault(topic_id if by_id else name, []).append(data)
    topics = [
        AlterPartitionRequest.TopicData(topic_id=topic, partitions=each)
        if isinstance(topic, bytes)
        else AlterPartitionRequest.TopicData(topic_name=topic, partitions=each)
        for topic, each in partitions.items()
    ]
    request = AlterPartitionRequest(broker_id, broker_epoch, topics)
    return request, version, names


def _answers(response: AlterPartitionResponse, names: dict[bytes, str]) -> dict[Partition, CommittedIsr | ErrorCode]:
    """Return the answers, keyed by partition; answers for unknown topic ids are left out."""
    answers: dict[Partition, CommittedIsr | ErrorCode] = {}
    for topic in response.topics:
        name = names.get(topic.topic_id) if names else topic.topic_name
        for each in topic.partitions:
            if name is not None:
                answers[name, each.partition_index] = _answer(each)
    return answers


def _answer(data: PartitionData) -> CommittedIsr | ErrorCode:
    if data.error_code != ErrorCode.NONE:
        return BrokerError(data.error_code).code  # codes from later releases become UNKNOWN_SERVER_ERROR
    if data.leader_recovery_state not in _RECOVERY_STATES:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return CommittedIsr(tuple(data.isr), data.leader_epoch, data.partition_epoch)
