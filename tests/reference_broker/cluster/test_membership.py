"""A membership passes on changes of controllers and addresses, and its own controller's requests; it requests a
controlled shutdown as often as configured.

Method: use the embedded registry with one broker, links that record what they are told, and a clock that the test
moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.reference_broker.cluster.controller.broker_requests import ControlRequest
from kafkawire.reference_broker.cluster.controller.live_brokers import Endpoint
from kafkawire.reference_broker.cluster.membership import ClusterLinks, Membership, MembershipServices
from kafkawire.reference_broker.cluster.startup import BrokerConfigs, ExpectedPartition, Prepared
from kafkawire.reference_broker.config.cluster_options import ClusterOptions
from kafkawire.reference_broker.config.listeners import ListenerRoles
from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.metadata.image import BrokerRegistration, FinalizedFeatures
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import RequestTimedOut
from kafkawire.sdk.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kafkawire.sdk.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kafkawire.sdk.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.registry.registry import Delete
from kafkawire.sdk.storage.meta_properties import WITH_BROKER_ID, MetaProperties
from kafkawire.sdk.transport.wire import Address
from tests.reference_broker.cluster.cluster_nodes import TOPIC_ID, ClusterBench

Remaining = ControlledShutdownResponse.RemainingPartition
Outcome = Message | Exception

FEATURES = FinalizedFeatures({}, 3)
RETENTION = {"retention.ms": "7"}


class Links:
    """Links that merely record what they are told; nothing answers."""

    def __init__(self) -> None:
        self.known: list[tuple[dict[int, Address], int | None]] = []

    def know(self, brokers: Any, controller_id: int | None) -> None:
        self.known.append((dict(brokers), controller_id))

    def ask(self, *arguments: object, **named: object) -> Callable[[], None]:
        return lambda: None


class Bench(ClusterBench):
    """Broker 1, whose configurations and topics have been read.

    Args:
        options: the options for its membership.
    """

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.timers = Timers()
        self.control, self.peers = Links(), Links()
        identity = MetaProperties("cluster", "1", "", WITH_BROKER_ID)
        expected = (ExpectedPartition("t", 0, TOPIC_ID, RETENTION),)
        prepared = Prepared(identity, expected, {}, BrokerConfigs({"a": "1"}, {}), FEATURES)
        services = MembershipServices(self.timers, lambda: self.now_ms, self.owner.post, lambda: TOPIC_ID, lambda: 0.5)
        links: Any = ClusterLinks(self.control, (self.peers,))  # type: ignore[arg-type]  # they only record calls
        self.membership = Membership(
            self.one,
            prepared,
            1,
            read_options({}),
            ClusterOptions.read({"zookeeper_connect": "embedded", **options}.items()),
            (Endpoint("INTERNAL", "host", 9_092, 0),),
            ListenerRoles("INTERNAL"),
            links,
            services,
        )
        self.membership.image.metadata.listen(self.membership.changed)

    def run(self, begin: Callable[[], object]) -> None:
        begin()
        self.owner.run_all()

    def advance(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.timers.fire(self.now_ms)
        self.owner.run_all()

    def show(self, *broker_ids: int, controller_id: int = 2) -> None:
        """Publish brokers, as UpdateMetadata does."""
        brokers = {each: BrokerRegistration(each, {"INTERNAL": Address(f"host{each}", 9_092)}) for each in broker_ids}
        self.membership.image.metadata.publish(brokers=brokers, controller_id=controller_id)


def test_what_was_read_at_the_start_is_known() -> None:
    membership = Bench().membership
    assert membership.of("t") == RETENTION
    assert membership.configs.of(ConfigResourceType.BROKER, "1") == {"a": "1"}
    assert membership.image.metadata.image.features == FEATURES
    assert membership.epoch == -1


def test_links_know_the_brokers_of_the_image() -> None:
    bench = Bench()
    bench.show(1, 2, 3)
    bench.show(1, 2, 3)
    assert bench.peers.known == [({2: Address("host2", 9_092), 3: Address("host3", 9_092)}, 2)], (
        "only changes are reported"
    )
    assert bench.membership.client.controller_id == 2
    bench.show(1, controller_id=-1)
    assert bench.peers.known[1:] == [({}, None)]
    assert bench.control.known == [], "the controller takes addresses from registrations"


def test_the_broker_is_announced_once() -> None:
    bench = Bench()
    told: list[str] = []
    bench.run(lambda: bench.membership.stand(lambda: told.append("announced")))
    bench.show(2)
    assert told == []
    bench.show(1, 2)
    bench.show(1, 2, 3)
    assert told == ["announced"]


def test_the_own_controller_is_not_asked_over_links() -> None:
    """The only broker of a cluster is elected, and its first request to itself is UpdateMetadata."""
    bench = Bench()
    bench.write(Delete("/controller"))
    taken: list[ControlRequest] = []

    def take(request: ControlRequest, done: Callable[[Outcome], None]) -> None:
        taken.append(request)
        done(UpdateMetadataResponse(ErrorCode.NONE))

    bench.membership.take = take
    epochs: list[int] = []
    bench.run(lambda: bench.membership.register(epochs.append, _fail))
    assert epochs == [bench.membership.epoch] != [-1]
    bench.run(lambda: bench.membership.stand(lambda: None))
    assert bench.membership.controller.is_active
    assert [type(each.message) for each in taken] == [UpdateMetadataRequest]
    assert bench.control.known == []
    for request, kind in (
        (AlterPartitionRequest(1, epochs[0]), AlterPartitionResponse),
        (AllocateProducerIdsRequest(1, epochs[0]), AllocateProducerIdsResponse),
        (ControlledShutdownRequest(1, epochs[0]), ControlledShutdownResponse),
    ):
        bench.show(1, controller_id=1)
        outcomes: list[Outcome] = []
        bench.membership.client.ask(request, outcomes.append, 1_000)
        bench.advance(1)
        (outcome,) = outcomes
        assert isinstance(outcome, kind)
        assert getattr(outcome, "error_code", None) == ErrorCode.NONE


def _fail(error: Exception) -> None:
    raise error


class Client:
    """Answers ControlledShutdown with the given outcomes in turn."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        self.outcomes = outcomes

    def ask(
        self, message: Message, done: Callable[[Outcome], None], timeout_ms: int, version: int, *, repeats: bool
    ) -> None:
        assert (type(message), timeout_ms, version, repeats) == (ControlledShutdownRequest, 30_000, 3, False)
        done(self.outcomes.pop(0))


DONE = ControlledShutdownResponse()
LEADS = ControlledShutdownResponse(remaining_partitions=[Remaining("t", 0)])
STALE = ControlledShutdownResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
SILENT = RequestTimedOut("no controller")


@pytest.mark.parametrize(
    ("outcomes", "pauses"),
    [
        ([DONE], 0),
        ([LEADS, DONE], 1),
        ([STALE, SILENT, DONE], 2),
        ([SILENT, LEADS, STALE], 2),
    ],
    ids=["immediately", "after an election", "after errors", "given up"],
)
def test_attempts_of_a_controlled_shutdown(outcomes: list[Outcome], pauses: int) -> None:
    bench = Bench(controlled_shutdown_max_retries=3, controlled_shutdown_retry_backoff_ms=50)
    bench.run(lambda: bench.membership.register(lambda epoch: None, _fail))
    left = list(outcomes)
    bench.membership.client = Client(left)  # type: ignore[assignment]  # it has everything that is used
    told: list[str] = []
    bench.membership.shut_down(lambda: told.append("over"))
    for _ in range(pauses):
        assert told == []
        bench.advance(50)
    assert (told, left) == (["over"], [])


def test_a_controlled_shutdown_without_a_controller_takes_the_pauses_alone() -> None:
    """As in Kafka, the broker makes three attempts, ten seconds apart."""
    bench = Bench()
    bench.run(lambda: bench.membership.register(lambda epoch: None, _fail))
    told: list[str] = []
    bench.membership.shut_down(lambda: told.append("over"))
    for milliseconds in (0, 5_000, 0, 4_999):
        bench.advance(milliseconds)
    assert told == []
    for milliseconds in (1, 0):
        bench.advance(milliseconds)
    assert told == ["over"]


@pytest.mark.parametrize(
    ("is_registered", "options"),
    [
        (False, {}),
        (True, {"controlled_shutdown_enable": False}),
        (True, {"controlled_shutdown_max_retries": 0}),
    ],
)
def test_no_controlled_shutdown(is_registered: bool, options: dict[str, object]) -> None:
    bench = Bench(**options)
    if is_registered:
        bench.run(lambda: bench.membership.register(lambda epoch: None, _fail))
    bench.membership.client = Client([])  # type: ignore[assignment]  # no request may reach it
    told: list[str] = []
    bench.membership.shut_down(lambda: told.append("over"))
    assert told == ["over"]


def test_configurations_of_topics_are_read() -> None:
    bench = Bench()
    bench.topic("u", {0: (1,)}, b'{"version":1,"config":{"retention.ms":"9"}}')
    told: list[str] = []
    bench.run(lambda: bench.membership.read(["u", "gone"], lambda: told.append("read")))
    assert (told, bench.membership.of("u"), bench.membership.of("gone")) == (["read"], {"retention.ms": "9"}, {})
    bench.membership.leave(lambda: told.append("left"))
    bench.run(lambda: bench.membership.read(["u"], lambda: told.append("read")))
    assert told == ["read", "left", "read"], "a registry error ends the wait as well"


def test_requests_before_the_broker_takes_them() -> None:
    outcomes: list[Outcome] = []
    Bench().membership.take(ControlRequest(UpdateMetadataRequest(), 8), outcomes.append)
    assert "does not accept requests" in str(outcomes[0])


@pytest.mark.parametrize("is_crash", [False, True])
def test_the_end(is_crash: bool) -> None:
    bench = Bench()
    bench.run(lambda: bench.membership.register(lambda epoch: None, _fail))
    session_id = bench.one.session_id
    told: list[str] = []
    if is_crash:
        bench.membership.abandon()
    else:
        bench.membership.end_control()
        bench.membership.leave(lambda: told.append("left"))
    bench.owner.run_all()
    assert bench.embedded.tree.has_session(session_id) is is_crash, "after a crash, the session stays until its timeout"
    assert told == ([] if is_crash else ["left"])
    outcomes: list[Outcome] = []
    bench.membership.client.ask(DONE, outcomes.append, 1_000)
    bench.advance(1)
    assert "the broker is stopping" in str(outcomes[0])
