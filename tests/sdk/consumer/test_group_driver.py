"""The driver takes the member's steps one by one, sends heartbeats meanwhile, and reports what no retry can fix.

Method: group work that only records its calls, against the scripted broker's group of one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest

from kafkawire.sdk.client.cluster import Cluster
from kafkawire.sdk.client.group_member import GroupMember, GroupSettings, MemberInfo, Step
from kafkawire.sdk.client.options import ConsumerOptions, read_options
from kafkawire.sdk.consumer.group_driver import GroupDriver
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatResponse
from kafkawire.sdk.protocol.messages.join_group import JoinGroupResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.scripted_broker import BROKER, StoringBroker

#: Short, so that a few milliseconds are late for it; the scripted broker does not watch it.
SESSION_TIMEOUT_MS = 20


class Setting:
    """A driver, and the work that it is given."""

    def __init__(self, group_instance_id: str | None = None) -> None:
        self.broker = StoringBroker()
        options = read_options(ConsumerOptions, str(BROKER), {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5})
        self.cluster = Cluster(options, self.broker.network)
        self.member = GroupMember(GroupSettings("g", group_instance_id, "consumer", SESSION_TIMEOUT_MS, 60_000, 1))
        self.done: list[object] = []
        self.failures: list[Exception] = []
        self.again: str | None = None
        self.stopped_ms: int | None = None
        self.driver = GroupDriver(self.cluster, self.member, self, lambda: self.stopped_ms, 50, self.failures.append)

    async def prepare(self, lost: bool) -> Sequence[tuple[str, bytes]]:
        self.done.append(("prepare", lost))
        return [("range", b"meta")]

    async def perform_assignment(self, protocol_name: str, members: Mapping[str, MemberInfo]) -> Mapping[str, bytes]:
        self.done.append(("perform assignment", protocol_name, list(members)))
        return {"m1": b"part"}

    async def adopt(self, protocol_name: str, assignment: bytes) -> str | None:
        self.done.append(("adopt", assignment))
        again, self.again = self.again, None
        return again

    async def lose(self) -> None:
        self.done.append("lose")

    async def reach(self, step: Step) -> None:
        """Wait until the member has a step to take."""
        while self.member.step is not step:
            await asyncio.sleep(0)


ROUND = [("prepare", False), ("perform assignment", "range", ["m1"]), ("adopt", b"part")]


def driving(test: Callable[[Setting], Awaitable[None]], group_instance_id: str | None = None) -> None:
    """Run a test with a driver that has entered the group."""

    async def run() -> None:
        setting = Setting(group_instance_id)
        setting.driver.start()
        await test(setting)
        await setting.driver.stop()
        await setting.cluster.close()

    asyncio.run(run())


def test_steps_and_heartbeats() -> None:
    async def test(setting: Setting) -> None:
        await setting.reach(Step.STABLE)
        assert setting.done == ROUND
        while len(setting.broker.asked(ApiKey.HEARTBEAT)) < 3:
            await asyncio.sleep(0)
        assert setting.failures == []

    driving(test)


def test_work_that_asks_for_another_rebalance() -> None:
    async def test(setting: Setting) -> None:
        setting.again = "partitions were revoked"
        while len(setting.done) < 6:
            await asyncio.sleep(0)
        assert setting.done == ROUND * 2

    driving(test)


def test_a_rebalance_found_by_a_heartbeat() -> None:
    async def test(setting: Setting) -> None:
        await setting.reach(Step.STABLE)
        setting.broker.script(
            ApiKey.HEARTBEAT, lambda request: HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        )
        while setting.broker.generation < 2:
            await asyncio.sleep(0)
        await setting.reach(Step.STABLE)
        assert setting.done == ROUND * 2

    driving(test)


def test_a_generation_lost_by_a_commit() -> None:
    async def test(setting: Setting) -> None:
        await setting.reach(Step.STABLE)
        setting.driver.note_error(ErrorCode.UNKNOWN_MEMBER_ID, "commit")
        while setting.broker.generation < 2:
            await asyncio.sleep(0)
        assert setting.done[3] == ("prepare", True)

    driving(test)


def test_passing_errors_are_retried_and_lasting_ones_reported() -> None:
    def refused(code: ErrorCode) -> Callable[[Request], JoinGroupResponse]:
        return lambda request: JoinGroupResponse(error_code=code)

    async def test(setting: Setting) -> None:
        setting.broker.script(
            ApiKey.JOIN_GROUP,
            refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            refused(ErrorCode.NOT_COORDINATOR),
            refused(ErrorCode.GROUP_AUTHORIZATION_FAILED),
        )
        while not setting.failures:
            await asyncio.sleep(0)
        assert "GROUP_AUTHORIZATION_FAILED: join in group g" in str(setting.failures[0])
        assert len(setting.broker.asked(ApiKey.JOIN_GROUP)) == 3

    driving(test)


@pytest.mark.parametrize(("group_instance_id", "told"), [(None, 1), ("me", 0)])
def test_leaving_sends_a_request_unless_the_member_is_static(group_instance_id: str | None, told: int) -> None:
    async def test(setting: Setting) -> None:
        await setting.reach(Step.STABLE)
        await setting.driver.stop()
        await setting.driver.leave("done")
        assert len(setting.broker.asked(ApiKey.LEAVE_GROUP)) == told
        assert setting.member.step is Step.OUTSIDE

    driving(test, group_instance_id)


def test_a_member_leaves_while_the_application_does_not_read(caplog: pytest.LogCaptureFixture) -> None:
    async def test(setting: Setting) -> None:
        await setting.reach(Step.STABLE)
        setting.stopped_ms = 0
        await setting.reach(Step.OUTSIDE)
        while "lose" not in setting.done:
            await asyncio.sleep(0)
        assert "nothing was read for max_poll_interval_ms=50" in caplog.text
        setting.stopped_ms = None
        setting.driver.rejoin_if_outside()
        setting.driver.rejoin_if_outside()
        await setting.reach(Step.STABLE)
        assert setting.broker.generation == 2

    with caplog.at_level(logging.WARNING):
        driving(test)


def test_a_blocked_event_loop_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test(setting: Setting) -> None:
        await setting.reach(Step.STABLE)
        while "event loop was blocked" not in caplog.text:
            for _ in range(50):  # let the last heartbeat be answered and the next one be waited for
                await asyncio.sleep(0)
            sum(range(1_000_000))  # blocks the loop for a good part of the session timeout
        assert "session_timeout_ms=20" in caplog.text

    with caplog.at_level(logging.WARNING):
        driving(test)
