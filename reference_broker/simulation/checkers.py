"""A cluster's invariants, checked after each step and at the end.

After each event on a broker, that broker's replicas are compared with their earlier state: nothing else can have
changed, since a broker changes its logs only in its own events. A replica's batches below its high watermark are
committed: they are recorded here, and every replica that has them later must have the same bytes in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafkawire.reference_broker.cluster.embedded_registry import RegistryCall
from kafkawire.reference_broker.replicas.cluster_replica import ClusterReplica
from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.replicas.roles import Role
from kafkawire.reference_broker.simulation.broker import SimulatedBroker
from kafkawire.reference_broker.simulation.cluster import SimulatedCluster
from kafkawire.reference_broker.simulation.scheduler import Host
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import ControlRecordType
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES
from kafkawire.sdk.protocol.tables.znodes import CONTROLLER_EPOCH, PARTITION_STATE, PartitionState
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.records import walk
from kafkawire.sdk.records.control import control_type
from kafkawire.sdk.registry.registry import Operation, Transaction, path_of
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["LOSSY", "Checkers", "Committed", "Violation", "concerns_states"]

#: A topic id and a partition number.
Key = tuple[bytes, int]

_STATE_END = "/state"

#: The partition that may lose records, since unclean elections are allowed there.
LOSSY = TopicPartition("lossy", 0)


def concerns_states(operation: Operation) -> bool:
    """Return whether an operation reads or writes the state of a partition."""
    parts = operation.operations if isinstance(operation, Transaction) else (operation,)
    return any(path_of(part).endswith(_STATE_END) for part in parts)


class Violation(Exception):
    """An invariant does not hold."""


class Committed:
    """The committed batches of a partition.

    Attributes:
        batches: the batches, keyed by base offset.
        end: the offset after the last batch.
        acknowledged: the values that were acknowledged to a producer, keyed by offset.
        deletions: where the records of the partition begin, and the virtual time since which this is acknowledged.
    """

    def __init__(self) -> None:
        self.batches: dict[int, bytes] = {}
        self.end = 0
        self.acknowledged: dict[int, bytes] = {}
        self.deletions: list[tuple[int, int]] = []

    def values(self, *, is_committed: bool = False) -> Iterator[tuple[int, bytes]]:
        """Yield the offset and value of each record.

        Args:
            is_committed: whether to leave out records in transactions that were not committed.
        """
        found: dict[int, bytes] = {}
        open_values: dict[int, dict[int, bytes]] = {}
        for _, data in sorted(self.batches.items()):
            for batch in walk(data):
                if batch.is_control:
                    for record in batch.records():
                        kept = open_values.pop(batch.producer_id, {})
                        if control_type(record).type is ControlRecordType.COMMIT:
                            found.update(kept)
                    continue
                values = {record.offset: bytes(record.value or b"") for record in batch.records()}
                if is_committed and batch.is_transactional:
                    open_values.setdefault(batch.producer_id, {}).update(values)
                else:
                    found.update(values)
        yield from sorted(found.items())


class _Seen:
    """A replica as it was after an earlier step; its bytes have been compared up to `checked`."""

    __slots__ = ("checked", "end", "epoch", "high_watermark", "leads_since", "role", "start")

    def __init__(self) -> None:
        self.checked = 0
        self.end = 0
        self.epoch = -1
        self.high_watermark = 0
        self.role = Role.CREATED
        self.start = 0
        #: The epoch since which the replica has led without a break.
        self.leads_since = -1


class _Elected(NamedTuple):
    """The state of a partition in the registry."""

    czxid: int
    version: int
    state: PartitionState


class Checkers:
    """Checks the invariants of a cluster.

    Args:
        cluster: the cluster to check.

    Attributes:
        committed: the committed batches, keyed by partition.
        checks: how many replicas have been compared.
        lossy: the batches of the partition that may lose records, by topic id, leader epoch and base offset.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.committed: dict[Key, Committed] = {}
        self.checks = 0
        self._seen: dict[Replica, _Seen] = {}
        self.leaders: dict[tuple[Key, int], str] = {}
        self._led_since_us: dict[tuple[Key, int], int] = {}
        self._states: dict[str, _Elected] = {}
        self._has_new_states = False
        self.names: dict[bytes, str] = {}
        #: The highest offset before which records were to be deleted.
        self._deleted_to: dict[TopicPartition, int] = {}
        self.lossy: dict[tuple[bytes, int, int], bytes] = {}

    # After each step.

    def note_call(self, call: RegistryCall) -> None:
        """Record an operation that has reached the registry."""
        if concerns_states(call.operation):
            self._has_new_states = True

    def after_step(self, host: Host) -> None:
        """Check everything that an event on a host may have changed.

        Raises:
            Violation: an invariant does not hold.
        """
        if self._has_new_states:
            self._has_new_states = False
            self._check_states()
        for broker in self._cluster.brokers.values():
            if broker.host is host:
                self.check_broker(broker)
                return

    def check_broker(self, broker: SimulatedBroker) -> None:
        """Check the replicas of a broker.

        Raises:
            Violation: an invariant does not hold.
        """
        if broker.core is None:
            return
        seen = self._seen
        for partition, replica in broker.core.replicas.all():
            known = seen.get(replica)
            log = replica.log
            if known is None:
                known = seen[replica] = _Seen()
            elif (
                known.high_watermark == log.high_watermark
                and known.end == log.next_offset
                and known.start == log.log_start_offset
                and known.epoch == replica.leader_epoch
                and known.role is replica.role
            ):
                continue
            if replica.topic_id != ZERO_UUID and not log.is_offline and not log.is_unsettled:
                self._check_replica(broker, partition, replica, known)

    def _check_replica(self, broker: SimulatedBroker, partition: Partition, replica: Replica, known: _Seen) -> None:
        self.checks += 1
        log, key = replica.log, (replica.topic_id, partition[1])
        where = f"{partition[0]}-{partition[1]} on broker {broker.broker_id}"
        committed = self.committed.get(key)
        if committed is None:
            committed = self.committed[key] = Committed()
            self.names[replica.topic_id] = partition[0]
        is_same_term = known.role is replica.role is Role.LEADER and known.epoch == replica.leader_epoch
        if is_same_term and log.high_watermark < known.high_watermark:
            raise Violation(
                f"{where}: the leader's high watermark moved back from {known.high_watermark} to {log.high_watermark}"
            )
        if log.next_offset < known.checked:
            known.checked = min(known.checked, log.next_offset)
        if partition == LOSSY:
            self._compare_lossy(where, replica, known)
        else:
            self._check_start(where, replica, committed, known)
            self._compare(where, log, committed, known, log.high_watermark)
        if is_same_term and log.high_watermark > known.high_watermark:
            self._check_commit(where, partition, replica, known)
        if replica.role is Role.LEADER and not is_same_term:
            if known.role is not Role.LEADER or replica.leader_epoch > known.epoch + 1:
                known.leads_since = replica.leader_epoch
            self._check_leader(where, broker, replica, key, committed, known)
        known.start = log.log_start_offset
        known.high_watermark, known.end = log.high_watermark, log.next_offset
        known.epoch, known.role = replica.leader_epoch, replica.role

    def _check_leader(
        self, where: str, broker: SimulatedBroker, replica: Replica, key: Key, committed: Committed, known: _Seen
    ) -> None:
        """Check a replica that has become the leader."""
        name = f"broker {broker.broker_id}"
        other = self.leaders.setdefault((key, replica.leader_epoch), name)
        if other != name:
            raise Violation(f"{where} leads in epoch {replica.leader_epoch}, but {other} already leads in it")
        now_us = self._cluster.scheduler.now_us
        self._led_since_us.setdefault((key, replica.leader_epoch), now_us)
        later_us = min(
            (us for (each, epoch), us in self._led_since_us.items() if each == key and epoch > replica.leader_epoch),
            default=now_us + 1,
        )
        if later_us < broker.since_us:
            raise Violation(f"{where} leads in epoch {replica.leader_epoch}, which was over when the broker started")
        if later_us <= now_us or self.names[replica.topic_id] == LOSSY.topic:
            return  # a paused broker learns late that it led in an epoch that is over by now
        for start, time_us in committed.deletions:
            if broker.since_us < time_us and replica.log.log_start_offset < start:
                raise Violation(
                    f"{where} leads with a log that begins at {replica.log.log_start_offset}, "
                    f"but records before {start} are deleted"
                )
        if replica.log.next_offset < committed.end:
            raise Violation(
                f"{where} leads in epoch {replica.leader_epoch} with a log up to {replica.log.next_offset}, "
                f"but records up to {committed.end} are committed"
            )
        known.checked = 0
        self._compare(where, replica.log, committed, known, committed.end)

    def _check_commit(self, where: str, partition: Partition, replica: Replica, known: _Seen) -> None:
        """Check a leader that has moved its high watermark: the whole ISR has the records, and follows this leader."""
        if not isinstance(replica, ClusterReplica):
            return
        elected = self._states.get(PARTITION_STATE.path(*partition))
        if elected is not None and elected.state.leader_epoch == replica.leader_epoch:
            left_out = {*elected.state.isr} - replica.maximal_isr
            if left_out:
                raise Violation(f"{where} has committed records without {left_out}, which are in sync")
        for broker_id in sorted(replica.maximal_isr):
            broker = self._cluster.brokers.get(broker_id)
            other = None if broker is None or broker.core is None else broker.core.replicas.get(*partition)
            if other is None or other.role is not Role.FOLLOWER:
                continue
            if other.leader_epoch < known.leads_since:
                raise Violation(
                    f"{where} counts broker {broker_id}, which follows in epoch {other.leader_epoch}, "
                    f"but this leader leads since epoch {known.leads_since}"
                )
            if other.leader_epoch == replica.leader_epoch and other.log.next_offset < replica.log.high_watermark:
                raise Violation(
                    f"{where} has committed records up to {replica.log.high_watermark}, "
                    f"but broker {broker_id}, which is in sync, has them up to {other.log.next_offset}"
                )

    @staticmethod
    def _check_start(where: str, replica: Replica, committed: Committed, known: _Seen) -> None:
        start = replica.log.log_start_offset
        if start < known.start:
            raise Violation(f"{where}: the start moved back from {known.start} to {start}")
        if start > max(committed.end, replica.log.high_watermark):
            raise Violation(f"{where}: the log begins at {start}, but only {committed.end} are committed")

    def _compare_lossy(self, where: str, replica: Replica, known: _Seen) -> None:
        """Compare the batches of a log that may lose records: those of one epoch come from one leader."""
        log = replica.log
        for base, epoch, batch in self._batches(where, log, known.checked, log.next_offset):
            if self.lossy.setdefault((replica.topic_id, epoch, base), batch) != batch:
                raise Violation(f"{where} has a different batch at {base} from the one of epoch {epoch}")
            known.checked = parse_header(batch).last_offset + 1

    def _compare(self, where: str, log: PartitionLog, committed: Committed, known: _Seen, end: int) -> None:
        """Compare a log with the committed batches, and add newly committed ones."""
        for base, _, batch in self._batches(where, log, known.checked, end):
            last = parse_header(batch).last_offset
            self._compare_batch(where, committed, base, last, batch)
            known.checked = last + 1

    @staticmethod
    def _batches(where: str, log: PartitionLog, first: int, end: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield base offset, leader epoch and bytes of the batches of a log."""
        offset = max(first, log.log_start_offset)
        while offset < end:
            try:
                records = log.read(offset, 2**30, at_least_one=True, up_to=end).records
            except BrokerError as error:
                raise Violation(f"{where} cannot be read at {offset}: {error}") from error
            if records is None:
                raise Violation(f"{where} has nothing at {offset}, but its high watermark is {end}")
            data = bytes(records.read())
            position = 0
            while position < len(data):
                header = parse_header(data, position)
                batch = data[position : position + header.size_bytes]
                if len(batch) < max(header.size_bytes, BATCH_HEADER_BYTES):
                    raise Violation(f"{where} has a damaged batch at {offset}")
                position += header.size_bytes
                offset = header.last_offset + 1
                yield header.base_offset, header.leader_epoch, batch

    def _compare_batch(self, where: str, committed: Committed, base: int, last: int, batch: bytes) -> None:
        other = committed.batches.get(base)
        if other is None:
            if base < committed.end:
                raise Violation(f"{where} has a batch at {base}, which is within another committed batch")
            committed.batches[base] = batch
            committed.end = last + 1
        elif other != batch:
            raise Violation(f"{where} has a different batch at {base} from the committed one")

    def _check_states(self) -> None:
        """Check the leaders and ISRs in the registry."""
        states, epoch = {}, 0
        for node in self._cluster.registry.tree.nodes():
            if node.path == CONTROLLER_EPOCH.path():
                epoch = CONTROLLER_EPOCH.decode(node.data or b"", node.path)
            if node.path.endswith(_STATE_END):
                state = PARTITION_STATE.decode(node.data or b"", node.path)
                states[node.path] = _Elected(node.czxid, node.version, state)
        for path, elected in states.items():
            before = self._states.get(path)
            if before is not None and before.czxid == elected.czxid and before.version != elected.version:
                self.check_election(path, before.state, elected.state)
                self.check_in_sync(path, elected.state)
                if elected.state.controller_epoch < epoch:
                    raise Violation(f"{path}: a replaced controller has written {elected.state} in epoch {epoch}")
        self._states = states

    def check_in_sync(self, path: str, state: PartitionState) -> None:
        """Check that all replicas in the ISR have all committed records."""
        *_, topic, _, number, _ = path.split("/")
        for broker_id in state.isr:
            broker = self._cluster.brokers.get(broker_id)
            replica = None if broker is None or broker.core is None else broker.core.replicas.get(topic, int(number))
            if replica is None or replica.role is not Role.FOLLOWER or replica.leader_epoch != state.leader_epoch:
                continue
            end = self.end_of(replica.topic_id, int(number))
            if replica.log.next_offset < end:
                raise Violation(
                    f"{path}: broker {broker_id} is in sync with a log up to {replica.log.next_offset}, "
                    f"but records up to {end} are committed"
                )

    @staticmethod
    def check_election(path: str, before: PartitionState, after: PartitionState) -> None:
        if after.leader_epoch < before.leader_epoch or after.controller_epoch < before.controller_epoch:
            raise Violation(f"{path}: epochs moved back from {before} to {after}")
        if after.leader != before.leader:
            is_lossy = path == PARTITION_STATE.path(*LOSSY)
            if is_lossy and after.leader >= 0 and after.leader not in before.isr and after.isr != (after.leader,):
                raise Violation(f"{path}: {after.leader} is elected unclean, but is not alone in sync: {after}")
            if not is_lossy and after.leader >= 0 and after.leader not in before.isr:
                raise Violation(f"{path}: {after.leader} is elected, but not in sync: {before}")
            if after.leader_epoch == before.leader_epoch:
                raise Violation(f"{path}: the leader changed without a new epoch: {before} to {after}")
        if not after.isr:
            raise Violation(f"{path}: no replica is in sync: {after}")

    # Producers.

    def acknowledged(
        self, topic: str, topic_id: bytes, number: int, base_offset: int, values: tuple[bytes, ...]
    ) -> None:
        """Record that values were acknowledged to a producer as being on all in-sync replicas.

        Raises:
            Violation: the values are not committed.
        """
        committed = self.committed.get((topic_id, number)) or Committed()
        end = base_offset + len(values)
        if committed.end < end:
            raise Violation(
                f"{topic}-{number}: offset {end - 1} is acknowledged, but only {committed.end} are committed"
            )
        for offset, value in enumerate(values, base_offset):
            committed.acknowledged[offset] = value

    def is_committed(self, topic_id: bytes, number: int, values: tuple[bytes, ...]) -> bool:
        """Return whether values are committed."""
        committed = self.committed.get((topic_id, number)) or Committed()
        return {*values} <= {value for _, value in committed.values()}

    # Deletions.

    def end_of(self, topic_id: bytes, number: int) -> int:
        """Return the end of the committed records."""
        return (self.committed.get((topic_id, number)) or Committed()).end

    def deletion_asked(self, partition: TopicPartition, offset: int) -> None:
        """Note that the records before an offset may be deleted from now on."""
        self._deleted_to[partition] = max(self._deleted_to.get(partition, 0), offset)

    def may_be_deleted(self, partition: TopicPartition, offset: int) -> bool:
        """Return whether the record at an offset may have been deleted."""
        return offset < self._deleted_to.get(partition, 0)

    def deleted(self, topic_id: bytes, number: int, start: int) -> None:
        """Note that a deletion was acknowledged: no broker that has been alive since then leads with older records."""
        self.committed[topic_id, number].deletions.append((start, self._cluster.scheduler.now_us))

    def start_at(self, broker_id: int, partition: TopicPartition) -> int:
        """Return where the log on a broker begins now."""
        broker = self._cluster.brokers.get(broker_id)
        replica = None if broker is None or broker.core is None else broker.core.replicas.get(*partition)
        return 0 if replica is None else replica.log.log_start_offset

    # At the end.

    def unsettled(self) -> str:
        """Return why the cluster is not at rest; empty if each partition is led, with replicas in sync and equal."""
        brokers = self._cluster.brokers
        if len(brokers) < len(self._cluster.disks) or not all(each.is_announced for each in brokers.values()):
            return "not all brokers are up"
        cores = {broker_id: broker.core for broker_id, broker in brokers.items() if broker.core is not None}
        image = next(iter(cores.values())).metadata.image
        self._check_states()
        for topic in image.topics.values():
            for number, partition in enumerate(topic.partitions):
                where = f"{topic.name}-{number}"
                stored = self._states[PARTITION_STATE.path(topic.name, number)].state
                if (stored.leader, stored.leader_epoch) != (partition.leader, partition.leader_epoch):
                    return f"{where}: the registry has {stored}, but the brokers have {partition}"
                if partition.leader not in brokers or {*partition.isr} != {*partition.replicas}:
                    return f"{where}: leader {partition.leader}, isr {partition.isr}, replicas {partition.replicas}"
                ends = set()
                leader = cores[partition.leader].replicas.get(topic.name, number)
                for broker_id in partition.replicas:
                    replica = cores[broker_id].replicas.get(topic.name, number)
                    if replica is None or replica.log.is_offline:
                        return f"{where}: broker {broker_id} has no replica"
                    if replica.log.is_unsettled:
                        return f"{where}: a truncation is in progress on broker {broker_id}"
                    log = replica.log
                    if leader is not None and log.log_start_offset < leader.log.log_start_offset:
                        return f"{where}: the log on broker {broker_id} begins earlier than the leader's"
                    ends.add((log.next_offset, log.high_watermark, log.last_stable_offset))
                if len(ends) != 1 or len({*next(iter(ends))}) != 1:
                    return f"{where}: (end, high watermark, last stable offset) are {sorted(ends)}"
        return ""

    def check_end(self) -> None:
        """Check a cluster at rest.

        Raises:
            Violation: an invariant does not hold.
        """
        self._seen.clear()
        for broker in self._cluster.brokers.values():
            self.check_broker(broker)
        self._check_lossy()
        for (topic_id, number), committed in self.committed.items():
            self._check_acknowledged(f"{self.names[topic_id]}-{number}", committed)

    def _check_lossy(self) -> None:
        """Check that all replicas of the partition that may lose records are equal."""
        cores = {broker_id: broker.core for broker_id, broker in self._cluster.brokers.items()}
        logs = set()
        for core in cores.values():
            topic = None if core is None else core.metadata.image.topics.get(LOSSY.topic)
            for broker_id in () if topic is None else topic.partition(LOSSY.partition).replicas:
                assigned = cores[broker_id]
                replica = None if assigned is None else assigned.replicas.get(*LOSSY)
                if replica is not None:
                    log = replica.log
                    logs.add(tuple(batch for _, _, batch in self._batches(str(LOSSY), log, 0, log.next_offset)))
        if len(logs) > 1:
            raise Violation(f"{LOSSY}: the logs differ")

    @staticmethod
    def _check_acknowledged(where: str, committed: Committed) -> None:
        found = dict(committed.values())
        for offset, value in committed.acknowledged.items():
            if found.get(offset) != value:
                raise Violation(f"{where}: {value!r} was acknowledged at {offset}, but {found.get(offset)!r} is there")

    def of_topic(self, topic: str) -> Mapping[int, Committed]:
        """Return the committed batches in each partition of a topic that was never deleted."""
        return {
            number: committed
            for (topic_id, number), committed in self.committed.items()
            if self.names[topic_id] == topic
        }
