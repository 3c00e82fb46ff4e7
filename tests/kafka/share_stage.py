"""Play a scenario of share groups with one client's members on one broker, and note what it shows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from kafkawire import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    Admin,
    BrokerError,
    ConfigResourceType,
    Consumer,
    NewTopic,
    Producer,
    ResourcePattern,
    ResourceType,
    TopicPartition,
)
from kafkawire.sdk.records import Compression
from tests.kafka import share_scenarios as do
from tests.kafka import topics
from tests.kafka.cleaning import until_async
from tests.kafka.share_drivers import Refused, ShareProgram
from tests.kafka.share_scenarios import Scenario, Step

__all__ = ["ShareNode", "ShareStage"]

#: How long a member waits for records that come, on a busy machine.
PATIENCE_MS = 30_000

#: How long a member waits for records that must not come: several fetches.
QUIET_MS = 1_200

LOCK_MS = 2_000

EVERYBODY = "User:*"


class ShareNode(Protocol):
    """A broker."""

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        ...

    @property
    def restart(self) -> Callable[[], Awaitable[None]]:
        """Kills the broker, and starts it again with its files, once all runs on it have requested a restart."""
        ...

    def lock_configs(self) -> Mapping[str, str]:
        """Return the configurations with which a group has short locks."""
        ...
        ...


class ShareStage:
    """One run of a scenario.

    Args:
        node: the broker.
        program: runs the members, except those that are killed.
        scenario: what to play.
        name: the name of this run, for its topics, groups and members.

    Attributes:
        outcome: what the steps have shown.
    """

    def __init__(self, node: ShareNode, program: ShareProgram, scenario: Scenario, name: str) -> None:
        self._node = node
        self._program = program
        self._scenario = scenario
        self._name = name
        #: The programs of members that are killed.
        self._victims: dict[str, ShareProgram] = {}
        #: The records that each member has read last: values, keyed by place.
        self._held: dict[str, dict[str, str]] = {}
        self.outcome: list[tuple[str, Any]] = []

    def _full(self, name: str) -> str:
        return f"{self._name}-{name}"

    def _shown(self, value: Any) -> Any:
        """Return a value in which topics have their short names."""
        if isinstance(value, str):
            return value.replace(f"{self._name}-", "")
        if isinstance(value, dict):
            return {self._shown(key): self._shown(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._shown(each) for each in value]
        return value

    async def play(self) -> list[tuple[str, Any]]:
        """Prepare topics and groups, take every step, and return the outcome."""
        scenario = self._scenario
        made = [NewTopic(self._full(name), size, 1, scenario.topic_configs) for name, size in scenario.topics.items()]
        await topics.create(self._node.bootstrap, *made)
        configs = {"share.auto.offset.reset": "earliest"}
        configs |= {name.replace("_", "."): value for name, value in scenario.configs.items()}
        if scenario.has_short_locks:
            configs |= self._node.lock_configs()
        async with Admin(self._node.bootstrap) as admin:
            for group in ("g", "h"):
                await admin.incremental_alter_configs(ConfigResourceType.GROUP, self._full(group), configs)
        try:
            for number, step in enumerate(scenario.steps):
                shown = await self._taken(step)
                if shown is not None:
                    self.outcome.append((f"{number}: {step!r}", self._shown(shown)))
        finally:
            for program in self._victims.values():
                await program.kill()
        return self.outcome

    async def _taken(self, step: Step) -> Any:
        """Take a step; return what it shows."""
        handlers: dict[type, Callable[[Any], Awaitable[Any]]] = {
            do.Produce: self._produce,
            do.Open: self._open,
            do.Poll: self._poll,
            do.Acknowledge: self._acknowledge,
            do.Accept: self._accept,
            do.Renew: lambda step: self._tell(step.member, "renew", places=list(self._held[step.member])),
            do.Commit: lambda step: self._tell(step.member, "commit"),
            do.Subscribe: lambda step: self._tell(step.member, "subscribe", topics=list(map(self._full, step.topics))),
            do.Close: lambda step: self._tell(step.member, "close"),
            do.Kill: lambda step: self._victims[step.member].kill(),
            do.Drain: self._drain,
            do.Knock: self._knock,
            do.Offsets: self._offsets,
            do.Alter: self._alter,
            do.Delete: self._delete,
            do.Trim: self._trim,
            do.Compact: self._compact,
            do.Deny: self._deny,
            do.Restart: lambda step: self._node.restart(),
        }
        return await handlers[type(step)](step)

    # Members.

    async def _tell(self, member: str, do: str, **what: Any) -> Any:
        """Have a member do something; return the result, or the name of the error."""
        program = self._program
        if member.startswith("victim"):
            program = self._victims.setdefault(member, program.another())
        try:
            return await program.tell(self._full(member), do, **what)
        except Refused as error:
            return f"refused: {error}"

    async def _open(self, step: do.Open) -> Any:
        return await self._tell(
            step.member,
            "open",
            topics=list(map(self._full, step.topics)),
            group=self._full(step.group),
            mode=step.mode,
            acquire=step.acquire,
            records=step.records,
        )

    async def _read(self, member: str, count: int, timeout_ms: int) -> Any:
        """Have a member read; return places, values and delivery counts, or the name of the error."""
        found = await self._tell(member, "poll", count=max(count, 1), ms=timeout_ms)
        self._held[member] = {} if isinstance(found, str) else {place: value for place, value, _ in found}
        return found

    async def _poll(self, step: do.Poll) -> Any:
        return await self._read(step.member, step.wanted, PATIENCE_MS if step.wanted else QUIET_MS)

    async def _acknowledge(self, step: do.Acknowledge) -> None:
        kinds = {place: step.kinds.get(value, "ACCEPT") for place, value in self._held[step.member].items()}
        refused = await self._tell(step.member, "acknowledge", kinds=kinds)
        assert refused is None, refused

    async def _accept(self, step: do.Accept) -> Any:
        await self._acknowledge(do.Acknowledge(step.member))
        return await self._tell(step.member, "commit")

    async def _drain(self, step: do.Drain) -> list[Any]:
        """Let members read and accept until there are enough different records; return them in order."""
        found: list[Any] = []
        deadline = time.monotonic() + PATIENCE_MS / 1000

        async def work(member: str) -> None:
            while len({place for place, *_ in found}) < step.wanted and time.monotonic() < deadline:
                read = await self._read(member, 1, 500)
                if isinstance(read, str):
                    found.append((read,))
                    return
                await self._accept(do.Accept(member))
                found.extend(map(tuple, read))

        await asyncio.gather(*(work(member) for member in step.members))
        return sorted(found if step.shows_offsets else [tuple(each[1:]) for each in found])

    async def _knock(self, step: do.Knock) -> None:
        for _ in range(100):
            await self._produce(do.Produce("knock"))
            if await self._read(step.member, 1, 300):
                break
        await self._accept(do.Accept(step.member))

    # Records.

    async def _produce(self, step: do.Produce) -> None:
        given: dict[str, Any] = {} if step.ends is None else {"transactional_id": self._full("producer")}
        codec = Compression[step.codec.upper()]
        timestamp_ms = int(time.time() * 1000) - step.age_ms
        async with Producer(self._node.bootstrap, compression=codec, linger_ms=20, **given) as producer:
            if step.ends is not None:
                await producer.begin_transaction()
            sent = []
            for word in step.words.split():
                key, _, value = word.rpartition("=")
                sent.append(
                    producer.send(
                        self._full(step.topic),
                        value,
                        key=key or None,
                        partition=step.partition,
                        timestamp_ms=timestamp_ms,
                    )
                )
            await asyncio.gather(*sent)
            if step.ends == "commit":
                await producer.commit_transaction()
            elif step.ends == "abort":
                await producer.abort_transaction()
        if step.ends is not None:
            await topics.await_markers(self._node.bootstrap, self._full(step.topic))

    async def _trim(self, step: do.Trim) -> None:
        async with Admin(self._node.bootstrap) as admin:
            (await admin.delete_records({TopicPartition(self._full("t"), 0): step.offset})).all()

    async def _compact(self, step: do.Compact) -> None:
        topic = self._full("t")
        async with Admin(self._node.bootstrap) as admin:
            await admin.incremental_alter_configs(ConfigResourceType.TOPIC, topic, {"segment.ms": "1"})
        await self._produce(do.Produce(step.word))

        async def is_compacted() -> bool:
            reader = Consumer(self._node.bootstrap, auto_offset_reset="earliest")
            async with reader:
                reader.assign([TopicPartition(topic, 0)])
                found = await reader.getmany(5_000, max_records=1)
            return any(each.offset >= step.first_offset for several in found.values() for each in several)

        await until_async(is_compacted, "the log is not compacted")

    # Groups.

    async def _offsets(self, step: do.Offsets) -> Any:
        async with Admin(self._node.bootstrap) as admin:
            found = await admin.list_share_group_offsets(self._full(step.group))
        offsets = {
            f"{partition.topic}/{partition.partition}": None if each is None else (each.start_offset, each.lag)
            for partition, each in sorted(found.values.items())
        }
        return {"offsets": offsets, "errors": sorted(str(error) for error in found.errors.values())}

    async def _alter(self, step: do.Alter) -> str:
        partition = TopicPartition(self._full("t"), 0)
        async with Admin(self._node.bootstrap) as admin:
            try:
                (await admin.alter_share_group_offsets(self._full(step.group), {partition: step.offset})).all()
            except BrokerError as error:
                return error.code.name
        return "done"

    async def _delete(self, step: do.Delete) -> str:
        async with Admin(self._node.bootstrap) as admin:
            try:
                (await admin.delete_groups(self._full(step.group))).all()
            except BrokerError as error:
                return error.code.name
        return "done"

    async def _deny(self, step: do.Deny) -> None:
        kind = ResourceType.TOPIC if step.kind == "topic" else ResourceType.GROUP
        pattern = ResourcePattern(kind, self._full("t" if step.kind == "topic" else "g"))
        async with Admin(self._node.bootstrap) as admin:
            denied = AccessControlEntry(EVERYBODY, "*", AclOperation.READ, AclPermissionType.DENY)
            described = AccessControlEntry(EVERYBODY, "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW)
            wanted = [AclBinding(pattern, denied), AclBinding(pattern, described)]
            (await admin.create_acls(wanted)).all()

            async def are_known() -> bool:
                return {*wanted} <= {*await admin.describe_acls()}

            await until_async(are_known, "the broker does not know the ACLs")
