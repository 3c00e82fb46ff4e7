"""Rebalances revoke and assign partitions as the assignors' protocol says, and commit before partitions are revoked.

Method: the steps of a membership called by hand, with positions, against the scripted broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkawire.sdk.client.cluster import Cluster
from kafkawire.sdk.client.group_member import MemberInfo
from kafkawire.sdk.client.options import ConsumerOptions, read_options
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.consumer_protocol import decode_assignment, decode_subscription, encode_assignment
from kafkawire.sdk.consumer.fetch_loop import FetchLoop
from kafkawire.sdk.consumer.membership import Membership
from kafkawire.sdk.consumer.positions import Positions
from kafkawire.sdk.protocol.tables.apis import ApiKey
from tests.sdk.scripted_broker import BROKER, StoringBroker

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


class Setting:
    """A membership and what it works on."""

    def __init__(self, *assignors: str, auto_commit: bool = True) -> None:
        self.broker = StoringBroker({"t": 3})
        given = {"group_id": "g", "assignors": assignors, "enable_auto_commit": auto_commit, "api_timeout_ms": 50}
        options = read_options(ConsumerOptions, str(BROKER), given)
        self.cluster = Cluster(options, self.broker.network)
        self.positions = Positions()
        self.loop = FetchLoop(options, self.cluster, self.positions)
        self.told: list[tuple[str, set[int]]] = []
        self.membership = Membership(options, self.cluster, self.positions, ["t"], self, self.loop, lambda: None)

    def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.told.append(("assigned", {each.partition for each in partitions}))

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self.told.append(("revoked", {each.partition for each in partitions}))

    def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self.told.append(("lost", {each.partition for each in partitions}))

    def own(self, *partitions: TopicPartition) -> None:
        """Let the member have partitions, with 7 finished records each."""
        self.positions.assign(partitions)
        for partition in partitions:
            self.positions[partition].seek(7)


def taking_part(test: Callable[[Setting], Awaitable[None]], *assignors: str, auto_commit: bool = True) -> None:
    """Run a test with a membership that is not started."""

    async def run() -> None:
        setting = Setting(*(assignors or ("range",)), auto_commit=auto_commit)
        await test(setting)
        await setting.cluster.close()

    asyncio.run(run())


def test_eager_members_revoke_everything_before_a_rebalance() -> None:
    async def test(setting: Setting) -> None:
        setting.own(T0, T1)
        protocols = await setting.membership.prepare(lost=False)
        assert [name for name, _ in protocols] == ["range", "cooperative-sticky"]
        assert decode_subscription(protocols[0][1]).topics == ("t",)
        assert decode_subscription(protocols[0][1]).owned_partitions == ()
        assert setting.positions.assigned == frozenset()
        assert setting.told == [("revoked", {0, 1})]
        assert setting.broker.commits == {("g", "t", 0): 7, ("g", "t", 1): 7}

    taking_part(test, "range", "cooperative-sticky")


def test_cooperative_members_keep_partitions_until_they_are_revoked() -> None:
    async def test(setting: Setting) -> None:
        setting.own(T0, T1)
        ((_, metadata),) = await setting.membership.prepare(lost=False)
        assert decode_subscription(metadata).owned_partitions == (T0, T1)
        assert setting.told == []
        kept = setting.positions[T1]
        assert await setting.membership.adopt("cooperative-sticky", encode_assignment([T1, T2])) is not None
        assert setting.told == [("revoked", {0}), ("assigned", {2})]
        assert setting.positions.assigned == {T1, T2}
        assert setting.positions[T1] is kept
        assert setting.broker.commits == {("g", "t", 0): 7}
        assert await setting.membership.adopt("cooperative-sticky", encode_assignment([T1, T2])) is None

    taking_part(test, "cooperative-sticky")


def test_what_is_lost_is_not_committed() -> None:
    async def test(setting: Setting) -> None:
        setting.own(T0)
        await setting.membership.prepare(lost=True)
        assert setting.told == [("lost", {0})]
        assert setting.positions.assigned == frozenset()
        assert setting.broker.commits == {}

    taking_part(test, "cooperative-sticky")


def test_without_auto_commit() -> None:
    async def test(setting: Setting) -> None:
        setting.own(T0)
        await setting.membership.prepare(lost=False)
        assert setting.broker.commits == {}

    taking_part(test, auto_commit=False)


def test_a_commit_that_fails_does_not_stop_the_rebalance() -> None:
    async def test(setting: Setting) -> None:
        setting.own(T0)
        setting.broker.stop()
        await setting.membership.prepare(lost=False)
        assert setting.told == [("revoked", {0})]

    taking_part(test)


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_the_leader_assigns_all_partitions(assignor: str) -> None:
    async def test(setting: Setting) -> None:
        ((_, metadata),) = await setting.membership.prepare(lost=False)
        members = {name: MemberInfo(metadata, None) for name in ("m1", "m2")}
        assignments = await setting.membership.perform_assignment(assignor, members)
        given = [decode_assignment(assignments[name]) for name in ("m1", "m2")]
        assert sorted(partition for part in given for partition in part) == [T0, T1, T2]
        assert sorted(map(len, given)) == [1, 2]

    taking_part(test, assignor)


def test_nothing_was_assigned() -> None:
    async def test(setting: Setting) -> None:
        assert await setting.membership.adopt("range", b"") is None
        assert setting.told == []

    taking_part(test)


def test_close() -> None:
    async def test(setting: Setting) -> None:
        setting.membership.start()
        while not setting.positions.assigned:
            await asyncio.sleep(0)
        setting.positions[T0].seek(3)
        await setting.membership.close()
        assert setting.broker.commits["g", "t", 0] == 3
        assert len(setting.broker.asked(ApiKey.LEAVE_GROUP)) == 1
        assert setting.told == [("assigned", {0, 1, 2}), ("revoked", {0, 1, 2})]

    taking_part(test)
