"""Impossible requests and responses from other brokers are refused with Kafka's code, and do no harm.

Method: use a broker with its logs in a folder, whose controller is the test; a leader with scripted followers; and a
controller with brokers whose responses the test makes up. Then use each of them normally.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkawire.reference_broker.cluster.controller.controller import LOOK_AGAIN_DELAY_MS
from kafkawire.reference_broker.replicas.in_sync import CommittedIsr
from kafkawire.reference_broker.replicas.roles import Role
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory, lock_directory
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkawire.sdk.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import TOPIC, TOPIC_DELETION
from kafkawire.sdk.registry.registry import Create
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Broker, Cluster
from tests.reference_broker.replicas.controlled_broker import (
    BROKER_EPOCH,
    Controlled,
    alive,
    leader_and_isr,
    state,
    stop_by_partition,
)
from tests.reference_broker.replicas.leader_bench import EPOCH, LeaderBench

GOOD_ID = b"g" * 16
STORAGE, UNKNOWN = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def codes(response: Message) -> list[int]:
    """Return the partitions' codes in a response."""
    if isinstance(response, StopReplicaResponse):
        return [each.error_code for each in response.partition_errors]
    assert isinstance(response, LeaderAndIsrResponse)
    return [each.error_code for topic in response.topics for each in topic.partition_errors]


# The requests of a controller.


class Hosting:
    """A broker with its logs in a folder.

    Attributes:
        root: the folder that contains only the data directory.
        broker: see `Controlled`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        disk = MachineDisk(root / "data")
        directory = LogDirectory(LogServices(disk), lock_directory(disk), is_replicated=True)
        directory.open([])
        self.broker = Controlled(directory=directory)
        self.broker.ask(alive(1, 2), 8)

    def folders(self) -> list[str]:
        """Return the paths of all folders, relative to the root."""
        return sorted(path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_dir())

    def goes_on(self) -> None:
        """Assert that another topic can be led."""
        response = self.broker.ask(leader_and_isr(state(leader_epoch=9), topic="good", topic_id=GOOD_ID), 7)
        assert codes(response) == [ErrorCode.NONE]
        assert self.broker.role(topic="good") is Role.LEADER


@pytest.fixture
def hosting(tmp_path: Path) -> Hosting:
    return Hosting(tmp_path)


NAMES = ["../out", "a/b", "/out", "n" * 300, "a b", "é", "\0", "t\n", "", "\u0661"]


@pytest.mark.parametrize("topic", NAMES, ids=range(len(NAMES)))
def test_topics_that_no_folder_can_have(hosting: Hosting, caplog: pytest.LogCaptureFixture, topic: str) -> None:
    response = hosting.broker.ask(leader_and_isr(state(), topic=topic), 7)
    assert codes(response) == [STORAGE]
    assert any(": KAFKA_STORAGE_ERROR: " in record.getMessage() for record in caplog.records)
    assert hosting.folders() == ["data"], "nothing is created, inside or outside"
    request = stop_by_partition((0, -2, True))
    request.topic_states[0].topic_name = topic
    hosting.broker.ask(request, 4)
    assert hosting.folders() == ["data"]
    hosting.goes_on()
    assert hosting.folders() == ["data", "data/good-0"]


def test_numbers_that_are_those_of_other_partitions(hosting: Hosting) -> None:
    """Partition -1 of `t` would have the same folder as partition 1 of `t-`."""
    assert codes(hosting.broker.ask(leader_and_isr(state(-1), state(0)), 7)) == [STORAGE, ErrorCode.NONE]
    assert hosting.folders() == ["data", "data/t-0"]
    hosting.goes_on()


#: The fields of a partition's state, the code, and the resulting role.
STATES: list[tuple[dict[str, Any], ErrorCode, Role | None]] = [
    ({"replicas": []}, UNKNOWN, None),
    ({"replicas": [2, 3]}, UNKNOWN, None),
    ({"replicas": [-1]}, UNKNOWN, None),
    ({"leader_epoch": -9}, ErrorCode.STALE_CONTROLLER_EPOCH, None),
    ({"leader": -2}, ErrorCode.NONE, Role.CREATED),
    ({"leader": 99}, ErrorCode.NONE, Role.CREATED),
    ({"isr": [7, 8]}, ErrorCode.NONE, Role.LEADER),
    ({"isr": [2]}, ErrorCode.NONE, Role.LEADER),
    ({"isr": []}, ErrorCode.NONE, Role.LEADER),
    ({"isr": [-1, 1, 1]}, ErrorCode.NONE, Role.LEADER),
    ({"replicas": [1, 1, -7]}, ErrorCode.NONE, Role.LEADER),
    ({"adding_replicas": [9], "removing_replicas": [1, 2]}, ErrorCode.NONE, Role.LEADER),
    ({"leader_recovery_state": 9}, ErrorCode.NONE, Role.LEADER),
    ({"controller_epoch": 99}, ErrorCode.NONE, Role.LEADER),
]


@pytest.mark.parametrize(("fields", "code", "role"), STATES, ids=[str(each[0]) for each in STATES])
def test_states_of_partitions(hosting: Hosting, fields: dict[str, Any], code: ErrorCode, role: Role | None) -> None:
    """Like Kafka's brokers, the broker trusts the controller, except for the epoch and the assignment."""
    asked = state()
    for name, value in fields.items():
        setattr(asked, name, value)
    assert codes(hosting.broker.ask(leader_and_isr(asked), 7)) == [code]
    assert hosting.broker.role() is role
    assert codes(hosting.broker.ask(leader_and_isr(state(leader_epoch=8, partition_epoch=1)), 7)) == [ErrorCode.NONE]
    assert hosting.broker.role() is Role.LEADER, "a valid state restores the role"
    hosting.goes_on()


def test_a_leader_epoch_that_goes_back(hosting: Hosting) -> None:
    ask = hosting.broker.ask
    assert codes(ask(leader_and_isr(state(leader_epoch=2**31 - 1)), 7)) == [ErrorCode.NONE]
    assert codes(ask(leader_and_isr(state(leader=2, leader_epoch=4)), 7)) == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert codes(ask(stop_by_partition((0, 4, True)), 4)) == [ErrorCode.FENCED_LEADER_EPOCH]
    assert hosting.broker.role() is Role.LEADER
    hosting.goes_on()


@pytest.mark.parametrize("make", [leader_and_isr, stop_by_partition, alive])
@pytest.mark.parametrize(
    ("epochs", "code"),
    [
        ({"controller_epoch": 6}, ErrorCode.STALE_CONTROLLER_EPOCH),
        ({"controller_epoch": -(2**31)}, ErrorCode.STALE_CONTROLLER_EPOCH),
        ({"broker_epoch": BROKER_EPOCH - 1}, ErrorCode.STALE_BROKER_EPOCH),
        ({"broker_epoch": -2}, ErrorCode.STALE_BROKER_EPOCH),
    ],
)
def test_epochs_of_others(hosting: Hosting, make: Callable[..., Any], epochs: dict[str, int], code: ErrorCode) -> None:
    """A request with a wrong epoch is refused as a whole, and the existing roles are kept."""
    before = hosting.broker.cluster.metadata.image
    response: Any = hosting.broker.ask(make(**epochs), {leader_and_isr: 7, stop_by_partition: 4, alive: 8}[make])
    assert isinstance(response, LeaderAndIsrResponse | StopReplicaResponse | UpdateMetadataResponse)
    assert response.error_code == code
    assert hosting.broker.cluster.metadata.image is before
    hosting.goes_on()


def test_partitions_that_nobody_has(hosting: Hosting) -> None:
    """As in Kafka, stopping a missing partition succeeds."""
    wanted = [(number, -2, is_deleted) for number in (-1, 0, 5, 2**31 - 1) for is_deleted in (False, True)]
    response = hosting.broker.ask(stop_by_partition(*wanted), 4)
    assert codes(response) == [ErrorCode.NONE] * 4
    assert hosting.folders() == ["data"]
    hosting.goes_on()


def test_metadata_that_cannot_be_right(hosting: Hosting, caplog: pytest.LogCaptureFixture) -> None:
    request = alive(1, 2, -1, topics=["t"])
    State = UpdateMetadataRequest.UpdateMetadataPartitionState
    request.topic_states[0].partition_states = [
        State(partition_index=number, leader=leader, leader_epoch=1, isr=[1], replicas=[1])
        for number, leader in ((0, 1), (-5, 1), (2**31 - 1, 1), (1, -77))
    ]
    request.topic_states = [
        *request.topic_states,
        UpdateMetadataRequest.UpdateMetadataTopicState("", b"e" * 16, [State(replicas=[1])]),
    ]
    response = hosting.broker.ask(request, 8)
    assert isinstance(response, UpdateMetadataResponse)
    assert response.error_code == ErrorCode.NONE
    image = hosting.broker.cluster.metadata.image
    assert sorted(image.brokers) == [1, 2]
    assert [each.leader for each in image.topics["t"].partitions] == [1, -1]
    assert sorted(image.topics) == ["t"]
    (line,) = [record.getMessage() for record in caplog.records]
    assert "ignoring 4 entries; the first is " in line
    hosting.goes_on()


# A leader and its followers.


#: The fields of a fetch request, and the resulting code.
FETCHES: list[tuple[dict[str, Any], ErrorCode]] = [
    ({"broker_id": 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ({"broker_id": 77}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ({"broker_id": 2**31 - 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ({"current_leader_epoch": EPOCH + 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ({"current_leader_epoch": 2**31 - 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ({"current_leader_epoch": EPOCH - 1}, ErrorCode.FENCED_LEADER_EPOCH),
    ({"offset": 4}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ({"offset": 2**63 - 1}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ({"offset": -1}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ({"offset": -(2**63)}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ({"last_fetched_epoch": 2**31 - 1}, ErrorCode.OFFSET_OUT_OF_RANGE),
]


@pytest.mark.parametrize(("fields", "code"), FETCHES, ids=[str(each[0]) for each in FETCHES])
def test_fetches_that_acknowledge_nothing(fields: dict[str, Any], code: ErrorCode) -> None:
    bench = LeaderBench(min_insync_replicas="2").lead()
    bench.produce()
    bench.append(2)
    read = bench.fetch(**{"broker_id": 2, "offset": 3, **fields})
    assert (read.data.error_code, read.data.high_watermark, bench.asked) == (code, -1, [])
    assert (bench.log.high_watermark, bench.acknowledged) == (0, [None])
    bench.fetch_all(2, 3)
    assert (bench.log.high_watermark, bench.acknowledged) == (3, [ErrorCode.NONE])


def test_a_replica_that_is_named_twice_is_one() -> None:
    """Otherwise, one replica could count as two towards min.insync.replicas."""
    bench = LeaderBench(isr=(1, 1), min_insync_replicas="2").lead()
    bench.produce()
    assert bench.acknowledged == [ErrorCode.NOT_ENOUGH_REPLICAS]
    bench.fetch_all(2)
    bench.answer((1, 2, 2, 1))
    assert bench.replica.isr == (1, 2)
    bench.produce()
    bench.fetch_all(2)
    assert bench.acknowledged[1:] == [ErrorCode.NONE]


@pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(EPOCH + 1, 99), (EPOCH - 1, 99), (EPOCH, 0), (-1, -1)])
def test_an_isr_of_another_epoch(leader_epoch: int, partition_epoch: int) -> None:
    """An answer with another leader epoch or an older state changes no ISR; the replica waits for a new epoch."""
    bench = LeaderBench(isr=(1, 2)).lead()
    bench.fetch_all(2, 3)
    assert bench.wanted() == (1, 2, 3)
    ((_, done),) = bench.asked
    done(CommittedIsr((1,), leader_epoch, partition_epoch))
    assert bench.replica.isr == (1, 2)
    bench.produce()
    bench.fetch_all(2)
    assert bench.acknowledged == [None], "a follower that may be in sync is waited for until a new term"
    bench.lead(EPOCH + 2, isr=(1, 2, 3))
    bench.produce()
    bench.fetch_all(2, 3)
    assert bench.acknowledged[-1] == ErrorCode.NONE


# A controller and the brokers' answers.

LeaderAndIsrError = LeaderAndIsrResponse.LeaderAndIsrPartitionError
LeaderAndIsrTopic = LeaderAndIsrResponse.LeaderAndIsrTopicError
StopReplicaError = StopReplicaResponse.StopReplicaPartitionError


@pytest.fixture
def cluster() -> Cluster:
    """A cluster whose controller is broker 0; broker 2 hosts `t`, but not `whole`."""
    cluster = Cluster(0, 1, 2)
    cluster.create("whole", (0, 1))
    cluster.create("t", (0, 2))
    return cluster


def answers(cluster: Cluster, kind: type[Message], response: Callable[[], Message]) -> None:
    """Have broker 2 answer one kind of request with a given response."""
    broker = cluster.brokers[2]

    def answer(request: Message) -> Message:
        return response() if isinstance(request, kind) else Broker.answer(broker, request)

    broker.answer = answer  # type: ignore[method-assign]  # replaced for this broker alone


def goes_on(cluster: Cluster) -> None:
    """Assert that the controller has not resigned, the next one can take over, and the topics have leaders."""
    assert (cluster.controller.controller_id, cluster.controller.context.epoch) == (0, 1)
    assert (cluster.state("whole").leader, cluster.state("whole").isr) == (0, (0, 1))
    cluster.create("more", (1, 0))
    assert cluster.state("more").leader == 1
    cluster.kill(0)
    assert cluster.controller.context.epoch == 2
    assert cluster.state("whole").leader == 1


def _topics_of_others(cluster: Cluster) -> LeaderAndIsrResponse:
    whole = cluster.assignment("whole").topic_id
    assert whole is not None
    entries = [LeaderAndIsrError("", number, STORAGE) for number in (0, 7, -1)]
    return LeaderAndIsrResponse(topics=[LeaderAndIsrTopic(whole, entries), LeaderAndIsrTopic(b"?" * 16, entries)])


LEADER_AND_ISR_ANSWERS: dict[str, Callable[[Cluster], LeaderAndIsrResponse]] = {
    "nothing": lambda cluster: LeaderAndIsrResponse(),
    "partitions of others": _topics_of_others,
    "names": lambda cluster: LeaderAndIsrResponse(partition_errors=[LeaderAndIsrError("whole", 0, STORAGE)]),
    "an unknown code": lambda cluster: LeaderAndIsrResponse(error_code=32_767),
    "unknown codes": lambda cluster: LeaderAndIsrResponse(
        topics=[LeaderAndIsrTopic(cluster.assignment("t").topic_id or b"", [LeaderAndIsrError("", 0, -32_768)])]
    ),
}


@pytest.mark.parametrize("name", LEADER_AND_ISR_ANSWERS)
def test_answers_to_leader_and_isr(cluster: Cluster, name: str) -> None:
    answers(cluster, LeaderAndIsrRequest, lambda: LEADER_AND_ISR_ANSWERS[name](cluster))
    cluster.create("own", (2, 0))
    assert cluster.state("own").leader == 2
    goes_on(cluster)


@pytest.mark.parametrize("code", [ErrorCode.STALE_CONTROLLER_EPOCH, 32_767, -32_768])
def test_answers_to_update_metadata(cluster: Cluster, caplog: pytest.LogCaptureFixture, code: int) -> None:
    answers(cluster, UpdateMetadataRequest, lambda: UpdateMetadataResponse(code))
    cluster.create("own", (2, 0))
    assert any(f"rejected UpdateMetadata with error code {code:d}" in each.getMessage() for each in caplog.records)
    goes_on(cluster)


@pytest.mark.parametrize(
    "response",
    [
        StopReplicaResponse(),
        StopReplicaResponse(error_code=32_767),
        StopReplicaResponse(partition_errors=[StopReplicaError("whole", 0, 0), StopReplicaError("t", -1, 0)]),
        StopReplicaResponse(partition_errors=[StopReplicaError("t", 0, -32_768)]),
    ],
    ids=["nothing", "an unknown code", "other partitions", "an unknown code of a partition"],
)
def test_answers_to_stop_replica(cluster: Cluster, response: StopReplicaResponse) -> None:
    """A topic is deleted only once every broker reports that its replica has been deleted."""
    answers(cluster, StopReplicaRequest, lambda: response)
    cluster.tree.change(Create(TOPIC_DELETION.path("t")), 0)
    cluster.settle()
    cluster.fire(LOOK_AGAIN_DELAY_MS)
    assert TOPIC.path("t") in cluster.tree.nodes
    goes_on(cluster)
    assert TOPIC.path("t") in cluster.tree.nodes
    cluster.kill(2)
    cluster.start(2)
    cluster.start(0)
    assert TOPIC.path("t") not in cluster.tree.nodes
    assert cluster.state("whole").leader == 1
    assert TopicPartition("t", 0) not in set(cluster.controller.context.partitions())
