"""A broker under heavy load: `python -m tools.soak load [--partitions N] [--connections N] [--commits N]`.

With ten thousand partitions, a thousand connections and five hundred groups, the soak measures memory, CPU time while
members send nothing but heartbeats, and how long a produce request takes meanwhile. Then the broker is stopped and
restarted, killed and restarted, and loads the groups' commits. Finally, a broker that ran with few descriptors is
restarted with just as few.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import shutil
import struct
import tempfile
import time
from pathlib import Path
from typing import Any

from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tools.soak.broker_process import PRODUCE_VERSION, BrokerProcess, RawClient, produce_request

__all__ = ["main"]

TOPIC_PARTITIONS = 1_000
SESSION_MS = 60_000
HEARTBEAT_SECONDS = 3.0
COMMIT_PARTITIONS = 20

_IN_FLIGHT = 20

#: Interval between checks whether the groups have been loaded, which is that of clients (`retry.backoff.ms`).
_BACKOFF_SECONDS = 0.1

#: Limits for the broker.
RESTART_SECONDS_MAX = 5.0

#: The descriptors of a broker, and the number of its partitions, all of which have been written to.
FEW_DESCRIPTORS = 400
FEW_PARTITIONS = 300

#: The last versions in which a member needs no second JoinGroup, or in which topics have names rather than ids.
_JOIN_VERSION = 3
_SYNC_VERSION = 3
_HEARTBEAT_VERSION = 3
_COMMIT_VERSION = 8
_FETCH_OFFSETS_VERSION = 8
_COORDINATOR_VERSION = 4
_METADATA_VERSION = 12

_LENGTH = struct.Struct(">i")


class _Connection:
    """One of many connections that share an event loop."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = host, int(port)
        self._protocol = ClientConnection("load")

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(*self._address)

    async def ask(self, message: Message, version: int) -> Any:
        self._writer.writelines(self._protocol.request(message, version).parts)
        (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
        return self._protocol.receive(await self._reader.readexactly(length)).message

    def close(self) -> None:
        self._writer.close()


class _Member(_Connection):
    """The only member of a group."""

    def __init__(self, bootstrap: str, group: str) -> None:
        super().__init__(bootstrap)
        self._group = group

    async def join(self) -> None:
        protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"subscription")]
        request = JoinGroupRequest(self._group, SESSION_MS, SESSION_MS, protocol_type="consumer", protocols=protocols)
        joined = await self.ask(request, _JOIN_VERSION)
        assert not joined.error_code, joined
        self._id, self._generation = joined.member_id, joined.generation_id
        assignment = SyncGroupRequest.SyncGroupRequestAssignment(self._id, b"assignment")
        synced = await self.ask(
            SyncGroupRequest(self._group, self._generation, self._id, assignments=[assignment]), _SYNC_VERSION
        )
        assert not synced.error_code, synced

    async def live(self, end: float, offset_pause: float) -> None:
        """Send heartbeats, spread evenly over time."""
        await asyncio.sleep(offset_pause)
        while time.monotonic() < end:
            answer = await self.ask(HeartbeatRequest(self._group, self._generation, self._id), _HEARTBEAT_VERSION)
            assert not answer.error_code, answer
            await asyncio.sleep(HEARTBEAT_SECONDS)


def _topics(partitions: int) -> dict[str, int]:
    return {
        f"load-{number}": min(TOPIC_PARTITIONS, partitions - number * TOPIC_PARTITIONS)
        for number in range(-(-partitions // TOPIC_PARTITIONS))
    }


async def _together(broker: BrokerProcess, given: argparse.Namespace) -> None:
    """Open all connections, and measure while only heartbeats are sent, and while some clients produce."""
    others = [_Connection(broker.bootstrap) for _ in range(given.connections - given.groups)]
    members = [_Member(broker.bootstrap, f"group-{number}") for number in range(given.groups)]
    everybody = [*others, *members]
    for at in range(0, len(everybody), 50):
        await asyncio.gather(*(each.open() for each in everybody[at : at + 50]))
    await asyncio.gather(*(member.join() for member in members))
    names = list(_topics(given.partitions).items())
    for seconds, is_producing in ((given.seconds, False), (given.seconds, True)):
        end = time.monotonic() + seconds
        cpu = broker.cpu_seconds
        lives = [
            asyncio.create_task(member.live(end, HEARTBEAT_SECONDS * number / len(members)))
            for number, member in enumerate(members)
        ]
        waits_ms: list[float] = []
        number = 0
        while is_producing and time.monotonic() < end:
            connection = others[number % len(others)]
            topic, count = names[number % len(names)]
            request = produce_request(topic, number % count, [bytes(100)], now_ms())
            begun = time.perf_counter()
            answer = await connection.ask(request, PRODUCE_VERSION)
            waits_ms.append((time.perf_counter() - begun) * 1000)
            assert not answer.responses[0].partition_responses[0].error_code
            number += 1
            await asyncio.sleep(0.002)
        await asyncio.gather(*lives)
        share = (broker.cpu_seconds - cpu) / seconds
        if is_producing:
            waits_ms.sort()
            p99 = waits_ms[int(len(waits_ms) * 0.99)]
            text = f"{len(waits_ms):,} produce requests: median {waits_ms[len(waits_ms) // 2]:.1f} ms, p99 {p99:.1f} ms"
        else:
            text = "heartbeats only"
        print(
            f"load: {given.connections:,} connections, {given.partitions:,} partitions, {given.groups} groups, {text}: "
            f"CPU {share:.1%}, resident {broker.resident_bytes / 1e6:.0f} MB, {broker.descriptors:,} descriptors",
            flush=True,
        )
    for each in everybody:
        each.close()


def _commit(broker: BrokerProcess, count: int, groups: int) -> None:
    """Commit offsets for the groups in turn, with one request for all partitions of a group."""
    Topic, Place = OffsetCommitRequest.OffsetCommitRequestTopic, OffsetCommitRequest.OffsetCommitRequestPartition
    begun = time.monotonic()
    with RawClient(broker.bootstrap) as client:
        find = FindCoordinatorRequest(coordinator_keys=["g"])
        client.ask(find, _COORDINATOR_VERSION, FindCoordinatorResponse)
        requests = -(-count // COMMIT_PARTITIONS)
        for number in range(requests):
            places = [Place(at, number) for at in range(COMMIT_PARTITIONS)]
            request = OffsetCommitRequest(
                f"commits-{number % groups}", -1, "", topics=[Topic("load-0", partitions=places)]
            )
            client.send(request, _COMMIT_VERSION)
            if number >= _IN_FLIGHT:
                _committed(client)
        for _ in range(min(_IN_FLIGHT, requests)):
            _committed(client)
    print(f"load: {count:,} commits in {time.monotonic() - begun:.1f} s", flush=True)


def _committed(client: RawClient) -> None:
    (topic,) = client.receive(OffsetCommitResponse).topics
    assert not any(place.error_code for place in topic.partitions), topic


def _started(folder: Path, what: str, groups: int) -> tuple[BrokerProcess, float]:
    """Start the broker; return the time until metadata is served, and print the time until the last group is loaded."""
    begun = time.monotonic()
    broker = BrokerProcess(folder)
    with RawClient(broker.bootstrap) as client:
        client.ask(MetadataRequest([]), _METADATA_VERSION, MetadataResponse)
        seconds = time.monotonic() - begun
        Group = OffsetFetchRequest.OffsetFetchRequestGroup
        asked = [Group(f"commits-{number}", topics=None) for number in range(groups)]
        while any(
            group.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            for group in client.ask(
                OffsetFetchRequest(groups=asked), _FETCH_OFFSETS_VERSION, OffsetFetchResponse
            ).groups
        ):
            time.sleep(_BACKOFF_SECONDS)
    loaded = time.monotonic() - begun
    print(
        f"load: restart after {what}: metadata after {seconds:.2f} s, all groups after {loaded:.2f} s, "
        f"{broker.cpu_seconds:.2f} s of CPU; "
        f"resident {broker.resident_bytes / 1e6:.0f} MB, {broker.descriptors:,} descriptors",
        flush=True,
    )
    return broker, seconds


def _few_descriptors(folder: Path) -> None:
    """Restart a broker with as few descriptors as it ran with before."""
    used = 0
    for turn in range(2):
        with BrokerProcess(folder, files_max=FEW_DESCRIPTORS) as broker, RawClient(broker.bootstrap) as client:
            if not turn:
                client.create({"few": FEW_PARTITIONS})
            for number in range(FEW_PARTITIONS):
                client.send(produce_request("few", number, [b"x"], now_ms()), PRODUCE_VERSION)
                answer: Any = client.protocol.receive(client.socket.receive()).message
                assert answer.responses[0].partition_responses[0].base_offset == turn
            used = broker.descriptors
    print(f"load: {FEW_PARTITIONS} partitions run and start again with {used} of {FEW_DESCRIPTORS} descriptors")


def main(arguments: list[str]) -> int:
    """Measure, print the results, and return the exit status, which is 1 if a restart takes too long."""
    parser = argparse.ArgumentParser(prog="python -m tools.soak load")
    parser.add_argument("--seconds", type=float, default=15, help="duration of heartbeats, and of producing")
    parser.add_argument("--seed", help="has no effect, since this soak is not random")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--commits", type=int, default=200_000)
    parser.add_argument("--bootstrap", help="not supported, since this soak starts its own broker")
    given = parser.parse_args(arguments)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * given.connections)), hard))
    folder = Path(tempfile.mkdtemp(prefix="kafkawire-load-"))
    broker = None
    try:
        broker = BrokerProcess(folder / "data")
        begun = time.monotonic()
        with RawClient(broker.bootstrap) as client:
            client.create(_topics(given.partitions))
            client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), _COORDINATOR_VERSION, FindCoordinatorResponse)
        print(f"load: {given.partitions:,} partitions created in {time.monotonic() - begun:.1f} s", flush=True)
        asyncio.run(_together(broker, given))
        _commit(broker, given.commits, given.groups)
        begun = time.monotonic()
        assert broker.stop() == 0
        print(f"load: stopped in {time.monotonic() - begun:.2f} s")
        broker, after_stop = _started(folder / "data", "a stop", given.groups)
        broker.kill()
        broker, after_kill = _started(folder / "data", "a kill", given.groups)
        broker.kill()
        _few_descriptors(folder / "few")
    finally:
        if broker is not None:
            broker.kill()
        shutil.rmtree(folder)
    return 0 if max(after_stop, after_kill) <= RESTART_SECONDS_MAX else 1
