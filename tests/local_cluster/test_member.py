"""A member reflects its process's state, even if another program changes it, and reports why startup failed.

Method: run stand-ins for brokers as child processes, and send them signals as another program would.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kafkawire.local_cluster import member as module
from kafkawire.local_cluster.cluster_folder import ClusterError, MemberRecord
from kafkawire.local_cluster.member import Member, listens
from kafkawire.local_cluster.member_state import MemberState
from kafkawire.local_cluster.port_reservation import reserve_free_port
from kafkawire.local_cluster.process_identity import ProcessIdentity, is_running, send_signal
from kafkawire.sdk.transport.wire import Address
from tests.local_cluster.fake_members import FAKE_BROKER

#: No step takes this long unless it hangs.
PATIENCE_SECONDS = 30


class Scene:
    """A member on its own port, with all the states it has had."""

    def __init__(self, folder: Path, **properties: object) -> None:
        self.port = reserve_free_port()
        self.states: list[MemberState] = []
        address = f"127.0.0.1:{self.port.port}"
        config = folder / "broker.properties"
        lines = {"listeners": f"PLAINTEXT://{address}", **properties}
        config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        self._changed = asyncio.Event()
        self.member = Member(
            MemberRecord("1", address),
            [*FAKE_BROKER, "--config", str(config)],
            folder / "log",
            self._note,
            self._can_be_used,
        )
        self.refusals = 0

    def _note(self) -> None:
        self.states.append(self.member.state)
        self._changed.set()

    async def _can_be_used(self, address: Address) -> bool:
        assert str(address) == self.member.record.address
        if not await listens(address):
            return False
        self.refusals -= 1
        return self.refusals < 0

    async def until(self, state: MemberState) -> None:
        """Wait until the member is in a state, or has passed through it since this call."""
        begin = len(self.states)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.member.state is not state and state not in self.states[begin:]:
                self._changed.clear()
                self.member.observe()
                if self.member.state is not state:
                    await asyncio.wait_for(asyncio.shield(self._soon()), PATIENCE_SECONDS)

    async def _soon(self) -> None:
        """Wait for a change that the member reports, or for the next check of the process."""
        try:
            await asyncio.wait_for(self._changed.wait(), 0.01)
        except TimeoutError:
            return

    async def until_logged(self, text: str) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while text not in self.member.log.read_text():
                await self._soon()

    @property
    def process(self) -> ProcessIdentity:
        assert self.member.record.process is not None
        return self.member.record.process


def run(folder: Path, steps: Callable[[Scene], Awaitable[None]], **properties: object) -> Scene:
    """Run steps with a member, and kill any process that they leave behind."""

    async def whole() -> Scene:
        scene = Scene(folder, **properties)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await steps(scene)
        finally:
            await scene.member.kill()
            scene.port.close()
        return scene

    return asyncio.run(whole())


def test_a_life(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        member = scene.member
        await member.start()
        first = scene.process
        await member.pause()
        await member.resume()
        await member.restart()
        assert scene.process != first
        assert not is_running(first)
        await member.kill()
        assert member.record.exit_status == -signal.SIGKILL
        await member.restart()
        await member.pause()
        await member.stop()
        assert member.record.exit_status == 0
        assert member.record.process is None

    started = [MemberState.STARTING, MemberState.RUNNING]
    assert run(tmp_path, steps).states == [
        *started, MemberState.PAUSED, MemberState.RUNNING, MemberState.STOPPING, MemberState.STOPPED,
        *started, MemberState.KILLED,
        *started, MemberState.PAUSED, MemberState.STOPPING, MemberState.STOPPED,
    ]  # fmt: skip


def test_what_others_do_to_the_process_is_seen(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        await scene.member.start()
        send_signal(scene.process, signal.SIGSTOP)
        await scene.until(MemberState.PAUSED)
        send_signal(scene.process, signal.SIGCONT)
        await scene.until(MemberState.RUNNING)
        send_signal(scene.process, signal.SIGKILL)
        await scene.until(MemberState.ENDED)
        assert scene.member.record[2:] == (MemberState.ENDED, None, -signal.SIGKILL)

    run(tmp_path, steps)


def test_a_failed_start_names_the_log_and_its_end(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        text = r"^broker 1 ended with exit status 7 during startup; .*log ends with: it cannot go on$"
        with pytest.raises(ClusterError, match=text):
            await scene.member.start()
        assert scene.member.record.exit_status == 7

    scene = run(tmp_path, steps, **{"fake.fails": 7})
    assert scene.states == [MemberState.STARTING, MemberState.ENDED]


def test_a_member_that_listens_before_it_can_be_used(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        scene.refusals = 3
        await scene.member.start()
        assert scene.refusals == -1

    assert run(tmp_path, steps).states[:2] == [MemberState.STARTING, MemberState.RUNNING]


def test_a_member_that_does_not_listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_START_SECONDS", 0.0)

    async def steps(scene: Scene) -> None:
        with pytest.raises(ClusterError, match=r"broker 1 was not ready on .* within 0 s; its log is "):
            await scene.member.start()
        await scene.until(MemberState.RUNNING)

    run(tmp_path, steps)


def test_a_member_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STOP_SECONDS", 0.0)

    async def steps(scene: Scene) -> None:
        start = asyncio.create_task(scene.member.start())
        await scene.until(MemberState.STARTING)
        await scene.until_logged("it hangs")
        await scene.member.pause()
        await scene.member.resume()
        await scene.member.stop()
        with pytest.raises(ClusterError, match=r"^broker 1 is stopping during startup"):
            await start

    assert run(tmp_path, steps, **{"fake.hangs": 1}).states == [
        MemberState.STARTING,
        MemberState.PAUSED,
        MemberState.STARTING,
        MemberState.STOPPING,
        MemberState.KILLED,
    ]


@pytest.mark.parametrize("state", [MemberState.STARTING, MemberState.RUNNING, MemberState.PAUSED])
@pytest.mark.parametrize("is_asked", [True, False], ids=["asked", "by-itself"])
def test_it_can_be_killed_in_each_state(tmp_path: Path, state: MemberState, is_asked: bool) -> None:
    async def steps(scene: Scene) -> None:
        start = asyncio.create_task(scene.member.start())
        await scene.until(MemberState.STARTING)
        if state is not MemberState.STARTING:
            await start
        if state is MemberState.PAUSED:
            await scene.member.pause()
        if is_asked:
            await scene.member.kill()
        else:
            send_signal(scene.process, signal.SIGKILL)
        await scene.until(MemberState.KILLED if is_asked else MemberState.ENDED)
        await asyncio.wait([start])

    scene = run(tmp_path, steps, **({"fake.hangs": 1} if state is MemberState.STARTING else {}))
    assert scene.states[-2] is state
    assert scene.member.record.exit_status == -signal.SIGKILL


def test_a_stop_ends_a_start(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        start = asyncio.create_task(scene.member.start())
        while scene.member.state is not MemberState.STARTING:
            await asyncio.sleep(0)
        await scene.member.stop()
        with pytest.raises(ClusterError, match="broker 1 "):
            await start
        assert scene.states == [MemberState.STARTING, MemberState.STOPPING, MemberState.STOPPED]

    run(tmp_path, steps)


def test_actions_that_do_not_fit_the_state(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        member = scene.member
        for action in (member.pause, member.resume):
            with pytest.raises(ClusterError, match=r"^broker 1 is stopped$"):
                await action()
        await member.stop()
        await member.kill()
        assert scene.states == []
        member.may_start = False
        with pytest.raises(ClusterError, match=r"^broker 1 cannot start, because the cluster is stopping$"):
            await member.start()
        member.may_start = True
        await member.start()
        for action in (member.start, member.resume):
            with pytest.raises(ClusterError, match=r"^broker 1 is running$"):
                await action()

    run(tmp_path, steps)
