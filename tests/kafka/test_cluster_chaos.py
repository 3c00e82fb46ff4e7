"""Three brokers with a real ZooKeeper lose nothing while their members, disks and links fail one after another.

Method: start `kafkawire.testing.Cluster` as users would, and put it under a load that counts errors; a seed determines
what fails. For longer runs, set `KAFKAWIRE_TEST_CHAOS_SECONDS=300 KAFKAWIRE_TEST_CHAOS_SEED=7`. Pauses are printed; the
limit that they are checked against is generous enough for a busy machine.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Literal, NamedTuple, Self

import pytest

from kafkawire import ConfigResourceType, NewTopic, sync
from kafkawire.commands.cluster.replica_lag import ClusterView, PartitionView, look_at
from kafkawire.errors import KafkaWireError
from kafkawire.local_cluster.cluster_folder import ClusterFolder
from kafkawire.local_cluster.supervisor import BROKER_COMMAND
from kafkawire.sdk.storage.properties import parse_properties, properties_content
from kafkawire.testing import Cluster
from tests.kafka.cluster_faults import Cut, Gates, check_told, limit_files, processes, until
from tests.kafka.cluster_load import ClusterLoad, segments_equal
from tests.needs import LINUX, SPARK
from tests.ports import free_port

SECONDS: Final = int(os.environ.get("KAFKAWIRE_TEST_CHAOS_SECONDS", "60"))
SEED: Final = int(os.environ.get("KAFKAWIRE_TEST_CHAOS_SEED", "1"))

pytestmark = [pytest.mark.timeout(SECONDS + 840), LINUX.mark]

#: A killed broker is noticed when its 6 s session ends; on an idle machine, a cluster recovers within 10 s.
LIMIT_SECONDS: Final = 90.0

#: How long a client waits for a stopped broker.
REQUEST_TIMEOUT_MS: Final = 5_000

#: The time for which a process stays stopped.
STOP_SECONDS: Final = 15.0

BROKERS: Final = (1, 2, 3)

#: The controller's log lines when all in-sync replicas are gone: when a broker has ended, and when a controller begins.
NO_LEADER: Final = (
    r"no leader was elected for \S+: no replica can lead it \(offline\)",
    r"no leader was elected for \S+: Failed to elect leader for partition \S+ under strategy Offline",
)

#: STALE_CONTROLLER_EPOCH, which, as in Kafka, a controller logs that does not yet know it has been replaced.
ZOMBIE_ERRORS: Final = ("rejected (UpdateMetadata|LeaderAndIsr|StopReplica) with error code 11",)


class Scene:
    """A cluster under load.

    Args:
        cluster: its brokers.
        load: the clients' load on it.
    """

    def __init__(self, cluster: Cluster, load: ClusterLoad) -> None:
        self.cluster = cluster
        self._load = load

    def go_on(self, what: str, parts: Iterable[str] = ("read", "copy")) -> None:
        """Wait until every partition and the other parts of the load make progress, and print the time that took."""
        seconds = self._load.await_every_partition(LIMIT_SECONDS, parts)
        print(f"{time.strftime('%X')} {what}: progress after {seconds:.1f} s")

    @property
    def controller(self) -> int:
        """Wait until the brokers know a controller, and return it."""
        until(lambda: look(self.cluster).controller is not None, "there is no controller", LIMIT_SECONDS)
        found = look(self.cluster).controller
        assert found is not None
        return found

    def role(self, broker: int) -> str:
        """Return a description of a broker and its role, for printing."""
        return f"broker {broker}{', the controller,' if broker == self.controller else ''}"

    def partitions(self) -> list[PartitionView]:
        """Return the load's partitions."""
        return [each for each in look(self.cluster).partitions if each.topic in self._load.topics]

    def await_in_sync(self, brokers: Iterable[int] = BROKERS) -> None:
        """Wait until these brokers are the ISR of each of the load's partitions, and lead all of them."""
        wanted = set(brokers)

        def others() -> list[PartitionView]:
            return [each for each in self.partitions() if set(each.in_sync) != wanted or each.leader not in wanted]

        until(lambda: not others(), lambda: f"not in sync on {wanted}: {others()}", LIMIT_SECONDS)


@contextmanager
def under_load(
    folder: Path,
    options: Mapping[str, object] | None = None,
    known: Iterable[str] = (),
    prepare: Callable[[Cluster], None] = lambda cluster: None,
) -> Iterator[Scene]:
    """Run a load on a new cluster, and check everything at the end.

    Args:
        folder: the folder for the cluster.
        options: options for its brokers.
        known: regular expressions for errors that the brokers log as a result of the test's faults.
        prepare: called before the load.
    """
    SPARK.require()
    with Cluster(folder, brokers=3, options={"min.insync.replicas": 2, **(options or {})}) as cluster:
        prepare(cluster)
        with ClusterLoad(cluster.bootstrap, "chaos", 12, request_timeout_ms=REQUEST_TIMEOUT_MS) as load:
            scene = Scene(cluster, load)
            scene.go_on("the start")
            yield scene
            scene.go_on("the end")
            scene.await_in_sync()
            counts = load.finish()
        print(counts)
        assert not counts.wrong, counts
        folders = {broker: folder / f"broker-{broker}" for broker in BROKERS}
        segments = segments_equal(folders, load.topics)
        assert not segments.different, segments
        print(f"{segments.size_bytes} bytes are the same on all brokers")
        check_told(folder, known)


def test_a_broker_is_killed_every_ten_seconds(tmp_path: Path) -> None:
    """The seed determines which broker is killed; it may be the controller."""
    random = Random(SEED)
    with under_load(tmp_path) as scene:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            broker, begin = random.choice(BROKERS), time.monotonic()
            role = scene.role(broker)
            scene.cluster.kill(broker)
            scene.go_on(f"{role} is killed")
            scene.cluster.restart(broker)
            scene.go_on(f"broker {broker} is started")
            time.sleep(max(0.0, begin + 10 - time.monotonic()))


@pytest.mark.parametrize("session_seconds", [6, 20])
def test_a_broker_is_stopped_for_fifteen_seconds(tmp_path: Path, session_seconds: int) -> None:
    """If a leader or a controller resumes after others have taken over, it acknowledges nothing that is then lost."""
    with under_load(tmp_path, {"zookeeper.session.timeout.ms": session_seconds * 1_000}, ZOMBIE_ERRORS) as scene:
        for broker in BROKERS:
            role, begin = scene.role(broker), time.monotonic()
            scene.cluster.pause(broker)
            if session_seconds < STOP_SECONDS:
                scene.go_on(f"{role} is stopped")
                scene.await_in_sync(set(BROKERS) - {broker})
            time.sleep(max(0.0, begin + STOP_SECONDS - time.monotonic()))
            scene.cluster.resume(broker)
            scene.go_on(f"{role} wakes up")
            scene.await_in_sync()


def test_zookeeper_is_away(tmp_path: Path) -> None:
    """ZooKeeper is killed and restarted, stopped for longer than the sessions last, and unavailable for a minute."""
    with under_load(tmp_path) as scene:
        cluster = scene.cluster
        cluster.kill("zookeeper")
        scene.go_on("ZooKeeper is killed")
        cluster.restart("zookeeper")
        scene.go_on("ZooKeeper is started")
        cluster.pause("zookeeper")
        scene.go_on("ZooKeeper is stopped")
        time.sleep(STOP_SECONDS)
        cluster.resume("zookeeper")
        scene.go_on("ZooKeeper wakes up")
        create_topic(cluster, "after-the-pause")
        scene.await_in_sync()
        cluster.kill("zookeeper")
        time.sleep(30)
        scene.go_on("half a minute without ZooKeeper")
        time.sleep(30)
        cluster.restart("zookeeper")
        scene.go_on("ZooKeeper is started after a minute")
        create_topic(cluster, "after-the-minute")
        scene.await_in_sync()


def create_topic(cluster: Cluster, name: str) -> None:
    """Create a topic, which needs a controller."""
    with sync.Admin(cluster.bootstrap) as admin:
        admin.create_topics(NewTopic(name, 1, 3))
    with sync.Producer(cluster.bootstrap, acks="all") as producer:
        producer.send(name, b"first").result()


# The network.

ZOOKEEPER: Final = 0

Cuts = Iterable[tuple[int, int, Cut]]


def put_gates(cluster: Cluster, gates: Gates) -> None:
    """Restart all brokers with gates between each other and ZooKeeper."""
    zookeeper_gate = free_port()
    gates.open(zookeeper_gate, ZOOKEEPER, int(cluster.zookeeper.rpartition(":")[2]))
    for broker, address in cluster.addresses.items():
        cluster.stop(broker)
        inner, gate = free_port(), free_port()
        gates.open(gate, broker, inner)
        change_config(
            cluster,
            broker,
            {
                "listeners": f"PLAINTEXT://{address},BROKERS://127.0.0.1:{inner}",
                "advertised.listeners": f"PLAINTEXT://{address},BROKERS://127.0.0.1:{gate}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
                "inter.broker.listener.name": "BROKERS",
                "zookeeper.connect": f"127.0.0.1:{zookeeper_gate}",
            },
        )
    for broker in cluster.addresses:
        cluster.restart(broker)
    await_brokers(cluster, BROKERS)


def config_of(cluster: Cluster, broker: int) -> dict[str, str]:
    """Return the properties of a broker."""
    path = ClusterFolder(cluster.data_dir).config_path(str(broker))
    return {entry.name: entry.value for entry in parse_properties(path.read_text())}


def change_config(cluster: Cluster, broker: int, changes: Mapping[str, str]) -> None:
    """Change a broker's properties before its next startup."""
    path = ClusterFolder(cluster.data_dir).config_path(str(broker))
    path.write_bytes(properties_content({**config_of(cluster, broker), **changes}))


def both_ways(one: int, other: int, cut: Cut) -> Cuts:
    return [(one, other, cut), (other, one, cut)]


NETWORK_CASES: Final[Mapping[str, Callable[[int, int, int], Cuts]]] = {
    "no word between two followers of the controller": lambda a, b, controller: both_ways(a, b, Cut.SILENCE),
    "no word between the controller and another": lambda a, b, controller: both_ways(controller, a, Cut.SILENCE),
    "resets between two": lambda a, b, controller: both_ways(a, b, Cut.RESET),
    "one gets no answers of another": lambda a, b, controller: [(a, b, Cut.NO_ANSWERS)],
    "the requests of one do not reach another": lambda a, b, controller: [(b, a, Cut.NO_REQUESTS)],
    "the controller gets no answers of a broker": lambda a, b, controller: [(controller, b, Cut.NO_ANSWERS)],
    "a broker gets no answers of the controller": lambda a, b, controller: [(b, controller, Cut.NO_ANSWERS)],
    "the controller does not reach ZooKeeper": lambda a, b, controller: [(controller, ZOOKEEPER, Cut.SILENCE)],
    "a broker does not reach ZooKeeper": lambda a, b, controller: [(a, ZOOKEEPER, Cut.RESET)],
    "the controller gets no answers of ZooKeeper": lambda a, b, controller: [(controller, ZOOKEEPER, Cut.NO_ANSWERS)],
    "one is alone": lambda a, b, controller: [
        *both_ways(a, b, Cut.SILENCE),
        *both_ways(a, controller, Cut.SILENCE),
        (a, ZOOKEEPER, Cut.SILENCE),
    ],
    "the controller is alone": lambda a, b, controller: [
        *both_ways(controller, a, Cut.SILENCE),
        *both_ways(controller, b, Cut.SILENCE),
        (controller, ZOOKEEPER, Cut.SILENCE),
    ],
}


#: As in Kafka, a leader that cannot reach the controller cannot change the ISR of its partitions.
STUCK_UNTIL_HEALED: Final = ("no word between the controller and another",)


@contextmanager
def gated_load(folder: Path, known: Iterable[str] = ZOMBIE_ERRORS) -> Iterator[tuple[Scene, Gates]]:
    """Run a load on a new cluster with gates between its members; see `under_load`."""
    running: list[Cluster] = []
    with Gates(lambda: processes(running[0])) as gates:

        def prepare(cluster: Cluster) -> None:
            running.append(cluster)
            put_gates(cluster, gates)

        with under_load(folder, {"replica.lag.time.max.ms": 5_000}, known, prepare) as scene:
            yield scene, gates


@pytest.mark.parametrize("half", [0, 1])
def test_links_are_cut(tmp_path: Path, half: int) -> None:
    """Any two brokers, or a broker and ZooKeeper, lose their link in one direction or both, for 10 to 20 s each."""
    random = Random(SEED)
    with gated_load(tmp_path) as (scene, gates):
        for name, cuts in list(NETWORK_CASES.items())[half::2]:
            controller = scene.controller
            a, b = random.sample([broker for broker in BROKERS if broker != controller], 2)
            heals_at = time.monotonic() + random.uniform(10, 20)
            for source, target, cut in cuts(a, b, controller):
                gates.cut(source, target, cut)
            # Transactions may have to wait, because their coordinator cannot reach the leaders of their partitions.
            if name not in STUCK_UNTIL_HEALED:
                scene.go_on(f"{name} (brokers {a} and {b}, the controller {controller})", ["read"])
            time.sleep(max(0.0, heals_at - time.monotonic()))
            if name not in STUCK_UNTIL_HEALED:
                scene.go_on(f"{name}, still", ["read"])
            gates.heal()
            scene.go_on(f"{name}, and heals")
            scene.await_in_sync()


# Multiple faults.


class Fault(NamedTuple):
    """A temporary fault.

    Attributes:
        name: the text to print.
        member: the affected member: a broker's id, or `ZOOKEEPER`.
        begin: starts the fault.
        end: ends the fault.
    """

    name: str
    member: int
    begin: Callable[[], object]
    end: Callable[[], object]


def some_fault(random: Random, cluster: Cluster, gates: Gates, member: int) -> Fault:
    """Return a fault for a member."""
    named: int | Literal["zookeeper"] = member if member != ZOOKEEPER else "zookeeper"
    kind = random.choice(["killed", "stopped", "cut off"] if member != ZOOKEEPER else ["killed", "stopped"])
    if kind == "killed":
        return Fault(f"{named} is killed", member, lambda: cluster.kill(named), lambda: cluster.restart(named))
    if kind == "stopped":
        return Fault(f"{named} is stopped", member, lambda: cluster.pause(named), lambda: cluster.resume(named))
    other = random.choice([each for each in (ZOOKEEPER, *BROKERS) if each != member])
    cut = random.choice(list(Cut))
    return Fault(f"{cut.value} from {other} to {member}", member, lambda: gates.cut(member, other, cut), gates.heal)


def test_two_faults_at_once(tmp_path: Path) -> None:
    """Any two faults occur at once, for 1 to 15 s; no progress is required until both have ended."""
    random = Random(SEED)
    # As in Kafka, a resumed leader considers its followers slow and removes them, so the ISR briefly consists of the
    # leader alone. If its session has ended, its partitions have no leader until it has registered again.
    known = (*ZOMBIE_ERRORS, *NO_LEADER)
    with gated_load(tmp_path, known) as (scene, gates):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            members = random.sample((ZOOKEEPER, *BROKERS), 2)
            faults = [some_fault(random, scene.cluster, gates, member) for member in members]
            for fault in faults:
                fault.begin()
                time.sleep(random.uniform(0, 2))
            time.sleep(random.uniform(1, 15))
            gates.heal()
            for fault in sorted(faults, key=lambda each: each.member):  # a broker needs ZooKeeper to start
                fault.end()
            scene.go_on(" and ".join(fault.name for fault in faults))
            if random.random() < 0.5:
                scene.await_in_sync()


# Elections of out-of-sync replicas.


def test_a_partition_waits_for_its_in_sync_replica(tmp_path: Path) -> None:
    """Without unclean elections, no other replica leads; with them, one does, and the old leader's records are lost."""
    SPARK.require()
    with Cluster(tmp_path, brokers=3, options={"min.insync.replicas": 1}) as cluster:
        with sync.Admin(cluster.bootstrap) as admin:
            on = {"unclean.leader.election.enable": "true"}
            for name, configs in (("waits", {}), ("unclean", on), ("switched", {})):
                admin.create_topics(NewTopic(name, assignments={0: (1, 2)}, configs=configs))
        names = ("waits", "unclean", "switched")
        send(cluster, names, "first", 10)
        cluster.kill(2)
        await_partition(cluster, names, leader=1, in_sync={1})
        send(cluster, names, "only on 1", 7)
        cluster.kill(1)
        cluster.restart(2)
        await_partition(cluster, ["unclean"], leader=2, in_sync={2})
        await_partition(cluster, ["waits", "switched"], leader=None, in_sync={1})
        with sync.Producer(cluster.bootstrap, delivery_timeout_ms=3_000, request_timeout_ms=2_000) as producer:
            for name in ("waits", "switched"):
                with pytest.raises(KafkaWireError):
                    producer.send(name, b"refused").result()
        send(cluster, ["unclean"], "after", 5)
        with sync.Admin(cluster.bootstrap) as admin:
            admin.incremental_alter_configs(ConfigResourceType.TOPIC, "switched", on)
        await_partition(cluster, ["switched"], leader=2, in_sync={2})
        send(cluster, ["switched"], "after", 5)
        await_partition(cluster, ["waits"], leader=None, in_sync={1})
        cluster.restart(1)
        await_partition(cluster, names, in_sync={1, 2})
        send(cluster, names, "last", 3)
        kept = ["first"] * 10 + ["only on 1"] * 7 + ["last"] * 3
        assert values(cluster, "waits") == kept
        lost = ["first"] * 10 + ["after"] * 5 + ["last"] * 3
        assert values(cluster, "unclean") == lost
        assert values(cluster, "switched") == lost
        check_told(tmp_path, NO_LEADER)
        folders = {broker: tmp_path / f"broker-{broker}" for broker in (1, 2)}
        assert not segments_equal(folders, names, replicas=2).different


def look(cluster: Cluster) -> ClusterView:
    """Return the brokers' state as reported by the first broker that answers."""
    views: list[ClusterView | None] = []

    def has_answered() -> bool:
        views.append(asyncio.run(look_at(cluster.addresses)))
        return views[-1] is not None

    until(has_answered, "no broker answers", LIMIT_SECONDS)
    (view,) = filter(None, views)
    return view


def await_partition(cluster: Cluster, topics: Iterable[str], in_sync: set[int], **leader: int | None) -> None:
    """Wait until partition 0 of each topic has this ISR and leader."""

    def found() -> list[tuple[str, int | None, tuple[int, ...]]]:
        return [
            (each.topic, each.leader, each.in_sync) for each in look(cluster).partitions if each.topic in set(topics)
        ]

    until(
        lambda: all(
            set(isr) == in_sync and (leader["leader"] == led if leader else led is not None) for _, led, isr in found()
        ),
        lambda: f"expected {in_sync} and {leader}: {found()}",
        LIMIT_SECONDS,
    )


def send(cluster: Cluster, topics: Iterable[str], value: str, count: int) -> None:
    """Send a value a number of times, waiting for each acknowledgement before sending the next record."""
    with sync.Producer(cluster.bootstrap, acks="all", delivery_timeout_ms=int(LIMIT_SECONDS * 1_000)) as producer:
        for topic in topics:
            for _ in range(count):
                producer.send(topic, value.encode(), partition=0).result()


def values(cluster: Cluster, topic: str) -> list[str]:
    with sync.Consumer(cluster.bootstrap, topic, auto_offset_reset="earliest") as consumer:
        return [bytes(record.value or b"").decode() for record in consumer.records(stop_at_end=True)]


# Broker identity.


class OtherBroker:
    """Another process with broker 1's properties, running inside a `with` block.

    Args:
        cluster: the cluster of broker 1.
        folder: the folder for its files, which do not exist yet.
        without_id: whether the cluster should generate its id.
    """

    def __init__(self, cluster: Cluster, folder: Path, *, without_id: bool = False) -> None:
        folder.mkdir()
        changes = {"listeners": f"PLAINTEXT://127.0.0.1:{free_port()}", "log.dirs": str(folder / "data")}
        properties = {**config_of(cluster, 1), **changes}
        if without_id:
            del properties["broker.id"]
        path = folder / "server.properties"
        path.write_bytes(properties_content(properties))
        self._log = folder / "broker.log"
        with self._log.open("wb") as output:
            self.process = subprocess.Popen([*BROKER_COMMAND, "--config", str(path)], stdout=output, stderr=output)

    @property
    def told(self) -> str:
        """Its output so far."""
        return self._log.read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        try:
            self.process.wait(LIMIT_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()


def test_ids_of_brokers(tmp_path: Path) -> None:
    """An id in use is refused; generated ids start at 1001."""
    SPARK.require()
    with Cluster(tmp_path / "cluster", brokers=3) as cluster:
        with OtherBroker(cluster, tmp_path / "second") as second:
            assert second.process.wait(LIMIT_SECONDS) == 2
            assert "broker.id='1': another broker is registered with this id" in second.told
            assert "Traceback" not in second.told
        with (
            OtherBroker(cluster, tmp_path / "first without id", without_id=True) as first,
            OtherBroker(cluster, tmp_path / "second without id", without_id=True) as second,
        ):
            await_brokers(cluster, {*BROKERS, 1001, 1002})
        for each in (first, second):
            assert each.process.returncode == 0
            assert "Traceback" not in each.told
        await_brokers(cluster, BROKERS)
        check_told(tmp_path / "cluster")


def brokers_of(cluster: Cluster) -> set[int]:
    """Return the brokers that the cluster knows."""
    with sync.Admin(cluster.bootstrap) as admin:
        return set(admin.describe_cluster().brokers)


def await_brokers(cluster: Cluster, brokers: Collection[int]) -> None:
    """Wait until the cluster knows these brokers, and no others."""
    until(lambda: brokers_of(cluster) == set(brokers), lambda: f"brokers {brokers_of(cluster)}", LIMIT_SECONDS)


def test_a_killed_broker_comes_back_with_an_empty_disk(tmp_path: Path) -> None:
    """The broker takes over its partitions, and catches up."""
    with under_load(tmp_path) as scene:
        for broker in BROKERS:
            scene.cluster.kill(broker)
            scene.go_on(f"broker {broker} is killed")
            data = Path(config_of(scene.cluster, broker)["log.dirs"])
            data.rename(data.with_name(f"lost-{broker}"))
            scene.cluster.restart(broker)
            scene.go_on(f"broker {broker} has an empty disk")
            scene.await_in_sync()


# The disk.

#: The maximum size of a file; the load fills a partition's log to this size in about 15 s.
FULL_BYTES: Final = 20_000


def test_disks_of_followers_and_leaders_fill_up(tmp_path: Path) -> None:
    """A broker's partitions fail one after another, and others lead them; after a restart, it has them all again."""
    # The broker's own log is limited, too: the next process's first line may follow a line that was cut off.
    cut_off = r" \S*\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO|unloading .*, since its log failed"
    known = ["File too large", ": taking the log offline", "the replicas of .* are offline", cut_off]
    with under_load(tmp_path, known=known) as scene:
        cluster = scene.cluster
        for broker in BROKERS:
            led = {each[:2] for each in scene.partitions() if each.leader == broker}
            limit_files(processes(cluster)[broker], FULL_BYTES)

            def has_failed(broker: int = broker, led: set[tuple[str, int]] = led) -> bool:
                failed = {each[:2] for each in scene.partitions() if broker not in each.in_sync}
                return bool(failed & led) and bool(failed - led)

            until(has_failed, lambda: f"nothing fails: {scene.partitions()}", LIMIT_SECONDS)
            scene.go_on(f"{scene.role(broker)} has a full disk")
            cluster.restart(broker)
            scene.await_in_sync()
            scene.go_on(f"broker {broker} has room again")
