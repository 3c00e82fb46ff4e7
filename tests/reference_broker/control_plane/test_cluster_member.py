"""The logs of a broker in a cluster react to other brokers, the registry, the disk and the passing of time.

Method: run in-process brokers with one embedded registry; tests/reference_broker/test_cluster.py has longer stories. A
broker without sockets shows when something happens, and with which options its parts are created.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkawire import Admin, NewTopic, Producer
from kafkawire.reference_broker.cluster import membership
from kafkawire.reference_broker.cluster.registry_topics import ReplicationFactors
from kafkawire.reference_broker.config.cluster_options import RACK_AWARE_SELECTOR
from kafkawire.reference_broker.control_plane import cluster_member
from kafkawire.reference_broker.replicas.cluster_replica import ClusterReplica
from kafkawire.reference_broker.replicas.fetcher import FetcherOptions, FetcherVersions
from kafkawire.reference_broker.replicas.roles import Role
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation, ConfigResourceType
from tests.reference_broker import member_bench
from tests.reference_broker.broker_cluster import PATIENCE_SECONDS, BrokerCluster, until
from tests.reference_broker.member_bench import MemberBench

RETENTION = {"log.retention.ms": "777"}


def in_cluster(size: int, story: Callable[[BrokerCluster], Awaitable[None]], **options: object) -> None:
    async def run() -> None:
        async with BrokerCluster(size, **options) as cluster:
            async with Admin(cluster.bootstrap) as admin, asyncio.timeout(PATIENCE_SECONDS):
                await admin.create_topics([NewTopic("t", size, size)])
            await cluster.led("t", range(size), isr=size)
            await story(cluster)

    asyncio.run(run())


def replica_of(cluster: BrokerCluster, broker_id: int, number: int = 0) -> ClusterReplica:
    replica = cluster.brokers[broker_id].core.replicas.get("t", number)
    assert isinstance(replica, ClusterReplica)
    return replica


def test_a_follower_that_is_silent_leaves_the_isr() -> None:
    async def story(cluster: BrokerCluster) -> None:
        leader = cluster.controller_id
        number = next(each for each in range(2) if cluster.leader_of("t", each) == leader)
        # The follower's session lives on, so only its silence shows that it is gone.
        await cluster.brokers.pop(3 - leader).kill()
        async with Producer(cluster.bootstrap, acks=1) as producer:
            producer.send("t", b"1", partition=number)
            await producer.flush()
        replica = replica_of(cluster, leader, number)
        await until(lambda: replica.isr == (leader,), "the follower is out of sync")
        assert replica.log.high_watermark == 1

    in_cluster(2, story, replica_lag_time_max_ms=600, replica_fetch_wait_max_ms=100)


def test_defaults_of_brokers_reach_logs() -> None:
    async def story(cluster: BrokerCluster) -> None:
        core, log = cluster.brokers[1].core, replica_of(cluster, 1).log
        done: list[object] = []
        core.dynamic_configs.change(ConfigResourceType.BROKER, "", lambda before: RETENTION, done.append)
        await until(lambda: log.config.retention_ms == 777, "the log has the configuration")
        assert done == [None]

    in_cluster(1, story)


def test_a_failed_log_is_told_to_the_controller() -> None:
    async def story(cluster: BrokerCluster) -> None:
        leader = cluster.leader_of("t")
        replica = replica_of(cluster, leader)
        replica.log.fail(OSError("no disk"))
        await cluster.led("t", [0], isr=1)
        assert replica.role is Role.OFFLINE
        assert cluster.leader_of("t") == 3 - leader

    in_cluster(2, story)


def test_high_watermarks_are_written() -> None:
    async def story(cluster: BrokerCluster) -> None:
        async with Producer(cluster.bootstrap) as producer:
            producer.send("t", b"1", partition=0)
            await producer.flush()
        disk = cluster.disks[1]
        name = "replication-offset-checkpoint"
        await until(
            lambda: name in disk.names("") and b"t 0 1\n" in bytes(disk.open(name).read(0, 1_000)), "it is written"
        )

    in_cluster(1, story, replica_high_watermark_checkpoint_interval_ms=20)


def test_consumers_may_read_from_followers() -> None:
    async def story(cluster: BrokerCluster) -> None:
        leader = cluster.leader_of("t")
        assert replica_of(cluster, leader).preferred_reader("elsewhere", 0) is None
        await until(
            lambda: replica_of(cluster, leader).preferred_reader(f"rack{3 - leader}", 0) == 3 - leader,
            "the leader sends consumers to the follower in their rack",
        )

    in_cluster(2, story, replica_selector_class=RACK_AWARE_SELECTOR)


@pytest.mark.parametrize("kind", [ConfigResourceType.TOPIC, ConfigResourceType.BROKER])
def test_unclean_elections_that_are_allowed_later(kind: ConfigResourceType) -> None:
    async def story(cluster: BrokerCluster) -> None:
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topics([NewTopic("u", assignments={0: (1, 2)})])
        await cluster.led("u", [0], isr=2)
        await cluster.kill(2)
        await cluster.led("u", [0], isr=1)
        await cluster.kill(1)
        await until(lambda: cluster.leader_of("u") == -1, "the partition has no leader")
        await cluster.start(2)
        assert cluster.leader_of("u") == -1
        name = "u" if kind is ConfigResourceType.TOPIC else ""
        async with Admin(cluster.bootstrap) as admin:
            await admin.incremental_alter_configs(kind, name, {"unclean.leader.election.enable": "true"})
        await until(lambda: cluster.leader_of("u") == 2, "the replica that is not in sync leads")

    in_cluster(3, story)


def test_options_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each option reaches the part that it configures."""
    options = {
        "replica_fetch_wait_max_ms": 11,
        "replica_fetch_min_bytes": 12,
        "replica_fetch_max_bytes": 1_300,
        "replica_fetch_response_max_bytes": 1_400,
        "replica_fetch_backoff_ms": 15,
        "replica_socket_timeout_ms": 16,
        "replica_lag_time_max_ms": 17,
        "num_replica_fetchers": 3,
        "inter_broker_protocol_version": "3.5-IV0",
    }
    for name, value in options.items():
        monkeypatch.setitem(member_bench._OPTIONS, name, value)
    made: dict[str, tuple[Any, ...]] = {}
    for part in ("Fetchers", "Surroundings"):
        original = getattr(cluster_member, part)

        def make(*arguments: Any, part: str = part, original: Any = original) -> Any:
            made[part] = arguments
            return original(*arguments)

        monkeypatch.setattr(cluster_member, part, make)
    bench = MemberBench(MemoryDisk())
    broker_id = bench.membership.broker_id
    assert made["Fetchers"][2] == FetcherOptions(broker_id, 11, 12, 1_300, 1_400, 15, 16)
    assert made["Fetchers"][-2:] == (3, FetcherVersions(14, list_offsets=8))
    assert made["Surroundings"][:2] == (broker_id, 17)


def test_replication_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {
        "default_replication_factor": 3,
        "offsets_topic_replication_factor": 4,
        "transaction_state_log_replication_factor": 5,
        "transaction_state_log_min_isr": 2,
    }
    for name, value in options.items():
        monkeypatch.setitem(member_bench._OPTIONS, name, value)
    made: list[ReplicationFactors] = []

    def make(*arguments: int) -> ReplicationFactors:
        made.append(ReplicationFactors(*arguments))
        return made[-1]

    monkeypatch.setattr(membership, "ReplicationFactors", make)
    MemberBench(MemoryDisk())
    assert made == [ReplicationFactors(3, 4, 5, 2)]


def test_replicas_are_looked_at_twice_in_the_time_that_followers_may_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr(ClusterReplica, "check_in_sync", lambda self, now_ms: looked.append(now_ms))
    monkeypatch.setitem(member_bench._OPTIONS, "replica_lag_time_max_ms", 30_000)
    bench = MemberBench(MemoryDisk())
    bench.create("t")
    start_ms = bench.now_ms
    for _ in range(30):
        bench.advance(1_000)
    assert [at - start_ms for at in looked] == [15_000, 30_000]


def test_a_configuration_reaches_its_logs() -> None:
    bench = MemberBench(MemoryDisk())
    bench.create("t")
    alterable = IncrementalAlterConfigsRequest.AlterableConfig("retention.ms", AlterConfigOperation.SET, "777")
    asked = IncrementalAlterConfigsRequest.AlterConfigsResource(ConfigResourceType.TOPIC, "t", [alterable])
    (response,) = bench.ask(IncrementalAlterConfigsRequest([asked])).responses
    assert not response.error_code
    bench.settle()
    assert bench.core.directory.of("t")[0].config.retention_ms == 777
    assert bench.core.metadata.image.topics["t"].configs == {"retention.ms": "777"}


def test_offsets_of_a_deleted_topic_are_forgotten_before_its_client_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = MemberBench(MemoryDisk())
    bench.create("t")
    events: list[str] = []
    monkeypatch.setattr(bench.core.groups, "forget_topic", lambda *arguments: events.append("forgotten"))
    operation = bench.begin(DeleteTopicsRequest(topic_names=["t"], timeout_ms=60_000), 5)
    while operation.steps is not None:
        operation.step()
    operation.then(lambda response: events.append("answered"))
    bench.settle()
    assert events == ["forgotten", "answered"]


def test_a_broker_that_stops_asks_for_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    for part in ("Fetchers", "AlterPartition", "ControlRequests"):
        kind = getattr(cluster_member, part)

        def close(self: Any, part: str = part, original: Any = kind.close) -> None:
            closed.append(part)
            original(self)

        monkeypatch.setattr(kind, "close", close)
    bench = MemberBench(MemoryDisk())
    bench.core.close()
    assert set(closed) == {"ControlRequests", "Fetchers", "AlterPartition"}


def test_throttled_replication() -> None:
    """The rate and the replicas can be changed dynamically; removing either lifts an exceeded quota."""
    rate, replicas = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"

    async def story(cluster: BrokerCluster) -> None:
        replica = replica_of(cluster, 1)

        async def configured(name: str, changes: dict[str, str | None], *, holds_back: bool) -> None:
            """Change the configuration of topic t or of a broker, and wait until it takes effect."""
            kind = ConfigResourceType.TOPIC if name == "t" else ConfigResourceType.BROKER
            async with Admin(cluster.bootstrap) as admin:
                await admin.incremental_alter_configs(kind, name, changes)
            await until(lambda: replica.holds_back(9) is holds_back, f"{changes} takes effect")

        await configured("", {rate: "1"}, holds_back=False)
        replica.sent(10_000_000)
        await configured("t", {replicas: "0:1"}, holds_back=False)
        replica.sent(10_000_000)
        assert (replica.holds_back(9), replica.holds_back(1)) == (True, False)
        await configured("1", {rate: "10000000"}, holds_back=False)
        await configured("1", {rate: None}, holds_back=True)
        await configured("t", {replicas: "0:2"}, holds_back=False)
        await configured("t", {replicas: "*"}, holds_back=True)
        await configured("t", {replicas: None}, holds_back=False)

    in_cluster(1, story, replication_quota_window_size_seconds=1_000)
