"""A broker is registered in each of its sessions, even if another broker holds its id for a while or an answer is lost.

Method: use embedded registries whose sessions are lost and ended by the test, a clock that stands still until the test
moves it, and timers that then fire; compare content with that recorded from Apache Kafka 3.9.1. Inject each fault into
each operation in turn.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.reference_broker.cluster.controller.live_brokers import Endpoint, live_broker
from kafkawire.reference_broker.cluster.embedded_registry import EmbeddedSession, Fault, RegistryCall
from kafkawire.reference_broker.cluster.registration import (
    FORMER_SESSIONS_MAX,
    REGISTRATION_EDGES,
    REPEAT_PAUSE_MS,
    BrokerDetails,
    Registration,
    RegistrationState,
    registration_patience_ms,
)
from kafkawire.reference_broker.cluster.znode_tree import ChangeKind, NodeChange, TreeTransaction
from kafkawire.sdk.errors import ConfigurationError, KafkaWireError
from kafkawire.sdk.protocol.tables.znodes import BROKER
from kafkawire.sdk.registry.acls import OPEN_ACL, default_acl
from kafkawire.sdk.registry.registry import (
    Create,
    Data,
    Exists,
    GetAcl,
    GetData,
    NodeAcl,
    RegistryCode,
    RegistryError,
    Stat,
    Transaction,
)
from tests.edges import taken
from tests.reference_broker.cluster.embedded_bench import EmbeddedBench

PATH = BROKER.path(1)
PATIENCE_MS = registration_patience_ms(18_000)
DETAILS = BrokerDetails(1, (Endpoint("PLAINTEXT", "127.0.0.1", 30600, 0),))
OTHER = BrokerDetails(1, (Endpoint("PLAINTEXT", "other", 9092, 0),))


class Bench(EmbeddedBench):
    """A registry in which brokers can register, and timers.

    Attributes:
        told: what the broker learned about its first registration, and the epochs that the listener was given, in
            order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.told: list[object] = []
        self._timers: list[tuple[int, Callable[[], None]]] = []
        self.owner.ask_all(self.registry(), Create("/brokers"), Create("/brokers/ids"))

    def later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        timer = (self.now_ms + delay_ms, action)
        self._timers.append(timer)

        def cancel() -> None:
            if timer in self._timers:
                self._timers.remove(timer)

        return cancel

    @property
    def timers(self) -> int:
        """The number of pending timers."""
        return len(self._timers)

    def pass_time(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        due = [timer for timer in self._timers if timer[0] <= self.now_ms]
        self._timers = [timer for timer in self._timers if timer not in due]
        for _, action in due:
            action()
        self.owner.run_all()

    def registration(self, registry: EmbeddedSession, details: BrokerDetails = DETAILS) -> Registration:
        registration = Registration(registry, details, self.later, lambda: self.now_ms)
        registration.add_listener(self.told.append)
        return registration

    def begin(self, registry: EmbeddedSession, details: BrokerDetails = DETAILS) -> Registration:
        """Start the first registration, and proceed as far as currently possible."""
        registration = self.registration(registry, details)
        registration.register_first(PATIENCE_MS, lambda epoch: self.told.append(("done", epoch)), self.told.append)
        self.owner.run_all()
        return registration

    def node(self) -> Stat:
        outcome = self.owner.ask(self.other, Exists(PATH))
        assert isinstance(outcome, Stat)
        return outcome

    @property
    def other(self) -> EmbeddedSession:
        """A session that belongs to no broker."""
        return self.registry()


@pytest.fixture
def bench() -> Bench:
    return Bench()


# Contents.


def test_the_recorded_content() -> None:
    assert DETAILS.content(1795881499870) == (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://127.0.0.1:30600"],"jmx_port":-1,"port":30600,"host":"127.0.0.1",'
        b'"version":5,"timestamp":"1795881499870"}'
    )


def test_a_content_is_read_as_it_was_meant() -> None:
    endpoints = (Endpoint("TLS", "a.example", 1, 1), Endpoint("IN", "::1", 2, 0), Endpoint("OUT", "b", 3, 0))
    read = BROKER.decode(BrokerDetails(7, endpoints, "rack1").content(5))
    assert (read.version, read.host, read.port, read.rack, read.timestamp_ms) == (5, "::1", 2, "rack1", 5)
    assert read.endpoints == ("TLS://a.example:1", "IN://[::1]:2", "OUT://b:3")
    broker = live_broker(7, read, 9)
    assert (broker.endpoints, broker.rack) == (endpoints, "rack1")
    assert BROKER.decode(BrokerDetails(7, endpoints[:1]).content(5))[5:7] == (-1, None)


def test_the_node_is_made_and_written_at_once(bench: Bench) -> None:
    one, acl = bench.registry([("digest", "broker:secret")]), default_acl(is_secure=True)
    registration = Registration(one, DETAILS, bench.later, lambda: 5, acl)
    epoch = bench.owner.run(one, registration.register())
    data = bench.owner.ask(bench.other, GetData(PATH))
    assert isinstance(data, Data)
    assert data.data == DETAILS.content(5)
    assert (data.stat.czxid, data.stat.mzxid, data.stat.version) == (epoch, epoch, 1)
    assert data.stat.ephemeral_owner == one.session_id
    found = bench.owner.ask(bench.other, GetAcl(PATH))
    assert isinstance(found, NodeAcl)
    assert [entry.scheme for entry in found.acl] == ["digest", "world"]
    # Register again, as the controller on this broker does.
    assert bench.owner.run(one, registration.register()) == epoch == registration.epoch


# The first registration.


def test_the_first_registration(bench: Bench) -> None:
    registration = bench.registration(bench.registry())
    assert (registration.state, registration.epoch) == (RegistrationState.WAITING, -1)
    registration.register_first(0, lambda epoch: bench.told.append(("done", epoch)), bench.told.append)
    bench.owner.run_all()
    assert (registration.state, registration.epoch) == (RegistrationState.REGISTERED, bench.node().czxid)
    assert bench.told == [registration.epoch, ("done", registration.epoch)]
    assert not bench.timers
    with pytest.raises(RuntimeError, match="broker 1 has already been registered"):
        registration.register_first(0, bench.told.append, bench.told.append)


def test_a_former_process_is_waited_for(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    former, one = bench.registry(), bench.registry()
    bench.begin(former, OTHER)
    killed = former.session_id
    former.abandon()
    bench.told.clear()
    registration = bench.begin(one)
    bench.pass_time(18_000)
    bench.embedded.expire_silent()
    bench.owner.run_all()
    assert (bench.told, registration.state) == ([], RegistrationState.WAITING)
    bench.pass_time(1)
    bench.embedded.expire_silent()
    bench.owner.run_all()
    assert bench.node().ephemeral_owner == one.session_id
    assert bench.told == [registration.epoch, ("done", registration.epoch)]
    assert not bench.timers
    waits = f"broker 1: waiting for another registration with the same id to end: session {killed:#x}, which advertises"
    assert caplog.text.count(f"{waits} 'PLAINTEXT://other:9092'") == 1


def test_another_broker_with_the_id_is_refused_after_a_while(bench: Bench) -> None:
    two, one = bench.registry(), bench.registry()
    bench.begin(two, OTHER)
    bench.told.clear()
    registration = bench.begin(one)
    bench.pass_time(PATIENCE_MS - 1)
    assert bench.told == []
    bench.pass_time(1)
    (error,) = bench.told
    assert isinstance(error, ConfigurationError)
    holder = f"session {two.session_id:#x}, which advertises 'PLAINTEXT://other:9092'"
    assert str(error) == f"broker.id=1: another broker is registered with this id: {holder}"
    assert registration.state is RegistrationState.CLOSED
    # The broker does not register later.
    two.close(0)
    bench.embedded.expire(one.session_id)
    bench.owner.run_all()
    assert bench.owner.code(bench.other, Exists(PATH)) == "NO_NODE"
    assert len(bench.told) == 1


def test_a_session_that_ends_during_the_wait(bench: Bench) -> None:
    """The watch is lost with the session, and the next session checks again; the time limit keeps running."""
    two, one = bench.registry(), bench.registry()
    bench.begin(two, OTHER)
    bench.told.clear()
    registration = bench.begin(one)
    bench.embedded.expire(one.session_id)
    bench.owner.run_all()
    assert bench.told == []
    two.close(0)
    bench.owner.run_all()
    assert bench.told == [registration.epoch, ("done", registration.epoch)]


@pytest.mark.parametrize("is_free", [False, True])
def test_the_patience_ends_during_an_attempt(is_free: bool, bench: Bench) -> None:
    two, one = bench.registry(), bench.registry()
    bench.begin(two, OTHER)
    bench.told.clear()
    one.disconnect()
    registration = bench.begin(one)
    bench.pass_time(PATIENCE_MS)
    assert bench.told == []
    if is_free:
        two.close(0)
    one.reconnect()
    bench.owner.run_all()
    if is_free:
        assert bench.told == [registration.epoch, ("done", registration.epoch)]
    else:
        assert [type(each) for each in bench.told] == [ConfigurationError]


def test_the_patience_ends_between_two_sessions(bench: Bench) -> None:
    two, one = bench.registry(), bench.registry()
    bench.begin(two, OTHER)
    bench.told.clear()
    bench.begin(one)
    one.disconnect()
    bench.embedded.expire(one.session_id)
    one.reconnect()
    # This happens before the owner learns of the new session.
    bench.pass_time(PATIENCE_MS)
    assert [type(each) for each in bench.told] == [ConfigurationError]


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"", "its content cannot be read: has no content"),
        (b'{"version":5,"endpoints":[],"jmx_port":-1}', "which advertises nothing"),
        (b'{"version":5,"endpoints":["%s","b","c","d"],"jmx_port":-1}' % (b"x" * 100_000), "'b', 'c'"),
    ],
    ids=["empty", "nothing", "much"],
)
def test_a_registration_that_no_session_owns(content: bytes, shown: str, bench: Bench) -> None:
    bench.owner.ask(bench.other, Create(PATH, content))
    bench.begin(bench.registry())
    (error,) = bench.told
    assert isinstance(error, ConfigurationError)
    assert f"no session, since {PATH} is persistent and must be deleted" in str(error)
    assert shown in str(error)
    assert "'d'" not in str(error)
    assert len(str(error)) < 1_000


def test_a_registration_that_is_gone_when_it_is_looked_at(bench: Bench) -> None:
    two, one = bench.registry(), bench.registry()
    bench.begin(two, OTHER)
    bench.told.clear()
    former = two.session_id
    two.abandon()
    looked = []

    def plan(call: RegistryCall) -> None:
        if isinstance(call.operation, GetData):
            looked.append(call)
            bench.embedded.expire(former)

    bench.embedded.plan = plan
    registration = bench.begin(one)
    assert bench.told == [registration.epoch, ("done", registration.epoch)]
    assert len(looked) == 1


@pytest.mark.parametrize("code", [RegistryCode.NO_AUTH, RegistryCode.AUTH_FAILED, RegistryCode.STORAGE_FAILED])
def test_a_first_registration_that_fails(code: RegistryCode, bench: Bench) -> None:
    bench.embedded.plan = lambda call: code if isinstance(call.operation, Transaction) else None
    registration = bench.begin(bench.registry())
    (error,) = bench.told
    assert isinstance(error, RegistryError)
    assert (error.code, registration.state, bench.timers) == (code, RegistrationState.CLOSED, 0)


def test_details_that_cannot_be_written(bench: Bench) -> None:
    bench.begin(bench.registry(), DETAILS._replace(rack="r" * (1 << 20)))
    (error,) = bench.told
    assert isinstance(error, KafkaWireError)


# Later sessions.


def test_each_session_has_a_registration(bench: Bench) -> None:
    one = bench.registry()
    registration = bench.begin(one)
    epochs = [registration.epoch]
    for _ in range(FORMER_SESSIONS_MAX + 2):
        bench.embedded.expire(one.session_id)
        bench.owner.run_all()
        assert bench.node().ephemeral_owner == one.session_id
        assert registration.state is RegistrationState.REGISTERED
        epochs.append(registration.epoch)
    assert epochs == sorted(set(epochs))
    assert bench.told == [epochs[0], ("done", epochs[0]), *epochs[1:]]


def test_the_epoch_stays_while_there_is_no_session(bench: Bench) -> None:
    one = bench.registry()
    registration = bench.begin(one)
    epoch = registration.epoch
    one.disconnect()
    bench.embedded.expire(one.session_id)
    bench.owner.run_all()
    assert registration.state is RegistrationState.REGISTERED  # the broker does not know yet
    bench.embedded.plan = lambda call: RegistryCode.NO_AUTH if isinstance(call.operation, Transaction) else None
    one.reconnect()
    bench.owner.run_all()
    assert (registration.state, registration.epoch) == (RegistrationState.LOST, epoch)


def test_the_node_of_a_former_session_is_replaced(bench: Bench) -> None:
    """ZooKeeper may fail to delete it (ZOOKEEPER-2985)."""
    one = bench.registry()
    registration = bench.begin(one)
    former = one.session_id
    tree = bench.embedded.tree

    def keep(call: RegistryCall) -> None:
        bench.embedded.plan = None
        tree.apply(TreeTransaction(tree.zxid + 1, 1, (NodeChange(ChangeKind.CREATE, PATH, b"", OPEN_ACL, former),)))

    bench.embedded.plan = keep
    bench.embedded.expire(former)
    bench.owner.run_all()
    assert bench.node().ephemeral_owner == one.session_id
    assert registration.epoch == bench.node().czxid


def test_another_broker_has_taken_the_id_meanwhile(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    one, two = bench.registry(), bench.registry()
    registration = bench.begin(one)
    one.disconnect()
    bench.embedded.expire(one.session_id)
    bench.begin(two, OTHER)
    bench.told.clear()
    one.reconnect()
    bench.owner.run_all()
    for _ in range(3):
        bench.pass_time(REPEAT_PAUSE_MS)
    assert (registration.state, bench.told) == (RegistrationState.LOST, [])
    problem = (
        "broker 1: could not register again, and will retry: another broker is registered with the same id: session"
    )
    assert caplog.text.count(problem) == 1
    two.close(0)
    # The watch is enough.
    bench.owner.run_all()
    assert bench.told == [registration.epoch]
    assert not bench.timers


def test_a_registration_that_fails_is_repeated(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    one = bench.registry()
    registration = bench.begin(one)
    bench.told.clear()
    bench.embedded.plan = lambda call: RegistryCode.NO_AUTH if isinstance(call.operation, Transaction) else None
    bench.embedded.expire(one.session_id)
    bench.owner.run_all()
    bench.pass_time(REPEAT_PAUSE_MS)
    assert (registration.state, bench.told, bench.timers) == (RegistrationState.LOST, [], 1)
    assert caplog.text.count(f"could not register again, and will retry: NO_AUTH: {PATH}") == 1
    bench.embedded.plan = None
    bench.pass_time(REPEAT_PAUSE_MS - 1)
    assert bench.told == []
    bench.pass_time(1)
    assert (bench.told, registration.state) == ([registration.epoch], RegistrationState.REGISTERED)


def test_the_controller_registers_the_broker_first(bench: Bench) -> None:
    one = bench.registry()
    registration = bench.begin(one)
    bench.told.clear()
    bench.embedded.plan = lambda call: RegistryCode.NO_AUTH if isinstance(call.operation, Transaction) else None
    bench.embedded.expire(one.session_id)
    bench.owner.run_all()
    bench.embedded.plan = None
    epoch = bench.owner.run(one, registration.register())
    bench.pass_time(10 * REPEAT_PAUSE_MS)
    assert (bench.told, registration.epoch, bench.timers) == ([epoch], epoch, 0)


@pytest.mark.defect
def test_a_listener_that_fails_stops_nothing(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def fails(epoch: int) -> None:
        raise ValueError("a defect of the listener")

    registration = Registration(bench.registry(), DETAILS, bench.later, lambda: bench.now_ms)
    registration.add_listener(fails)
    registration.add_listener(bench.told.append)
    registration.register_first(0, lambda epoch: bench.told.append("done"), bench.told.append)
    bench.owner.run_all()
    assert bench.told == [registration.epoch, "done"]
    assert "a listener of the broker's epoch failed" in caplog.text


def test_a_closed_registration_does_nothing(bench: Bench) -> None:
    one = bench.registry()
    registration = bench.begin(one)
    bench.told.clear()
    registration.close()
    registration.close()
    bench.embedded.expire(one.session_id)
    bench.owner.run_all()
    assert (bench.told, bench.timers) == ([], 0)
    assert bench.owner.code(bench.other, Exists(PATH)) == "NO_NODE"
    # An event of the controller may still be in progress.
    assert bench.owner.run(one, registration.register()) == bench.node().czxid
    assert (bench.told, registration.state) == ([], RegistrationState.CLOSED)


@pytest.mark.parametrize("is_held", [False, True])
def test_a_registration_that_is_closed_before_it_is_done(is_held: bool, bench: Bench) -> None:
    """The registration is closed in the middle of an attempt, or while it is waiting for another session."""
    one = bench.registry()
    if is_held:
        bench.begin(bench.registry(), OTHER)
        bench.told.clear()
    waiting = bench.registration(one)
    waiting.register_first(PATIENCE_MS, bench.told.append, bench.told.append)
    if is_held:
        bench.owner.run_all()
    waiting.close()
    bench.pass_time(PATIENCE_MS)
    assert (bench.told, waiting.state) == ([], RegistrationState.CLOSED)


def test_a_registry_that_is_closed_ends_the_attempts(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    one = bench.registry()
    registration = bench.begin(one)
    bench.told.clear()
    bench.embedded.plan = lambda call: RegistryCode.NO_AUTH if isinstance(call.operation, Transaction) else None
    bench.embedded.expire(one.session_id)
    bench.owner.run_all()
    one.close(0)
    bench.pass_time(REPEAT_PAUSE_MS)
    assert (bench.told, bench.timers, registration.state) == ([], 0, RegistrationState.LOST)
    late = bench.registry()
    late.close(0)
    bench.begin(late)
    (error,) = bench.told
    assert isinstance(error, RegistryError)
    assert error.code is RegistryCode.CLOSED


# Lost connections.


class OneFault:
    """A plan that injects a fault into one of a broker's operations.

    Args:
        number: the operation, counted from 1.
        fault: the fault to inject.
        others: the sessions whose operations are not counted.

    Attributes:
        is_met: whether there was such an operation.
    """

    def __init__(self, number: int, fault: Fault, *others: int) -> None:
        self.is_met = False
        self._left = number
        self._fault = fault
        self._others = others

    def __call__(self, call: RegistryCall) -> Fault | None:
        if call.session_id in self._others:
            return None
        self._left -= 1
        self.is_met = self.is_met or not self._left
        return None if self._left else self._fault


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("is_held", [False, True])
def test_each_operation_meets_each_fault(is_held: bool, fault: Fault) -> None:
    """Each fault hits a first registration, which may wait for a former process, and one in the next session."""
    plan, number = None, 0
    while plan is None or plan.is_met:
        number += 1
        bench = Bench()
        one, two = bench.registry(), bench.registry()
        if is_held:
            bench.begin(two, OTHER)
            bench.told.clear()
        bench.owner.run_all()
        plan = bench.embedded.plan = OneFault(number, fault, two.session_id)
        registration = bench.begin(one)
        two.close(0)
        bench.owner.run_all()
        bench.embedded.expire(one.session_id)
        bench.owner.run_all()
        bench.embedded.plan = None
        assert registration.state is RegistrationState.REGISTERED
        assert (bench.node().ephemeral_owner, bench.node().czxid) == (one.session_id, registration.epoch)
        assert sum(isinstance(each, tuple) for each in bench.told) == 1
        epochs = [each for each in bench.told if isinstance(each, int)]
        assert epochs == sorted(set(epochs))
        assert epochs[-1] == registration.epoch
        assert not bench.timers
    assert number == (6 if is_held else 3)


def test_every_edge_is_taken() -> None:
    with taken(REGISTRATION_EDGES) as steps:
        for story in ("", "r", "rl", "rlr"):
            bench = Bench()
            one = bench.registry()
            registration = bench.registration(one)
            for step in story:
                if step == "l":
                    registration.expired()
                else:
                    bench.owner.run(one, registration.register())
            registration.close()
            registration.close()
    assert steps == set(REGISTRATION_EDGES)
