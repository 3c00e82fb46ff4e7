"""Copy the offsets of a group without members from ZooKeeper to Kafka, or from Kafka to ZooKeeper.

The group must be stopped: running members would ignore the copies, and overwrite them with their next commits.

Source: `ExportZkOffsets` and `ImportZkOffsets` of `kafka.tools` in Apache Kafka 1.1, which copy via a file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar

from kafkawire import Admin, Consumer, TopicPartition
from kafkawire.sdk.errors import BrokerError, RequestTimedOut
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import CONSUMER_IDS, CONSUMER_OFFSET, CONSUMER_OFFSETS, CONSUMER_TOPIC_OFFSETS
from kafkawire.sdk.registry.registry import Registry
from kafkawire.sdk.registry.security_options import ZooKeeperSecurityOptions
from kafkawire.sdk.registry.steps import Steps, list_children, read, run, set_or_create, together
from kafkawire.sdk.registry.zookeeper import ZooKeeperRegistry

__all__ = ["CopiedOffset", "Migration", "MigrationRefused", "Store"]

R = TypeVar("R")

#: A ZooKeeper server that has not answered after this time is considered unreachable.
TIMEOUT_SECONDS: Final = 30

#: The time limit for ending the session.
_CLOSE_MS: Final = 1_000

#: The maximum number of offsets listed in an error.
_NAMED_MAX: Final = 5

#: The states of a group without members.
_DOWN: Final = ("Empty", "Dead")


class Store(Enum):
    """Where a group keeps its offsets."""

    KAFKA = "kafka"
    ZOOKEEPER = "zookeeper"


class MigrationRefused(Exception):
    """The group has members, or offsets would move backwards; the text names them."""


class CopiedOffset(NamedTuple):
    """One offset of the group.

    Attributes:
        partition: the partition.
        offset: the offset to copy.
        former: the previous offset in the target store; None if it had none.
        obstacle: why the offset is not copied; empty if it is.
    """

    partition: TopicPartition
    offset: int
    former: int | None
    obstacle: str = ""


class Migration:
    """A migration of the offsets of one group.

    Args:
        group_id: the group.
        bootstrap: brokers, as `host:port,host:port`.
        connect: the ZooKeeper servers, as `host:port,host:port/chroot`.
        to: the store to which the offsets are copied.
        properties: client options, keyed by Kafka's names; those in `ZooKeeperSecurityOptions` are for ZooKeeper.

    Raises:
        ConfigurationError: a ZooKeeper option is invalid, or names an unusable file.
    """

    def __init__(self, group_id: str, bootstrap: str, connect: str, to: Store, properties: Mapping[str, str]) -> None:
        self._group_id = group_id
        self._bootstrap = bootstrap
        self._connect = connect
        self._to = to
        names = ZooKeeperSecurityOptions.KAFKA_NAMES
        for_zookeeper = {name: value for name, value in properties.items() if name in names}
        self._security = ZooKeeperSecurityOptions.read(for_zookeeper.items()).zookeeper_security()
        self._properties: dict[str, Any] = {name: properties[name] for name in properties if name not in names}

    async def run(self, *, is_dry: bool = False, may_go_back: bool = False) -> list[CopiedOffset]:
        """Copy the offsets.

        Args:
            is_dry: whether to write nothing.
            may_go_back: whether an offset may replace a larger one.

        Returns:
            All offsets of the group, in order, including those of partitions that no longer exist.

        Raises:
            MigrationRefused: the group has members, or an offset would move backwards.
            ConfigurationError: an option is invalid, or kazoo is not installed.
            KafkaWireError: Kafka or ZooKeeper cannot be reached, or refuses a request.
        """
        async with (
            self._registry() as registry,
            Admin(self._bootstrap, **self._properties) as admin,
        ):
            await self._check_is_down(registry, admin)
            in_zookeeper = await _perform(registry, _offsets_of(self._group_id))
            in_kafka = {each: found.offset for each, found in (await admin.list_group_offsets(self._group_id)).items()}
            known = await admin.list_topics(include_internal=True)
            exist = {TopicPartition(name, number) for name, topic in known.items() for number in topic.partitions}
            source, target = (in_zookeeper, in_kafka) if self._to is Store.KAFKA else (in_kafka, in_zookeeper)
            copied = [
                CopiedOffset(each, offset, target.get(each), "" if each in exist else "no such partition")
                for each, offset in sorted(source.items())
            ]
            offsets = {each.partition: each.offset for each in copied if not each.obstacle}
            if not may_go_back:
                _check_goes_on(copied, self._to)
            if offsets and not is_dry:
                await self._write(registry, offsets)
        return copied

    async def _write(self, registry: Registry, offsets: Mapping[TopicPartition, int]) -> None:
        if self._to is Store.ZOOKEEPER:
            await _perform(registry, together(_write(self._group_id, *each) for each in offsets.items()))
            return
        given: dict[str, Any] = {"group_id": self._group_id, "enable_auto_commit": False, **self._properties}
        async with Consumer(self._bootstrap, **given) as consumer:
            await consumer.commit(offsets)

    async def _check_is_down(self, registry: Registry, admin: Admin) -> None:
        """Raise `MigrationRefused` if the group has members."""
        members = await _perform(registry, list_children(CONSUMER_IDS.path(self._group_id)))
        if members is not None and members.names:
            raise MigrationRefused(f"group {self._group_id} has members in ZooKeeper: {', '.join(members.names)}")
        try:
            described = (await admin.describe_groups(self._group_id))[self._group_id]
        except BrokerError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            return
        if described.state not in _DOWN:
            count = len(described.members)
            raise MigrationRefused(f"group {self._group_id} is {described.state} in Kafka, with {count} members")

    @asynccontextmanager
    async def _registry(self) -> AsyncIterator[Registry]:
        loop = asyncio.get_running_loop()

        def post(function: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(function)

        registry = ZooKeeperRegistry(self._connect, post, security=self._security)
        registry.start()
        try:
            yield registry
        finally:
            closed = asyncio.Event()
            registry.begin_to_close(_CLOSE_MS, lambda: post(closed.set))
            await closed.wait()


def _check_goes_on(copied: list[CopiedOffset], to: Store) -> None:
    back = [
        f"{each.partition} from {each.former} to {each.offset}"
        for each in copied
        if not each.obstacle and each.former is not None and each.former > each.offset
    ]
    if back:
        more = f" and {len(back) - _NAMED_MAX} more" if len(back) > _NAMED_MAX else ""
        raise MigrationRefused(
            f"{to.value} has larger offsets: {', '.join(back[:_NAMED_MAX])}{more}; use --force to replace them"
        )


async def _perform(registry: Registry, steps: Steps[R]) -> R:
    """Perform steps in the registry, and return their result.

    Raises:
        RequestTimedOut: ZooKeeper does not answer.
    """
    ended: asyncio.Future[R] = asyncio.get_running_loop().create_future()
    running = run(registry, steps, ended.set_result, ended.set_exception)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await ended
    except TimeoutError:
        running.cancel()
        raise RequestTimedOut(f"no response from {registry.describe()} within {TIMEOUT_SECONDS} s") from None


def _offsets_of(group_id: str) -> Steps[dict[TopicPartition, int]]:
    """Read all offsets of a group in ZooKeeper."""
    topics = yield from list_children(CONSUMER_OFFSETS.path(group_id))
    partitions: list[TopicPartition] = []
    for topic in () if topics is None else topics.names:
        numbers = yield from list_children(CONSUMER_TOPIC_OFFSETS.path(group_id, topic))
        named = () if numbers is None else numbers.names
        partitions += [TopicPartition(topic, int(name)) for name in named if name.isdecimal()]
    offsets: dict[TopicPartition, int] = {}
    for partition in partitions:
        path = CONSUMER_OFFSET.path(group_id, *partition)
        data = yield from read(path)
        if data is not None:
            offset = CONSUMER_OFFSET.decode(data.data, path)
            if offset >= 0:  # a negative offset means none
                offsets[partition] = offset
    return offsets


def _write(group_id: str, partition: TopicPartition, offset: int) -> Steps[None]:
    yield from set_or_create(CONSUMER_OFFSET.path(group_id, *partition), CONSUMER_OFFSET.encode(offset))
