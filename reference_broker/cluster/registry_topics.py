"""The topics in a cluster, which any broker can create, change and delete by writing to the registry.

    request ──▶ RegistryTopics ──write──▶ registry ──▶ controller ──UpdateMetadata──▶ image ──▶ response

A change is complete once this broker's image shows it: new partitions have leaders, and deleted topics are gone.
Brokers and their racks are taken from the image. A topic's configurations are changed through `RegistryConfigs`.

Source: `ZkAdminManager`, `AdminZkClient`, `AutoTopicCreationManager` in Apache Kafka 3.9, whose error texts are kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from kafkawire.reference_broker.cluster.controller.cluster_reader import stored_topic
from kafkawire.reference_broker.cluster.controller.refusals import Refused
from kafkawire.reference_broker.cluster.controller.replica_assignment import (
    CandidateBroker,
    Start,
    assign_new_partitions,
    assign_replicas,
    check_chosen_brokers,
    check_increase,
    check_manual_assignment,
)
from kafkawire.reference_broker.cluster.controller.topic_changes import (
    add_partitions,
    check_new_topic,
    create_topic,
    mark_for_deletion,
)
from kafkawire.reference_broker.cluster.image_waits import WAITS_MAX, ImageWaits, Shows
from kafkawire.reference_broker.cluster.registry_failures import broker_error
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.config_store import ConfigStore, Revise
from kafkawire.reference_broker.metadata.image import MetadataDelta, PartitionImage, TopicImage
from kafkawire.reference_broker.metadata.internal_topics import INTERNAL_TOPICS, plan_topic
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.metadata.new_topics import (
    DEFAULT,
    NewTopic,
    check_characters,
    check_no_nulls,
    plan_configs,
)
from kafkawire.reference_broker.metadata.topic_controller import (
    WAIT_MS_MAX,
    Permit,
    TopicDone,
    TopicTexts,
    unlimited,
)
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS
from kafkawire.sdk.protocol.tables.enums import (
    CLUSTER_METADATA_TOPIC,
    CONSUMER_OFFSETS_TOPIC,
    NO_LEADER_ID,
    TRANSACTION_STATE_TOPIC,
    ConfigResourceType,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import TOPIC, TOPIC_DELETION
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.registry.acls import default_acl
from kafkawire.sdk.registry.registry import Data, Exists, GetData, Registry, Stat
from kafkawire.sdk.registry.steps import Steps, across_sessions, found, read, run

__all__ = ["AUTOMATIC_WAIT_MS", "RandomChoices", "RegistryTopics", "ReplicationFactors"]

_log = logging.getLogger("kafkawire.broker")

#: How long the creation of a topic by the broker itself waits for the image: the default of Kafka's
#: `request.timeout.ms`.
AUTOMATIC_WAIT_MS: Final = 30_000

#: The pause after failing to read the size of an internal topic before the size may be read again on demand.
_READ_AGAIN_MS: Final = 1_000

#: A time that never comes; set while the size is being read.
_NOT_AGAIN_MS: Final = 2**63

_TEXTS: Final = TopicTexts(
    created_twice="Found multiple entries for this topic.",
    extended_twice="Duplicate topic in request.",
    missing="The topic '{}' does not exist.",
    may_not_be_extended="The topic authorization is failed.",
)


def _default(name: str) -> int:
    return int(BROKER_CONFIGS[name].default or 1)


class ReplicationFactors(NamedTuple):
    """The replication factors for topics whose requests do not specify one.

    Attributes:
        default: `default.replication.factor`.
        offsets: `offsets.topic.replication.factor`.
        transactions: `transaction.state.log.replication.factor`.
        transactions_in_sync: `transaction.state.log.min.isr`, which becomes that topic's `min.insync.replicas`.
    """

    default: int = _default("default.replication.factor")
    offsets: int = _default("offsets.topic.replication.factor")
    transactions: int = _default("transaction.state.log.replication.factor")
    transactions_in_sync: int = _default("transaction.state.log.min.isr")

    def of(self, topic: str) -> int:
        """Return the replication factor of a topic that is created automatically."""
        return {CONSUMER_OFFSETS_TOPIC: self.offsets, TRANSACTION_STATE_TOPIC: self.transactions}.get(
            topic, self.default
        )

    def plan(self, name: str, options: BrokerOptions) -> NewTopic:
        """Return the plan for an automatically created topic; `plan_topic` is the equivalent for a single broker."""
        planned = plan_topic(name, options)
        configs = planned.configs
        if name == TRANSACTION_STATE_TOPIC:
            configs = {**configs, "min.insync.replicas": str(self.transactions_in_sync)}
        return planned._replace(replication_factor=self.of(name), configs=configs)


class RandomChoices(NamedTuple):
    """The random properties of a new topic.

    Attributes:
        topic_id: returns a new id of 16 bytes.
        start: returns where a topic's assignment starts, given the number of brokers.
    """

    topic_id: Callable[[], bytes]
    start: Callable[[int], Start]


class _Planned(NamedTuple):
    """A checked topic: the replicas of each partition, and the configurations."""

    assignments: dict[int, tuple[int, ...]]
    configs: Mapping[str, str]


class RegistryTopics:
    """The topics in a cluster; see `TopicController`. `changed` must be registered as a listener of the metadata.

    Args:
        registry: holds the topics.
        metadata: this broker's image.
        configs: changes the configurations of topics.
        options: broker options.
        factors: the default replication factors.
        choices: see `RandomChoices`.
        timers: timers for the deadlines of waits.
        clock: returns the time in ms.
        is_secure: whether only brokers may change the nodes (`zookeeper.set.acl`).
        deletes_topics: `delete.topic.enable`.

    Attributes:
        acts_without_time: see `TopicController`.
        answers_each: see `TopicController`.
        deletes_topics: see `TopicController`.
        texts: see `TopicController`.
        waits: everything that is waiting for the image, here and in other parts of the broker.
    """

    def __init__(
        self,
        registry: Registry,
        metadata: MetadataCache,
        configs: ConfigStore,
        options: BrokerOptions,
        factors: ReplicationFactors,
        choices: RandomChoices,
        timers: Timers,
        clock: Callable[[], int],
        *,
        is_secure: bool = False,
        deletes_topics: bool = True,
    ) -> None:
        self.acts_without_time = self.answers_each = True  # as in Apache Kafka 3 with ZooKeeper
        self.deletes_topics = deletes_topics
        self.texts = _TEXTS
        self._registry = registry
        self._metadata = metadata
        self._configs = configs
        self._options = options
        self._factors = factors
        self._choices = choices
        self._clock = clock
        self._acl = default_acl(is_secure=is_secure)
        self.waits = ImageWaits(metadata, timers, clock)
        self._lines = LogLimit(_log)
        #: Topics that are being created here, with the callbacks waiting for them.
        self._creating: dict[str, list[TopicDone]] = {}
        #: The stored number of partitions of internal topics, keyed by name and id; None if the registry does not
        #: provide it.
        self._sizes: dict[tuple[str, bytes], int | None] = {}
        #: For each internal topic, when its size may be read again.
        self._read_again_ms: dict[tuple[str, bytes], int] = {}

    def changed(self, delta: MetadataDelta) -> None:
        """Handle a change to the image."""
        for change in delta.topics:
            if change.is_deletion and change.before is not None:
                key = change.name, change.before.topic_id
                self._sizes.pop(key, None)
                self._read_again_ms.pop(key, None)
            elif change.after is not None:
                self.size_of(change.after)
        self.waits.changed(delta)

    # Creating.

    def check_name(self, name: str) -> None:
        _check_allowed(name)
        check_characters(name)
        self._check_missing(name)

    def _check_missing(self, name: str) -> None:
        if name in self._metadata.image.topics or name in self._creating:
            raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")

    def create(
        self,
        new: NewTopic,
        done: TopicDone,
        *,
        wait_ms: int = WAIT_MS_MAX,
        validate_only: bool = False,
        permit: Permit = unlimited,
    ) -> None:
        # The order of `ZkAdminManager.createTopics` in Apache Kafka 3.9; `_plan` continues it.
        try:
            _check_allowed(new.name)
            self._check_missing(new.name)
            check_no_nulls(new.configs)
        except BrokerError as error:
            done(error)
            return
        if validate_only:
            run(self._registry, self._plan(new), lambda planned: done(_planned(new, planned)), self._refuse(new, done))
        else:
            self._create(new, done, min(wait_ms, WAIT_MS_MAX), permit)

    def create_by_default(self, name: str, done: TopicDone, permit: Permit = unlimited) -> None:
        if name not in self._creating:
            self.check_name(name)
        self._create_automatically(name, done, permit)

    def ensure(self, name: str, done: TopicDone) -> None:
        topic = self._metadata.image.topics.get(name)
        if topic is None:
            self._create_automatically(name, done)
        elif name not in INTERNAL_TOPICS or self._sizes.get((name, topic.topic_id)) is not None:
            done(topic)
        else:
            self._measure(topic, done)

    def size_of(self, topic: TopicImage) -> int:
        if topic.name not in INTERNAL_TOPICS:
            return len(topic.partitions)
        key = topic.name, topic.topic_id
        if key in self._sizes:
            size = self._sizes[key]
            return len(topic.partitions) if size is None else size

        def ended(made: TopicImage | BrokerError) -> None:
            self._read_again_ms[key] = self._clock() + _READ_AGAIN_MS

        now_ms = self._clock()
        if now_ms >= self._read_again_ms.get(key, now_ms):
            self._read_again_ms[key] = _NOT_AGAIN_MS
            self._measure(topic, ended)
        return 0

    def _create_automatically(self, name: str, done: TopicDone, permit: Permit = unlimited) -> None:
        def created(made: TopicImage | BrokerError) -> None:
            if isinstance(made, BrokerError):
                subject, reason = (RegistryTopics, made.code), made.detail or made.code.name
                self._lines.warning(subject, self._clock(), "could not create the topic %s: %s", name, reason)
            done(made)

        def announced(made: TopicImage | BrokerError) -> None:
            if isinstance(made, BrokerError):
                created(made)
            else:
                self.ensure(name, created)  # this reads its size

        def attempted(made: TopicImage | BrokerError) -> None:
            if isinstance(made, BrokerError) and made.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                # Another broker is creating the topic at the same time.
                self._await(name, _has_leaders, announced, AUTOMATIC_WAIT_MS)
            else:
                created(made)

        self._create(self._factors.plan(name, self._options), attempted, AUTOMATIC_WAIT_MS, permit)

    def _create(self, new: NewTopic, done: TopicDone, wait_ms: int, permit: Permit = unlimited) -> None:
        """Create a topic, or wait for a creation already in progress, whose time limit then applies."""
        name = new.name
        if (waiting := self._creating.get(name)) is not None:
            if len(waiting) < WAITS_MAX:
                waiting.append(done)
            else:
                done(
                    BrokerError(
                        ErrorCode.REQUEST_TIMED_OUT, f"{WAITS_MAX} requests are already waiting for the topic {name}."
                    )
                )
            return
        self._creating[name] = [done]

        def ended(made: TopicImage | BrokerError) -> None:
            for each in self._creating.pop(name):
                each(made)

        def written(stored: tuple[bytes, int]) -> None:
            topic_id, count = stored
            if name in INTERNAL_TOPICS:
                self._sizes[name, topic_id] = count
            self._await(name, _shows(topic_id, count), ended, wait_ms)

        run(self._registry, self._write(new, permit), written, self._refuse(new, ended))

    def _refuse(self, new: NewTopic, done: TopicDone) -> Callable[[Exception], None]:
        return lambda error: done(broker_error(error, f"the topic {new.name} was not created"))

    def _plan(self, new: NewTopic) -> Steps[_Planned]:
        """Check a topic: the numbers, the characters of the name, similar names, the assignment, the configurations.

        Raises:
            Refused: the topic cannot be created.
            BrokerError: the name or a configuration is invalid.
        """
        assignments = self._assignments(new)
        check_characters(new.name)
        yield from across_sessions(lambda: check_new_topic(new.name))
        check_manual_assignment(assignments, self._metadata.image.brokers)
        return _Planned(assignments, plan_configs(self._options, new.configs))

    def _write(self, new: NewTopic, permit: Permit) -> Steps[tuple[bytes, int]]:
        """Create a topic; return its id and its number of partitions."""
        assignments, configs = yield from self._plan(new)
        permit(len(assignments))
        topic_id = self._choices.topic_id()
        yield from across_sessions(lambda: create_topic(new.name, configs, assignments, topic_id, self._acl))
        return topic_id, len(assignments)

    def _assignments(self, new: NewTopic) -> dict[int, tuple[int, ...]]:
        if new.assignments:
            if new.partitions != DEFAULT or new.replication_factor != DEFAULT:
                text = "Both numPartitions or replicationFactor and replicasAssignments were set."
                raise Refused(ErrorCode.INVALID_REQUEST, f"{text} Both cannot be used at the same time.")
            return {number: tuple(broker_ids) for number, broker_ids in new.assignments}
        brokers = self._brokers()
        count = self._options.num_partitions if new.partitions == DEFAULT else new.partitions
        factor = self._factors.default if new.replication_factor == DEFAULT else new.replication_factor
        start = self._choices.start(len(brokers)) if brokers else Start(0, 0)
        return assign_replicas(brokers, count, factor, start)

    def _brokers(self) -> list[CandidateBroker]:
        """Return the live brokers in ascending order of id."""
        brokers = self._metadata.image.brokers
        return [CandidateBroker(broker_id, brokers[broker_id].rack) for broker_id in sorted(brokers)]

    def _measure(self, topic: TopicImage, done: TopicDone) -> None:
        """Read the number of partitions of an internal topic."""

        def failed(error: Exception) -> None:
            done(broker_error(error, f"the number of partitions of topic {topic.name} is unknown"))

        run(self._registry, across_sessions(lambda: self._count(topic)), lambda _: done(topic), failed)

    def _count(self, topic: TopicImage) -> Steps[None]:
        stored = stored_topic(topic.name, (yield from read(TOPIC.path(topic.name))))
        is_here = stored is not None and (stored.topic_id or ZERO_UUID) == topic.topic_id
        self._sizes[topic.name, topic.topic_id] = len(stored.assignments) if stored is not None and is_here else None

    # Deleting.

    def delete(self, topic: TopicImage, now_ms: int, done: Callable[[BrokerError | None], None]) -> None:
        def is_gone(present: TopicImage | None) -> bool:
            return present is None or present.topic_id != topic.topic_id

        def failed(error: Exception) -> None:
            done(broker_error(error, f"the topic {topic.name} was not deleted"))

        run(
            self._registry,
            self._mark(topic),
            lambda _: self.waits.wait(topic.name, is_gone, done, WAIT_MS_MAX),
            failed,
        )

    def _mark(self, topic: TopicImage) -> Steps[None]:
        """Have the controller delete a topic, unless the name now belongs to another topic."""
        is_marked = False

        def mark() -> Steps[None]:
            nonlocal is_marked
            data = yield from read(TOPIC.path(topic.name))
            stored = stored_topic(topic.name, data)
            is_another = stored is not None and (stored.topic_id or ZERO_UUID) != topic.topic_id
            if is_marked and (data is None or is_another):
                return  # already deleted; only the outcome of the mark was lost
            if is_another:
                raise _not_here(topic.name)
            is_marked = True
            yield from mark_for_deletion(topic.name, self._acl)

        yield from across_sessions(mark)

    # Changes to a topic.

    def check_partitions(self, topic: TopicImage, count: int) -> int:
        present = len(topic.partitions)
        with _for_clients():
            check_increase(present, count)
        return count - present

    def check_assignments(self, assignments: Sequence[Sequence[int]], additional: int) -> Work[None]:
        with _for_clients():
            check_chosen_brokers(assignments, additional, self._metadata.image.brokers)
        yield

    def add_partitions(
        self,
        topic: TopicImage,
        count: int,
        done: TopicDone,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        wait_ms: int = WAIT_MS_MAX,
        validate_only: bool = False,
        permit: Permit = unlimited,
    ) -> None:
        def added(result: None) -> None:
            if validate_only:
                done(topic)
            else:
                self._await(topic.name, _shows(topic.topic_id, count), done, min(wait_ms, WAIT_MS_MAX))

        def failed(error: Exception) -> None:
            done(broker_error(error, f"no partitions were added to the topic {topic.name}"))

        steps = self._extend(topic, count, assignments, None if validate_only else permit)
        run(self._registry, steps, added, failed)

    def _extend(
        self, topic: TopicImage, count: int, chosen: Sequence[Sequence[int]] | None, permit: Permit | None
    ) -> Steps[None]:
        """Add partitions to a topic; without a permit, only check whether that is possible.

        Raises:
            Refused: the partitions cannot be added.
            BrokerError: raised by `permit`.
        """
        name, path = topic.name, TOPIC.path(topic.name)
        data = yield from across_sessions(lambda: _read_lasting(name))
        stored = None if data is None else TOPIC.decode(data.data, path)
        if stored is None or not stored.partitions or (stored.topic_id or ZERO_UUID) != topic.topic_id:
            raise _not_here(name)
        if any(stored.adding_replicas.values()) or any(stored.removing_replicas.values()):
            text = f"A partition reassignment is in progress for the topic '{name}'."
            raise Refused(ErrorCode.REASSIGNMENT_IN_PROGRESS, text)
        present = len(stored.partitions)
        check_increase(present, count)
        if set(stored.partitions) != set(range(present)):
            text = f"the partition numbers of topic {name} have gaps; the highest is {max(stored.partitions)}"
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, text)
        brokers = self._brokers()
        if chosen is None:
            new = assign_new_partitions(stored.partitions, brokers, count)
        else:
            check_chosen_brokers(chosen, count - present, self._metadata.image.brokers)
            new = {present + at: tuple(broker_ids) for at, broker_ids in enumerate(chosen)}
            check_manual_assignment(new, self._metadata.image.brokers, len(stored.partitions[0]))
        if permit is not None:
            permit(count - present)
            yield from self._write_added(name, new)

    def _write_added(self, name: str, new: Mapping[int, tuple[int, ...]]) -> Steps[None]:
        """Write added partitions, except any that were written before the session ended."""
        path = TOPIC.path(name)
        is_written = False

        def write() -> Steps[None]:
            nonlocal is_written
            if is_written:
                data = yield from read(path)
                stored = {} if data is None else TOPIC.decode(data.data, path).partitions
                if all(stored.get(number) == replicas for number, replicas in new.items()):
                    return
            is_written = True
            yield from add_partitions(name, new)

        yield from across_sessions(write)

    def configure(self, topic: TopicImage, revise: Revise, done: TopicDone) -> None:
        def configured(error: BrokerError | None) -> None:
            done(self._present(topic.name) if error is None else error)

        self._configs.change(ConfigResourceType.TOPIC, topic.name, revise, configured)

    # The image.

    def _await(self, name: str, shows: Shows, done: TopicDone, timeout_ms: int) -> None:
        """Wait until the image shows a change to a topic."""

        def over(error: BrokerError | None) -> None:
            done(self._present(name) if error is None else error)

        self.waits.wait(name, shows, over, timeout_ms)

    def _present(self, name: str) -> TopicImage | BrokerError:
        topic = self._metadata.image.topics.get(name)
        if topic is None:
            return BrokerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic was deleted while the request was being processed."
            )
        return topic


def _read_lasting(name: str) -> Steps[Data | None]:
    """Read a topic; return None if it does not exist.

    Raises:
        Refused: the topic is to be deleted.
    """
    marked, data = yield (Exists(TOPIC_DELETION.path(name)), GetData(TOPIC.path(name)))
    if found(marked, Stat) is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
    return found(data, Data)


def _check_allowed(name: str) -> None:
    if name == CLUSTER_METADATA_TOPIC:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")


def _planned(new: NewTopic, planned: _Planned) -> TopicImage:
    """Return the image that a planned topic would have."""
    replicas = (each for _, each in sorted(planned.assignments.items()))
    partitions = (PartitionImage(each[0] if each else NO_LEADER_ID, 0, each, each) for each in replicas)
    return TopicImage(new.name, ZERO_UUID, tuple(partitions), planned.configs)


def _shows(topic_id: bytes, count: int) -> Shows:
    """Return a function that checks whether a topic has this many partitions, all with leaders."""
    return lambda topic: (
        topic is not None and topic.topic_id == topic_id and len(topic.partitions) >= count and _has_leaders(topic)
    )


def _has_leaders(topic: TopicImage | None) -> bool:
    return topic is not None and all(partition.has_leader for partition in topic.partitions)


def _not_here(name: str) -> Refused:
    return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _TEXTS.missing.format(name))


@contextmanager
def _for_clients() -> Iterator[None]:
    """Raise a refusal as the error that clients get.

    Raises:
        BrokerError: the operation is refused.
    """
    try:
        yield
    except Refused as error:
        raise BrokerError(error.refusal.error_code, error.refusal.message or "") from None
