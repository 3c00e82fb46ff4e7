"""Configurations are written as Kafka writes them, other programs' changes are kept, and damaged nodes do no harm.

Method: use the embedded registry with a second session that writes in between, and inject each fault into each
operation of a change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from kafkawire.reference_broker.cluster.embedded_registry import Fault, RegistryCall
from kafkawire.reference_broker.cluster.registry_configs import ConfigResource, RegistryConfigs
from kafkawire.reference_broker.metadata.config_store import ConfigStore
from kafkawire.reference_broker.metadata.image import MetadataImage, TopicImage
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType, ConfigType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.registry.acls import CREATOR_ACL, READ_ACL
from kafkawire.sdk.registry.registry import (
    Check,
    Create,
    CreateMode,
    Delete,
    GetAcl,
    GetData,
    NodeAcl,
    RegistryCode,
    RegistryError,
    SetData,
    Transaction,
)
from kafkawire.sdk.registry.steps import ATTEMPTS_MAX, BATCH_MAX
from tests.reference_broker.cluster.cluster_nodes import TOPIC_ID, ClusterBench, fault_at

TOPIC, BROKER, GROUP = ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.GROUP
CHANGE = "/config/changes/config_change_"


class Bench(ClusterBench):
    """The configurations of broker 1.

    Attributes:
        told: the resources that have changed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.configs = RegistryConfigs(self.one, 1)
        self.told: list[tuple[ConfigResourceType, str]] = []
        self.configs.on_change = lambda kind, name: self.told.append((kind, name))

    def change(self, kind: ConfigResourceType, name: str, **values: str) -> BrokerError | None:
        """Set values, with underscores in their names; return the error."""
        named = {key.replace("_", "."): value for key, value in values.items()}
        return self.revise(kind, name, lambda before: {**before, **named})

    def revise(
        self, kind: ConfigResourceType, name: str, revise: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> BrokerError | None:
        ended: list[BrokerError | None] = []
        self.configs.change(kind, name, revise, ended.append)
        self.owner.until(lambda: bool(ended))
        self.owner.run_all()
        (error,) = ended
        return error

    def read(self, *names: str) -> None:
        self.owner.run(self.one, self.configs.read_topics(names))


@pytest.fixture
def registry() -> Bench:
    return Bench()


def test_it_is_a_store(registry: Bench) -> None:
    assert isinstance(registry.configs, ConfigStore)


def test_the_writes_of_kafka(registry: Bench) -> None:
    """Apache Kafka 3.9.1 makes the same writes, except that it does not check the configuration's version."""
    registry.topic("cfg", {0: (1,)}, b'{"version":1,"config":{"retention.ms":"1000"}}')
    registry.read("cfg")
    registry.told.clear()
    writes = registry.writes()
    assert registry.change(TOPIC, "cfg", retention_ms="5000") is None
    assert registry.change(BROKER, "", log_retention_ms="1") is None
    assert registry.change(BROKER, "1", log_retention_ms="2") is None
    assert writes == [
        Transaction(
            (
                Check("/controller", 0),
                SetData("/config/topics/cfg", b'{"version":1,"config":{"retention.ms":"5000"}}', 0),
            )
        ),
        Create("/config/changes"),
        Create(CHANGE, b'{"version":2,"entity_path":"topics/cfg"}', CreateMode.PERSISTENT_SEQUENTIAL),
        Transaction(
            (
                Check("/controller", 0),
                Create("/config/brokers/<default>", b'{"version":1,"config":{"log.retention.ms":"1"}}'),
            )
        ),
        Create("/config/changes"),
        Create(CHANGE, b'{"version":2,"entity_path":"brokers/<default>"}', CreateMode.PERSISTENT_SEQUENTIAL),
        Transaction(
            (Check("/controller", 0), Create("/config/brokers/1", b'{"version":1,"config":{"log.retention.ms":"2"}}'))
        ),
        Create("/config/changes"),
        Create(CHANGE, b'{"version":2,"entity_path":"brokers/1"}', CreateMode.PERSISTENT_SEQUENTIAL),
    ]
    assert registry.told == [(TOPIC, "cfg"), (BROKER, ""), (BROKER, "1")]
    assert registry.configs.of(TOPIC, "cfg") == {"retention.ms": "5000"}
    assert registry.configs.resources(BROKER) == {"": {"log.retention.ms": "1"}, "1": {"log.retention.ms": "2"}}
    assert registry.revise(BROKER, "", lambda before: {}) is None
    assert "" not in registry.configs.resources(BROKER)


def test_only_brokers_may_read_what_may_be_secret() -> None:
    bench = Bench()
    bench.one = bench.registry([("digest", "broker:secret")])
    bench.configs = RegistryConfigs(bench.one, 1, is_secure=True)
    assert bench.change(BROKER, "1", log_retention_ms="2") is None
    (config, change) = bench.owner.ask_all(bench.one, GetAcl("/config/brokers/1"), GetAcl(f"{CHANGE}0000000000"))
    assert isinstance(config, NodeAcl)
    assert isinstance(change, NodeAcl)
    assert [len(config.acl), len(change.acl)] == [len(CREATOR_ACL), len(CREATOR_ACL + READ_ACL)]


def test_another_change_at_the_same_time_is_kept(registry: Bench) -> None:
    registry.topic("t", {0: (1,)}, b'{"version":1,"config":{}}')
    seen: list[Mapping[str, str]] = []

    def revise(before: Mapping[str, str]) -> Mapping[str, str]:
        if not seen:
            registry.other.submit(
                [SetData("/config/topics/t", b'{"version":1,"config":{"segment.ms":"9"}}')], lambda outcomes: None
            )
            registry.owner.run_all()
        seen.append(before)
        return {**before, "retention.ms": "1"}

    assert registry.revise(TOPIC, "t", revise) is None
    assert seen == [{}, {"segment.ms": "9"}]
    assert registry.data("/config/topics/t") == '{"version":1,"config":{"segment.ms":"9","retention.ms":"1"}}'


def test_endless_changes_by_others_are_an_error(registry: Bench) -> None:
    registry.topic("t", {0: (1,)}, b'{"version":1,"config":{}}')
    calls: list[object] = []

    def revise(before: Mapping[str, str]) -> Mapping[str, str]:
        calls.append(before)
        registry.other.submit([SetData("/config/topics/t", b"")], lambda outcomes: None)
        registry.owner.run_all()
        return before

    error = registry.revise(TOPIC, "t", revise)
    assert error is not None
    assert (error.code, len(calls)) == (ErrorCode.REQUEST_TIMED_OUT, ATTEMPTS_MAX)


def test_a_missing_parent_is_created(registry: Bench) -> None:
    registry.write(Delete("/config/brokers"), Delete("/config/changes"))
    assert registry.change(BROKER, "", log_retention_ms="1") is None
    assert registry.data(f"{CHANGE}0000000000") == '{"version":2,"entity_path":"brokers/<default>"}'


#: name: an earlier action of another program, the kind and name of the resource, the values to set, the error
REFUSED: dict[str, tuple[Callable[[Bench], object], ConfigResourceType, str, dict[str, str], ErrorCode]] = {
    "no topic": (lambda _: None, TOPIC, "t", {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "no controller": (
        lambda bench: bench.write(Delete("/controller")), BROKER, "", {}, ErrorCode.NOT_CONTROLLER
    ),
    "kraft": (
        lambda bench: bench.put("/controller", b'{"version":2,"brokerid":9,"timestamp":"1","kraftControllerEpoch":3}'),
        BROKER, "", {}, ErrorCode.NOT_CONTROLLER,
    ),
    "damaged controller": (
        lambda bench: bench.put("/controller", b"{"), BROKER, "", {}, ErrorCode.UNKNOWN_SERVER_ERROR
    ),
    "damaged": (
        lambda bench: bench.put("/config/brokers/1", b"[]"), BROKER, "1", {}, ErrorCode.UNKNOWN_SERVER_ERROR
    ),
    "too large": (lambda _: None, BROKER, "1", {"x": "y" * 2**20}, ErrorCode.INVALID_REQUEST),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(registry: Bench, name: str) -> None:
    prepare, kind, resource, values, code = REFUSED[name]
    prepare(registry)
    error = registry.change(kind, resource, **values)
    assert error is not None
    assert error.code is code
    assert registry.data(f"{CHANGE}0000000000") is None
    assert not registry.told


@pytest.mark.defect
def test_a_defect_of_a_change_is_an_error_for_the_client(registry: Bench) -> None:
    def fail(before: Mapping[str, str]) -> Mapping[str, str]:
        raise RuntimeError("planned")

    error = registry.revise(BROKER, "1", fail)
    assert error is not None
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("broker", "reason"),
    [("1", "Password encoder secret not configured"), ("", "Password config can be defined only at broker level")],
)
def test_no_password_gets_into_the_registry(registry: Bench, broker: str, reason: str) -> None:
    """As in Apache Kafka 3.9 without `password.encoder.secret`; the end of the name decides, as there."""
    writes = registry.writes()
    for prefix in ("", "listener.name.x.", "listener.name.x.plain.", "listener.name.a.b.", "own."):
        for name in (key.name for key in BROKER_CONFIGS.values() if key.type == ConfigType.PASSWORD):
            error = registry.change(BROKER, broker, **{f"{prefix}{name}": "hunter2"})
            assert error is not None
            assert (error.code, reason in str(error)) == (ErrorCode.INVALID_CONFIG, True)
            assert "hunter2" not in f"{error} {error!r}"
    assert writes == []


def test_a_password_that_kafka_wrote_stays(registry: Bench) -> None:
    registry.put("/config/brokers/1", b'{"version":1,"config":{"ssl.key.password":"encoded"}}')
    assert registry.change(BROKER, "1", log_retention_ms="1") is None
    assert registry.configs.of(BROKER, "1")["ssl.key.password"] == "encoded"
    assert "encoded" not in str(registry.configs.of(BROKER, "1"))
    assert registry.data("/config/brokers/1") == (
        '{"version":1,"config":{"log.retention.ms":"1","ssl.key.password":"encoded"}}'
    )


def test_the_controller_moves_while_a_configuration_is_written(registry: Bench) -> None:
    def revise(before: Mapping[str, str]) -> Mapping[str, str]:
        registry.other.submit([SetData("/controller", b"")], lambda outcomes: None)
        registry.owner.run_all()
        return before

    error = registry.revise(BROKER, "", revise)
    assert error is not None
    assert error.code is ErrorCode.NOT_CONTROLLER


#: Reads of the topic, the controller and the configuration; a transaction; the parent; the notification; a read.
OPERATIONS = 7


def test_a_change_has_so_many_operations(registry: Bench) -> None:
    registry.topic("t", {0: (1,)}, b'{"version":1,"config":{}}')
    registry.read("t")
    before = registry.embedded.calls
    assert registry.change(TOPIC, "t", retention_ms="1") is None
    assert registry.embedded.calls - before == OPERATIONS


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("number", range(1, OPERATIONS + 1))
def test_each_operation_meets_each_fault(registry: Bench, number: int, fault: Fault) -> None:
    registry.topic("t", {0: (1,)}, b'{"version":1,"config":{"segment.ms":"9"}}')
    registry.read("t")
    met = fault_at(registry, number, fault)
    assert registry.change(TOPIC, "t", retention_ms="1") is None
    assert len(met) == 1
    registry.read("t")  # a new session reads everything
    assert registry.configs.of(TOPIC, "t") == {"segment.ms": "9", "retention.ms": "1"}
    assert registry.data(f"{CHANGE}0000000000") == '{"version":2,"entity_path":"topics/t"}'


@pytest.mark.parametrize("number", range(1, OPERATIONS + 1))
def test_each_operation_is_refused(registry: Bench, number: int) -> None:
    registry.topic("t", {0: (1,)}, b'{"version":1,"config":{}}')
    registry.read("t")
    fault_at(registry, number, RegistryCode.NO_AUTH)
    error = registry.change(TOPIC, "t", retention_ms="1")
    if number == OPERATIONS:
        assert error is None, "the change was made; only this broker's read of it failed"
    else:
        assert error is not None
        assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_closed_registry_ends_changes(registry: Bench) -> None:
    ended: list[BrokerError | None] = []
    registry.configs.change(BROKER, "", lambda before: before, ended.append)
    registry.one.close(0)
    registry.owner.run_all()
    (error,) = ended
    assert error is not None
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR


# Reading.


def test_what_is_read_is_known(registry: Bench) -> None:
    registry.topic("a", {0: (1,)}, b'{"version":1,"config":{"retention.ms":"1"}}')
    registry.read("a", "missing", "a")
    assert registry.configs.resources(TOPIC) == {"a": {"retention.ms": "1"}, "missing": {}}
    assert registry.told == [(TOPIC, "a")]
    registry.put("/config/topics/missing", b'{"version":1,"config":{"retention.ms":"2"}}')
    registry.put("/config/brokers/<default>", b'{"version":1,"config":{"a":"1"}}')
    registry.put("/config/brokers/2", b'{"version":1,"config":{"a":"2"}}')
    registry.write(Delete("/config/topics/a"))
    registry.told.clear()
    registry.owner.run(registry.one, registry.configs.read_all())
    assert registry.told == [(BROKER, ""), (TOPIC, "a"), (TOPIC, "missing")]
    assert registry.configs.resources(TOPIC) == {"a": {}, "missing": {"retention.ms": "2"}}
    assert registry.configs.resources(BROKER) == {"": {"a": "1"}}
    assert (registry.configs.of(BROKER, "2"), registry.configs.resources(GROUP)) == ({}, {})


HOSTILE = [b"", b"{", b"[]", b"\xff", b'{"version":1}', b'{"version":1,"config":[]}', b'{"version":1,"config":{"a":1}}']


@pytest.mark.parametrize("content", HOSTILE, ids=repr)
def test_damage_does_no_harm(registry: Bench, content: bytes) -> None:
    registry.topic("t", {0: (1,)}, content)
    registry.topic("u", {0: (1,)}, b'{"version":1,"config":{"retention.ms":"1"}}')
    registry.put("/config/brokers/1", content)
    registry.read("t", "u")
    registry.owner.run(registry.one, registry.configs.read_all())
    assert registry.configs.resources(TOPIC) == {"t": {}, "u": {"retention.ms": "1"}}
    registry.put("/config/topics/u", content)
    registry.read("u")
    is_empty = content in (b"", b'{"version":1}')
    assert registry.configs.of(TOPIC, "u") == ({} if is_empty else {"retention.ms": "1"})


def test_values_that_cannot_be_used_are_left_out_and_kept(registry: Bench, caplog: pytest.LogCaptureFixture) -> None:
    stored = (
        b'{"version":1,"config":{"retention.ms":"soon","segment.ms":"9","new.one":"1","remote.storage.enable":"true"}}'
    )
    registry.topic("t", {0: (1,)}, stored)
    registry.read("t")
    assert registry.configs.of(TOPIC, "t") == {"segment.ms": "9"}
    assert "retention.ms" in caplog.text
    assert registry.change(TOPIC, "t", segment_ms="10") is None
    assert '"retention.ms":"soon"' in (registry.data("/config/topics/t") or "")


def test_one_that_cannot_be_read_does_not_keep_others_from_being_read(registry: Bench) -> None:
    for name in "ab":
        registry.topic(name, {0: (1,)}, b'{"version":1,"config":{"retention.ms":"1"}}')

    def plan(call: RegistryCall) -> RegistryCode | None:
        return RegistryCode.NO_AUTH if call.operation == GetData("/config/topics/a") else None

    registry.embedded.plan = plan
    with pytest.raises(RegistryError, match="NO_AUTH: /config/topics/a"):
        registry.read("a", "b")
    assert registry.configs.resources(TOPIC) == {"b": {"retention.ms": "1"}}


@pytest.mark.defect
def test_a_listener_that_fails_does_not_keep_others_from_being_read(registry: Bench) -> None:
    for name in "ab":
        registry.topic(name, {0: (1,)}, b'{"version":1,"config":{"retention.ms":"1"}}')

    def fail(kind: ConfigResourceType, name: str) -> None:
        raise RuntimeError("planned")

    registry.configs.on_change = fail
    registry.read("a", "b")
    assert set(registry.configs.resources(TOPIC)) == {"a", "b"}


def test_many_topics_are_read_in_batches(registry: Bench) -> None:
    before = registry.embedded.calls
    registry.read(*(f"t{number}" for number in range(BATCH_MAX + 1)))
    assert registry.embedded.calls - before == BATCH_MAX + 1
    assert len(registry.configs.resources(TOPIC)) == BATCH_MAX + 1


def test_deleted_topics_are_forgotten(registry: Bench) -> None:
    registry.read("gone", "again", "stays")
    topics = {name: TopicImage(name, TOPIC_ID, (), {}) for name in ("gone", "again", "stays")}
    image = MetadataImage("cluster", 1, {}, topics, {})
    again = TopicImage("again", ZERO_UUID, (), {})
    registry.configs.changed(image.with_changes([again], ["gone", "again"]))
    assert list(registry.configs.resources(TOPIC)) == ["again", "stays"]


def test_which_resources_a_broker_follows(registry: Bench) -> None:
    registry.read("t")
    followed = [(TOPIC, "t"), (BROKER, ""), (BROKER, "1")]
    for kind, name in (*followed, (TOPIC, "u"), (BROKER, "2"), (GROUP, "t")):
        assert registry.configs.follows(ConfigResource(kind, name)) == ((kind, name) in followed)
