"""The health of a consumer: what it is waiting for, when brokers last answered, and its current problem.

The reading side determines its health without waiting, because the I/O side may be blocked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.retry import DENIALS, is_denial

if TYPE_CHECKING:
    from kafkawire.sdk.consumer.core import ConsumerCore
    from kafkawire.sdk.consumer.reading.assignment import Reading

__all__ = ["ConsumerHealth", "WaitsFor", "health_of"]


class WaitsFor(Enum):
    """What a consumer, or one of its partitions, is waiting for."""

    #: The application: records or an error are ready to be read, the application must call `seek` or `resume` after an
    #: error (see `stopped`), or the member has left its group because the application does not read.
    APPLICATION = "application"
    #: New records: the brokers have no more at the moment.
    RECORDS = "records"
    #: A lookup of the start offset.
    POSITION = "position"
    #: Metadata about the cluster, a topic that does not exist yet, or a partition that has no leader at the moment.
    METADATA = "metadata"
    #: Access, which the brokers deny at the moment; the consumer asks again, with pauses of up to half a minute.
    ACCESS = "access"
    #: This member's part of a rebalance: the commit before partitions are revoked, or the rebalance listener.
    REBALANCE = "rebalance"
    #: `resume`, because all partitions are paused.
    RESUME = "resume"
    #: A lookup of the group's coordinator, or a session with the group's ZooKeeper.
    COORDINATOR = "coordinator"
    #: The other members of the group, which must also join, or give up partitions.
    JOIN = "join"
    #: An assignment: neither the group nor the application has assigned any partitions.
    ASSIGNMENT = "assignment"
    #: Nothing: the consumer has failed; see the error.
    NOTHING = "nothing"


@dataclass(frozen=True)
class ConsumerHealth:
    """The health of a consumer.

    Attributes:
        waits_for: what has to happen before the next record is handed out. If partitions wait for different things,
            this is what is likely to happen first.
        partitions: what each assigned partition is waiting for.
        loop_lag_ms: how late the last timer of the I/O side was, or how late the current one is; a lag of seconds means
            that the event loop, and with it the heartbeats, is blocked. Only a due timer reveals this: a group member
            has one at least every `heartbeat_interval_ms`, but a consumer without a group may have none for half a
            minute.
        since_heartbeat_ms: the time since the coordinator last confirmed the membership; None without a membership.
        since_fetch_ms: the time since a broker last answered a fetch, with or without records; None before the first
            answer.
        error: the error that all further reads raise, or else the latest unresolved problem; None if there is none.
        stopped: the partitions that stand still until `resume(partition)` or a seek, with the error that has stopped
            each of them, whether or not a read has raised it.
    """

    waits_for: WaitsFor
    partitions: Mapping[TopicPartition, WaitsFor]
    loop_lag_ms: int
    since_heartbeat_ms: int | None
    since_fetch_ms: int | None
    error: Exception | None
    stopped: Mapping[TopicPartition, KafkaWireError] = field(default_factory=dict[TopicPartition, KafkaWireError])


def health_of(core: ConsumerCore, now_ms: int) -> ConsumerHealth:
    """Return the current health of a consumer."""
    partitions = {each: _of_partition(core, reading) for each, reading in list(core.assignment.readings.items())}
    protocol = None if core.group is None else core.group.protocol
    heartbeat_ms = None if protocol is None else protocol.last_heartbeat_ms
    stopped = _stopped(core)
    return ConsumerHealth(
        _of_consumer(core, partitions.values()),
        partitions,
        core.driver.lag_ms(now_ms),
        None if heartbeat_ms is None else now_ms - heartbeat_ms,
        None if core.planner.last_fetch_ms is None else now_ms - core.planner.last_fetch_ms,
        core.queue.failure or _trouble(core, partitions) or next(iter(stopped.values()), None),
        stopped,
    )


#: What a partition can wait for, in order of how soon the wait is likely to end.
_ORDER: Final = (
    WaitsFor.APPLICATION,
    WaitsFor.RECORDS,
    WaitsFor.POSITION,
    WaitsFor.METADATA,
    WaitsFor.ACCESS,
    WaitsFor.REBALANCE,
    WaitsFor.RESUME,
)

#: What a group member without partitions is waiting for in each state of its protocol.
_OF_STATE: Final = {
    "outside": WaitsFor.APPLICATION,
    "preparing": WaitsFor.REBALANCE,
    "ready": WaitsFor.JOIN,
    "joining": WaitsFor.JOIN,
    "syncing": WaitsFor.ASSIGNMENT,
    "adopting": WaitsFor.REBALANCE,
    "stable": WaitsFor.ASSIGNMENT,
    "member": WaitsFor.ASSIGNMENT,
    "fenced": WaitsFor.REBALANCE,
    "registering": WaitsFor.COORDINATOR,
    "reading": WaitsFor.ASSIGNMENT,
    "revoking": WaitsFor.REBALANCE,
    "releasing": WaitsFor.ASSIGNMENT,
    "claiming": WaitsFor.ASSIGNMENT,
    "waiting": WaitsFor.JOIN,
    "lost": WaitsFor.REBALANCE,
}


def _of_consumer(core: ConsumerCore, partitions: Iterable[WaitsFor]) -> WaitsFor:
    if core.queue.failure is not None:
        return WaitsFor.NOTHING
    found = set(partitions)
    if found:
        return next(each for each in _ORDER if each in found)
    if core.queue.errors:
        return WaitsFor.APPLICATION
    if core.router.metadata.changes == 0:
        return WaitsFor.METADATA
    if core.planner.denied.trouble is not None:
        return WaitsFor.ACCESS
    if core.group is None or core.group.protocol is None:
        return WaitsFor.METADATA if core.is_subscribed else WaitsFor.ASSIGNMENT
    protocol = core.group.protocol
    waits_for = _OF_STATE[protocol.state.value]
    if waits_for in (WaitsFor.JOIN, WaitsFor.ASSIGNMENT) and is_denial(core.group.trouble()):
        return WaitsFor.ACCESS
    return WaitsFor.COORDINATOR if waits_for is WaitsFor.JOIN and not core.group.has_coordinator() else waits_for


def _of_partition(core: ConsumerCore, reading: Reading) -> WaitsFor:
    fetch = core.planner.current(reading.partition)
    handout = reading.handout
    if reading.withheld:
        return WaitsFor.REBALANCE
    if reading.paused:
        return WaitsFor.RESUME
    if reading.halted or (fetch is not None and fetch.halted):
        return WaitsFor.APPLICATION
    has_more = (handout is not None and handout.left) or (fetch is not None and fetch.buffered_bytes)
    if has_more and not core.queue.is_awaited:
        return WaitsFor.APPLICATION
    if core.router.metadata.errors.get(reading.partition.topic) in DENIALS:
        return WaitsFor.ACCESS
    if fetch is not None and is_denial(fetch.attempts.last_error):
        return WaitsFor.ACCESS
    if core.router.metadata.leader(reading.partition) is None:
        return WaitsFor.METADATA
    if fetch is None or fetch.position is None:
        return WaitsFor.POSITION
    return WaitsFor.RECORDS


def _stopped(core: ConsumerCore) -> dict[TopicPartition, KafkaWireError]:
    """Return the errors that have stopped partitions."""
    readings = core.assignment.readings
    stopped = {each: error for each, reading in list(readings.items()) if (error := reading.error) is not None}
    for fetched in core.queue.failures():
        reading = readings.get(fetched.partition)
        if fetched.error is not None and reading is not None and reading.epoch == fetched.epoch:
            stopped[fetched.partition] = fetched.error
    return stopped


def _trouble(core: ConsumerCore, partitions: Iterable[TopicPartition]) -> Exception | None:
    """Return the latest unresolved error: one to be raised, or one from the cluster, the coordinator or a partition."""
    error: Exception | None = next(iter(list(core.queue.errors)), None) or core.router.trouble()
    error = error or core.planner.denied.trouble
    if error is None and core.group is not None:
        error = core.group.trouble()
    for partition in partitions:
        fetch = core.planner.current(partition)
        if error is None and fetch is not None:
            error = fetch.attempts.last_error
    return error
