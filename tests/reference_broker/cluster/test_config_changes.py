"""A broker learns of each changed configuration, whatever happens to notifications, connections and sessions.

Method: use the embedded registry, a second session that changes configurations, and a clock that the test moves.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.reference_broker.cluster.change_notifications import EXPIRATION_MS, RETRY_MS
from kafkawire.reference_broker.cluster.config_changes import config_changes
from kafkawire.reference_broker.cluster.embedded_registry import Fault, RegistryCall
from kafkawire.reference_broker.cluster.registry_configs import RegistryConfigs
from kafkawire.reference_broker.cluster.registry_entity_configs import RegistryEntityConfigs
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.registry.registry import (
    Create,
    CreateMode,
    Delete,
    GetChildren,
    GetData,
    RegistryCode,
    RegistryError,
)
from kafkawire.sdk.registry.steps import BATCH_MAX
from tests.reference_broker.cluster.cluster_nodes import ClusterBench, fault_at

TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER
CHANGES = "/config/changes"
CHANGE = f"{CHANGES}/config_change_"
CONFIG = b'{"version":1,"config":{"retention.ms":"%d"}}'


class Bench(ClusterBench):
    """Broker 1, which follows the topics t and u.

    Attributes:
        ready: the outcomes reported by `start`.
        told: the resources that have changed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.timers = Timers()
        self.configs = RegistryConfigs(self.one, 1)
        self.entity_configs = RegistryEntityConfigs(self.one)
        self.told: list[tuple[ConfigResourceType, str]] = []
        self.configs.on_change = lambda kind, name: self.told.append((kind, name))
        self.changes = config_changes(self.one, self.configs, self.entity_configs, self.timers, lambda: self.now_ms)
        self.ready: list[Exception | None] = []
        for name in "tu":
            self.topic(name, {0: (1,)}, CONFIG % 1)
        self.owner.run(self.one, self.configs.read_topics("tu"))
        self.told.clear()

    def start(self) -> None:
        self.changes.start(self.ready.append)
        self.owner.run_all()

    def notify(self, content: bytes) -> None:
        """Have the other program create a notification."""
        self.write(Create(CHANGE, content, CreateMode.PERSISTENT_SEQUENTIAL))
        self.owner.run_all()

    def configure(self, entity: str, value: int) -> None:
        """Have the other program change a configuration and announce it."""
        self.put(f"/config/{entity}", CONFIG % value)
        self.notify(b'{"version":2,"entity_path":"%s"}' % entity.encode())

    def advance(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.timers.fire(self.now_ms)
        self.owner.run_all()

    def value(self, name: str) -> str | None:
        return self.configs.of(TOPIC, name).get("retention.ms")


@pytest.fixture
def registry() -> Bench:
    return Bench()


def test_everything_is_read_at_the_start(registry: Bench) -> None:
    registry.put("/config/topics/t", CONFIG % 2)
    registry.put("/config/brokers/<default>", CONFIG % 3)
    registry.start()
    assert registry.ready == [None]
    assert registry.told == [(BROKER, ""), (TOPIC, "t")]


def test_only_what_a_notification_names_is_read(registry: Bench) -> None:
    registry.start()
    reads = list[str]()

    def note(call: RegistryCall) -> None:
        if isinstance(call.operation, GetData) and call.session_id == registry.one.session_id:
            reads.append(call.operation.path)

    registry.embedded.plan = note
    registry.configure("topics/t", 2)
    registry.configure("brokers/<default>", 3)
    registry.configure("brokers/1", 4)
    assert registry.told == [(TOPIC, "t"), (BROKER, ""), (BROKER, "1")]
    assert [path for path in reads if not path.startswith(CHANGE)] == [
        "/config/topics/t",
        "/config/brokers/<default>",
        "/config/brokers/1",
    ]
    registry.notify(b'{"version":1,"entity_type":"topics","entity_name":"u"}')
    assert reads[-1] == "/config/topics/u", "this is the format of releases before 0.10.1"


#: Notifications that are damaged, or that name no resource which this broker follows.
OTHERS = [
    b"",
    b"{",
    b"\xff",
    b"[]",
    b'{"version":1}',
    b'{"version":2,"entity_path":7}',
    b'{"version":3,"entity_path":"topics/t"}',
    b'{"version":2,"entity_path":""}',
    b'{"version":2,"entity_path":"topics"}',
    b'{"version":2,"entity_path":"topics/"}',
    b'{"version":2,"entity_path":"topics/none"}',
    b'{"version":2,"entity_path":"topics/../t"}',
    b'{"version":2,"entity_path":"topics/t/u"}',
    b'{"version":2,"entity_path":"brokers/x"}',
    b'{"version":2,"entity_path":"brokers/2"}',
    b'{"version":2,"entity_path":"users/alice/clients/app"}',
    b'{"version":2,"entity_path":"ips/<default>"}',
]


@pytest.mark.parametrize("content", OTHERS, ids=repr)
def test_a_notification_about_something_else(registry: Bench, content: bytes) -> None:
    registry.start()
    registry.put("/config/topics/u", CONFIG % 9)  # this change is visible only if everything is re-read
    registry.notify(content)
    assert registry.told == []
    registry.configure("topics/t", 2)
    assert registry.told == [(TOPIC, "t")]


def test_a_gap_has_everything_read(registry: Bench) -> None:
    registry.start()
    registry.configure("topics/t", 2)
    registry.one.disconnect()
    registry.put("/config/topics/u", CONFIG % 5)
    registry.notify(b'{"version":2,"entity_path":"topics/u"}')
    registry.write(Delete(f"{CHANGE}0000000001"))
    registry.configure("topics/t", 3)
    registry.one.reconnect()
    registry.owner.run_all()
    assert (registry.value("t"), registry.value("u")) == ("3", "5")


def test_a_notification_that_is_deleted_before_it_is_read(registry: Bench) -> None:
    registry.start()

    def plan(call: RegistryCall) -> None:
        if call.operation == GetData(f"{CHANGE}0000000000") and call.session_id == registry.one.session_id:
            registry.embedded.plan = None
            registry.other.submit([Delete(f"{CHANGE}0000000000")], lambda outcomes: None)
            registry.other._deliver()  # before the read

    registry.embedded.plan = plan
    registry.put("/config/topics/u", CONFIG % 3)
    registry.configure("topics/t", 2)
    assert registry.data(f"{CHANGE}0000000000") is None
    assert (registry.value("t"), registry.value("u")) == ("2", "3"), (
        "all configurations are read, whatever the notification says"
    )


def test_a_notification_that_comes_while_another_is_read(registry: Bench) -> None:
    registry.start()

    def plan(call: RegistryCall) -> None:
        if call.operation == GetData("/config/topics/t") and call.session_id == registry.one.session_id:
            registry.embedded.plan = None
            content = b'{"version":2,"entity_path":"topics/u"}'
            registry.other.submit([Create(CHANGE, content, CreateMode.PERSISTENT_SEQUENTIAL)], lambda outcomes: None)
            registry.other._deliver()

    registry.put("/config/topics/u", CONFIG % 3)
    registry.embedded.plan = plan
    registry.configure("topics/t", 2)
    assert (registry.value("t"), registry.value("u")) == ("2", "3")


def test_children_of_other_names_are_no_notifications(registry: Bench) -> None:
    registry.start()
    registry.write(Create(f"{CHANGES}/config_change_1"), Create(f"{CHANGES}/other"))
    registry.owner.run_all()
    registry.configure("topics/t", 2)
    assert registry.value("t") == "2"


def test_a_number_that_no_notification_should_have(registry: Bench) -> None:
    registry.start()
    registry.write(Create(f"{CHANGE}2147483647", b""))
    registry.owner.run_all()
    registry.configure("topics/t", 2)
    assert registry.value("t") == "2", "the notification is read although its number is lower than the last one"


def test_a_parent_that_was_made_anew(registry: Bench) -> None:
    registry.start()
    for value in (2, 3):
        registry.configure("topics/t", value)
    registry.one.disconnect()
    registry.write(Delete(f"{CHANGE}0000000000"), Delete(f"{CHANGE}0000000001"), Delete(CHANGES), Create(CHANGES))
    registry.configure("topics/t", 4)
    registry.one.reconnect()
    registry.owner.run_all()
    assert registry.value("t") == "4"
    registry.configure("topics/t", 5)
    assert registry.value("t") == "5"


def test_a_missing_parent_is_created(registry: Bench) -> None:
    registry.write(Delete(CHANGES))
    registry.start()
    assert registry.ready == [None]
    registry.configure("topics/t", 2)
    assert registry.value("t") == "2"


def test_notifications_are_deleted_when_they_are_old(registry: Bench) -> None:
    registry.start()
    registry.configure("topics/t", 2)
    registry.now_ms += EXPIRATION_MS
    registry.configure("topics/t", 3)
    assert registry.data(f"{CHANGE}0000000000") is not None, "the notification is not 15 minutes old yet"
    registry.now_ms += 1
    registry.configure("topics/t", 4)
    assert [registry.data(f"{CHANGE}000000000{number}") is None for number in range(3)] == [True, False, False]
    assert set(registry.changes._made_ms) == {1, 2}
    assert registry.value("t") == "4"


@pytest.mark.parametrize("code", [RegistryCode.NO_NODE, RegistryCode.NO_AUTH])
def test_an_old_notification_that_cannot_be_deleted(registry: Bench, code: RegistryCode) -> None:
    registry.start()
    registry.configure("topics/t", 2)
    registry.embedded.plan = lambda call: code if isinstance(call.operation, Delete) else None
    registry.now_ms += EXPIRATION_MS + 1
    registry.configure("topics/t", 3)
    assert registry.value("t") == "3"
    assert registry.timers.next_deadline_ms is None, "this must not cause a re-read"
    registry.configure("topics/t", 4)
    assert registry.value("t") == "4"


# Failures.


def test_a_new_session_reads_everything(registry: Bench) -> None:
    registry.start()
    registry.one.disconnect()
    registry.expire(registry.one)
    registry.put("/config/topics/u", CONFIG % 7)  # announced, but the notification has already been deleted
    registry.one.reconnect()
    registry.owner.run_all()
    assert registry.value("u") == "7"
    registry.configure("topics/t", 2)
    assert registry.value("t") == "2"


def test_a_session_that_begins_while_the_rest_of_the_former_ones_reads_is_done(registry: Bench) -> None:
    registry.owner.run(registry.one, registry.configs.read_topics(f"t{number}" for number in range(BATCH_MAX)))
    registry.put("/config/topics/t", CONFIG % 2)
    met = fault_at(registry, 2, Fault.EXPIRE_BEFORE)  # this hits the first of two batches
    registry.start()
    assert len(met) == 1
    assert (registry.ready, registry.value("t")) == ([None], "2")


def test_it_waits_for_the_first_session() -> None:
    bench = Bench()
    late = bench.embedded.session(bench.owner.post)
    told = list[Exception | None]()
    changes = config_changes(
        late, RegistryConfigs(late, 1), RegistryEntityConfigs(late), bench.timers, lambda: bench.now_ms
    )
    changes.start(told.append)
    bench.owner.run_all()
    assert told == []
    late.start()
    bench.owner.run_all()
    assert told == [None]


#: The operations: a list, a notification, a configuration.
OPERATIONS = 3


@pytest.mark.parametrize("fault", [*Fault, RegistryCode.NO_AUTH, RegistryCode.TOO_MANY_PENDING])
@pytest.mark.parametrize("number", range(1, OPERATIONS + 1))
def test_each_operation_meets_each_fault(registry: Bench, number: int, fault: Fault | RegistryCode) -> None:
    registry.start()
    for name in "tu":
        registry.put(f"/config/topics/{name}", CONFIG % 8)
    registry.one.disconnect()
    registry.notify(b'{"version":2,"entity_path":"topics/t"}')
    met = fault_at(registry, number, fault)
    registry.one.reconnect()
    registry.owner.run_all()
    registry.embedded.plan = None
    registry.advance(RETRY_MS)
    assert len(met) == 1
    assert registry.value("t") == "8"
    registry.notify(b'{"version":2,"entity_path":"topics/u"}')
    assert registry.value("u") == "8"
    registry.configure("topics/t", 9)
    assert registry.value("t") == "9"


def test_a_failure_is_told_and_mended_later(registry: Bench, caplog: pytest.LogCaptureFixture) -> None:
    registry.put("/config/topics/t", CONFIG % 2)
    registry.embedded.plan = lambda call: RegistryCode.NO_AUTH if isinstance(call.operation, GetChildren) else None
    registry.start()
    (error,) = registry.ready
    assert isinstance(error, RegistryError)
    assert error.code is RegistryCode.NO_AUTH
    assert "changed configurations could not be read, and will be re-read later: NO_AUTH" in caplog.text
    registry.embedded.plan = None
    registry.advance(RETRY_MS - 1)
    assert registry.value("t") == "1"
    registry.advance(1)
    assert registry.value("t") == "2"
    registry.configure("topics/t", 3)
    assert registry.value("t") == "3"
    assert len(registry.ready) == 1


def test_a_parent_that_others_delete_again_and_again(registry: Bench) -> None:
    registry.write(Delete(CHANGES))

    def plan(call: RegistryCall) -> RegistryCode | None:
        return RegistryCode.NO_NODE if isinstance(call.operation, GetChildren) else None

    registry.embedded.plan = plan
    registry.start()
    (error,) = registry.ready
    assert isinstance(error, RegistryError)
    assert error.code is RegistryCode.NO_NODE


CLOSED: list[Callable[[Bench], object]] = [
    lambda bench: bench.configure("topics/t", 2),
    lambda bench: bench.advance(RETRY_MS),
    lambda bench: (bench.expire(bench.one), bench.owner.run_all()),
]


@pytest.mark.parametrize("event", range(len(CLOSED)))
@pytest.mark.parametrize("has_failed", [False, True])
def test_nothing_happens_after_the_end(registry: Bench, event: int, has_failed: bool) -> None:
    if has_failed:
        registry.embedded.plan = lambda call: RegistryCode.NO_AUTH if isinstance(call.operation, GetChildren) else None
    registry.start()
    registry.embedded.plan = None
    registry.changes.close()
    writes = registry.writes()
    registry.put("/config/topics/t", CONFIG % 5)
    CLOSED[event](registry)
    assert (registry.value("t"), writes) == ("1", [])


def test_closed_in_the_midst_of_reading(registry: Bench) -> None:
    registry.changes.start(registry.ready.append)
    registry.changes.close()
    registry.owner.run_all()
    assert registry.ready == []
