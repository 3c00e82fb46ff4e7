"""Share consumers of the Java client and of this project have the same outcomes on both brokers, in every scenario.

Method: play each scenario (`share_scenarios.py`) with the members of each client (`share_drivers.py`) on each broker,
and compare what its steps show: values, delivery counts, outcomes of acknowledgements, offsets and lags.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.apache import ApacheKafka
from tests.kafka.share_drivers import DRIVERS, ShareProgram
from tests.kafka.share_scenarios import SCENARIOS
from tests.kafka.share_stage import LOCK_MS, ShareStage
from tests.ports import free_port
from tools.soak.broker_process import BrokerProcess

#: Killing Apache Kafka, and starting it again, takes longest.
TIMEOUT_SECONDS = 280

pytestmark = pytest.mark.timeout(300)

#: A resource without ACLs is open to everybody.
_KAFKA_SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "2",
    "log.cleaner.backoff.ms": "200",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
_OPTIONS: dict[str, object] = {
    "group_share_heartbeat_interval_ms": 500,
    "group_share_assignment_interval_ms": 0,
    "group_initial_rebalance_delay_ms": 0,
    "log_cleaner_backoff_ms": 200,
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow_everyone_if_no_acl_found": True,
}


class Restart:
    """Restarts a broker once the runs of all clients are waiting for that.

    Args:
        kill: kills the broker.
        start: starts it again with its files.
    """

    def __init__(self, kill: Callable[[], None], start: Callable[[], None]) -> None:
        self._kill = kill
        self._start = start
        self._waiting: list[asyncio.Future[None]] = []

    async def __call__(self) -> None:
        if len(self._waiting) < len(DRIVERS) - 1:
            self._waiting.append(asyncio.get_running_loop().create_future())
            await self._waiting[-1]
            return
        await asyncio.to_thread(self._kill)
        await asyncio.to_thread(self._start)
        for waiting in self._waiting:
            waiting.set_result(None)
        self._waiting.clear()


class KafkaNode:
    """Apache Kafka."""

    def __init__(self, kafka: ApacheKafka) -> None:
        self.bootstrap = kafka.bootstrap
        self.restart = Restart(kafka.kill, kafka.start)

    def __str__(self) -> str:
        return "Apache Kafka"

    def lock_configs(self) -> Mapping[str, str]:
        return {"share.record.lock.duration.ms": str(LOCK_MS)}


class OwnNode:
    """The reference broker.

    Args:
        folder: the folder for its files.
        options: its options.
    """

    def __init__(self, folder: Path, **options: object) -> None:
        self._folder = folder
        self._options: dict[str, Any] = {**_OPTIONS, **options}
        self._port = free_port()
        self.bootstrap = f"127.0.0.1:{self._port}"
        self.restart = Restart(self.kill, self.start)
        self.start()

    def __str__(self) -> str:
        return "reference broker"

    def start(self) -> None:
        self._process = BrokerProcess(self._folder, port=self._port, **self._options)

    def kill(self) -> None:
        self._process.kill()

    def lock_configs(self) -> Mapping[str, str]:
        return {}


@pytest.fixture(scope="module")
def kafka_node() -> Iterator[KafkaNode]:
    with ApacheKafka(settings=_KAFKA_SETTINGS) as kafka:
        yield KafkaNode(kafka)


@pytest.fixture(scope="module")
def own_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnNode]:
    node = OwnNode(tmp_path_factory.mktemp("broker"))
    yield node
    node.kill()


@pytest.fixture(scope="module")
def quick_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnNode]:
    """The reference broker with short locks, which cannot be set for a single group."""
    node = OwnNode(tmp_path_factory.mktemp("broker"), group_share_record_lock_duration_ms=LOCK_MS)
    yield node
    node.kill()


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """The event loop of all tests, which share the clients' programs."""
    with asyncio.Runner() as made:
        yield made


@pytest.fixture(scope="module")
def programs(
    runner: asyncio.Runner, kafka_node: KafkaNode, own_node: OwnNode, quick_node: OwnNode
) -> Iterator[dict[tuple[str, str], ShareProgram]]:
    """A program for each client and each broker's address."""
    nodes = (kafka_node, own_node, quick_node)
    made = {(driver, node.bootstrap): ShareProgram(driver, node.bootstrap) for driver in DRIVERS for node in nodes}
    yield made
    for program in made.values():
        runner.run(program.kill())


@pytest.mark.parametrize("name", SCENARIOS)
def test_clients_and_brokers_agree(
    runner: asyncio.Runner,
    programs: dict[tuple[str, str], ShareProgram],
    kafka_node: KafkaNode,
    own_node: OwnNode,
    quick_node: OwnNode,
    name: str,
) -> None:
    scenario, run = SCENARIOS[name], time.time_ns()
    stages: dict[str, ShareStage] = {}
    for node in (kafka_node, quick_node if scenario.has_short_locks else own_node):
        for driver in DRIVERS:
            program = programs[driver, node.bootstrap]
            stages[f"{node}, {driver}"] = ShareStage(node, program, scenario, f"{driver}-{run}")
    outcomes = runner.run(_played(stages))
    expected = outcomes[f"{kafka_node}, java"]
    for combination, outcome in outcomes.items():
        for here, there in zip(outcome, expected, strict=True):
            assert here == there, combination


async def _played(stages: Mapping[str, ShareStage]) -> dict[str, list[tuple[str, Any]]]:
    """Play a scenario with each client on each broker at the same time, and return the outcomes."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        return dict(zip(stages, await asyncio.gather(*(stage.play() for stage in stages.values())), strict=True))
