"""Quotas and credentials are written as Kafka writes them, read from everywhere, and damaged nodes do no harm.

Method: use the embedded registry with a second session that writes as another program, and faults in each operation.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkawire.reference_broker.cluster.config_changes import config_changes
from kafkawire.reference_broker.cluster.embedded_registry import Fault
from kafkawire.reference_broker.cluster.registry_configs import RegistryConfigs
from kafkawire.reference_broker.cluster.registry_entity_configs import RegistryEntityConfigs, entity_of, entity_path
from kafkawire.reference_broker.metadata.entity_configs import DEFAULT, ConfigEntity, EntityConfigStore
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.registry.acls import CREATOR_ACL, READ_ACL
from kafkawire.sdk.registry.registry import (
    Check,
    Create,
    CreateMode,
    Delete,
    GetAcl,
    NodeAcl,
    RegistryCode,
    SetData,
    Transaction,
)
from tests.reference_broker.cluster.cluster_nodes import ClusterBench, fault_at

ALICE, ALICES_APP, APP = ConfigEntity("alice"), ConfigEntity("alice", "app"), ConfigEntity(client_id="app")
CHANGE = "/config/changes/config_change_"


class Bench(ClusterBench):
    """The store of one broker.

    Attributes:
        told: the entities that have changed.
    """

    def __init__(self, **options: bool) -> None:
        super().__init__()
        self.store = RegistryEntityConfigs(self.one, **options)
        self.told: list[ConfigEntity] = []
        self.store.listen(self.told.append)

    def change(self, **configs: Mapping[str, str]) -> dict[str, ErrorCode]:
        """Replace configurations of entities, named by their paths; return the errors."""
        return self.change_all({path: dict(each) for path, each in configs.items()})

    def change_all(self, configs: Mapping[str, Mapping[str, str]]) -> dict[str, ErrorCode]:
        ended: list[Mapping[ConfigEntity, BrokerError]] = []
        revisions = {ConfigEntity.parse(path): (lambda before, after=after: after) for path, after in configs.items()}
        self.store.change(revisions, ended.append)
        self.owner.until(lambda: bool(ended))
        self.owner.run_all()
        return {entity.path: error.code for entity, error in ended[0].items()}

    def read_all(self) -> None:
        self.owner.run(self.one, self.store.read_all())


@pytest.fixture
def registry() -> Bench:
    return Bench()


def test_the_writes_of_kafka(registry: Bench) -> None:
    """Apache Kafka 3.9.1 makes the same writes, except that it does not check the configuration's version."""
    writes = registry.writes()
    assert registry.change_all({"users/alice": {"producer_byte_rate": "5"}}) == {}
    assert registry.change_all({"users/alice/clients/<default>": {"consumer_byte_rate": "6"}}) == {}
    assert [each for each in writes if not isinstance(each, Create) or each.path != "/config/changes"] == [
        Transaction(
            (
                Check("/controller", 0),
                Create("/config/users/alice", b'{"version":1,"config":{"producer_byte_rate":"5"}}'),
            )
        ),
        Create(CHANGE, b'{"version":2,"entity_path":"users/alice"}', CreateMode.PERSISTENT_SEQUENTIAL),
        Transaction(
            (
                Check("/controller", 0),
                Create("/config/users/alice/clients/<default>", b'{"version":1,"config":{"consumer_byte_rate":"6"}}'),
            )
        ),
        Create("/config/users/alice/clients"),
        Transaction(
            (
                Check("/controller", 0),
                Create("/config/users/alice/clients/<default>", b'{"version":1,"config":{"consumer_byte_rate":"6"}}'),
            )
        ),
        Create(
            CHANGE, b'{"version":2,"entity_path":"users/alice/clients/<default>"}', CreateMode.PERSISTENT_SEQUENTIAL
        ),
    ]
    assert registry.told == [ALICE, ConfigEntity("alice", DEFAULT)]
    assert registry.store.of(ALICE) == {"producer_byte_rate": "5"}
    assert isinstance(registry.store, EntityConfigStore)


def test_everything_is_read(registry: Bench) -> None:
    config = b'{"version":1,"config":{"a":"1"}}'
    registry.write(
        *(Create(f"/config/{path}", config) for path in ("users/a%2Fb", "users/<default>", "clients/x", "ips/%3A%3A1")),
        Create("/config/users/bob", b""),
        Create("/config/users/bob/clients"),
        Create("/config/users/bob/clients/x", config),
        Create("/config/users/bob/clients/<default>", config),
    )
    registry.read_all()
    entities = [
        ConfigEntity("a/b"),
        ConfigEntity(DEFAULT),
        ConfigEntity(client_id="x"),
        ConfigEntity(ip="::1"),
        ConfigEntity("bob", "x"),
        ConfigEntity("bob", DEFAULT),
    ]
    assert registry.store.all() == {entity: {"a": "1"} for entity in entities}
    assert sorted(map(str, registry.told)) == sorted(map(str, entities))
    registry.told.clear()
    registry.write(Delete("/config/clients/x"), SetData("/config/ips/%3A%3A1", b""))
    registry.read_all()
    assert set(registry.told) == {ConfigEntity(client_id="x"), ConfigEntity(ip="::1")}
    assert len(registry.store.all()) == 4


def test_nodes_that_are_not_entities_or_are_damaged(registry: Bench, caplog: pytest.LogCaptureFixture) -> None:
    registry.put("/config/users/alice", b'{"version":1,"config":{"a":"1"}}')
    registry.read_all()
    for name in ("%2", "a%2fb", "a b"):
        registry.put(f"/config/users/{name}", b'{"version":1,"config":{"a":"2"}}')
    registry.put("/config/users/alice", b"{")
    registry.put("/config/users/bob", b"[]")
    registry.read_all()
    assert registry.store.all() == {ALICE: {"a": "1"}}
    assert "ignoring the configuration of users/%2: no two hexadecimal digits" in caplog.text
    assert "ignoring the configuration of users/a%2fb: its name is not sanitized" in caplog.text
    assert "previous values stay in effect" in caplog.text


def test_empty_nodes_are_deleted(registry: Bench) -> None:
    full: dict[str, Mapping[str, str]] = {
        "users/alice": {"a": "1"},
        "users/alice/clients/app": {"a": "1"},
        "users/alice/clients/other": {"a": "1"},
        "users/bob/clients/app": {"a": "1"},
        "clients/app": {"a": "1"},
    }
    assert registry.change_all(full) == {}
    assert registry.change_all({"users/alice": {}}) == {}
    assert registry.data("/config/users/alice") == '{"version":1,"config":{}}', "the user's client ids are below it"
    assert registry.change_all({"users/alice/clients/app": {}}) == {}
    assert registry.data("/config/users/alice/clients/app") is None
    assert registry.data("/config/users/alice/clients/other") is not None
    assert registry.change_all({"users/alice/clients/other": {}, "users/bob/clients/app": {}, "clients/app": {}}) == {}
    for path in ("users/alice", "users/bob", "clients/app"):
        assert registry.data(f"/config/{path}") is None, path
    assert registry.store.all() == {}


def test_a_user_with_configurations_is_kept(registry: Bench) -> None:
    registry.change_all({"users/alice": {"a": "1"}, "users/alice/clients/app": {"a": "1"}})
    registry.change_all({"users/alice/clients/app": {}})
    assert registry.data("/config/users/alice") == '{"version":1,"config":{"a":"1"}}'
    assert registry.data("/config/users/alice/clients") is None


def test_one_error_does_not_affect_other_entities(registry: Bench) -> None:
    ended: list[Mapping[ConfigEntity, BrokerError]] = []

    def refuse(before: Mapping[str, str]) -> Mapping[str, str]:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "no")

    too_large = {"a": "x" * 2**21}
    revisions = {ALICE: refuse, APP: lambda before: {"a": "1"}, ConfigEntity("."): lambda before: {"a": "1"}}
    registry.store.change({**revisions, ALICES_APP: lambda before: too_large}, ended.append)
    registry.owner.run_all()
    codes = {entity: error.code for entity, error in ended[0].items()}
    assert codes[ALICE] == codes[ConfigEntity(".")] == ErrorCode.INVALID_REQUEST
    assert APP not in codes
    assert registry.store.all().keys() >= {APP}


def test_without_a_controller(registry: Bench) -> None:
    registry.write(Delete("/controller"))
    assert registry.change_all({"users/alice": {"a": "1"}}) == {"users/alice": ErrorCode.NOT_CONTROLLER}


def test_a_session_that_ends_at_any_moment(registry: Bench) -> None:
    for number in range(1, 12):
        bench = Bench()
        fault_at(bench, number, Fault.EXPIRE_BEFORE)
        assert bench.change_all({"users/alice/clients/app": {"a": "1"}}) == {}
        bench.embedded.plan = None
        bench.read_all()
        assert bench.store.all() == {ALICES_APP: {"a": "1"}}, number


def test_a_read_that_fails_after_the_change(registry: Bench, caplog: pytest.LogCaptureFixture) -> None:
    calls = Bench()
    writes = calls.writes()
    calls.change_all({"users/alice": {"a": "1"}})
    assert writes
    number = calls.embedded.calls
    met = fault_at(registry, number, RegistryCode.NO_AUTH)
    assert registry.change_all({"users/alice": {"a": "1"}}) == {}
    assert len(met) <= 1


def test_only_brokers_may_read_credentials() -> None:
    bench = Bench()
    bench.one = bench.registry([("digest", "broker:secret")])
    bench.store = RegistryEntityConfigs(bench.one, is_secure=True)
    assert bench.change_all({"users/alice/clients/app": {"a": "1"}, "clients/app": {"a": "1"}}) == {}
    paths = ("/config/users/alice", "/config/users/alice/clients/app", "/config/clients/app", f"{CHANGE}0000000000")
    acls = bench.owner.ask_all(bench.one, *(GetAcl(path) for path in paths))
    sizes = [len(each.acl) for each in acls if isinstance(each, NodeAcl)]
    assert sizes == [len(CREATOR_ACL), len(CREATOR_ACL), len(CREATOR_ACL + READ_ACL), len(CREATOR_ACL + READ_ACL)]


def test_changes_by_other_programs_are_followed(registry: Bench) -> None:
    timers = Timers()
    changes = config_changes(registry.one, RegistryConfigs(registry.one, 1), registry.store, timers, lambda: 0)
    ready: list[Exception | None] = []
    registry.put("/config/users/alice", b'{"version":1,"config":{"a":"1"}}')
    changes.start(ready.append)
    registry.owner.run_all()
    assert (ready, registry.told) == ([None], [ALICE])
    registry.put("/config/ips/<default>", b'{"version":1,"config":{"a":"1"}}')
    registry.put("/config/users/alice", b'{"version":1,"config":{"a":"2"}}')
    for path in (b"ips/<default>", b"users/alice", b"users/..", b"users/a%2fb", b"users/%2"):
        content = b'{"version":2,"entity_path":"%s"}' % path
        registry.write(Create(CHANGE, content, CreateMode.PERSISTENT_SEQUENTIAL))
    registry.owner.run_all()
    assert registry.store.all() == {ALICE: {"a": "2"}, ConfigEntity(ip=DEFAULT): {"a": "1"}}
    assert timers.next_deadline_ms is None, "nothing failed"


def test_paths() -> None:
    for entity in (ALICE, ALICES_APP, APP, ConfigEntity(DEFAULT, DEFAULT), ConfigEntity(ip=DEFAULT)):
        assert entity_path(entity) == f"/config/{entity.path}"
        assert entity_of(entity.path) == entity
    assert entity_of("users/..") is None
