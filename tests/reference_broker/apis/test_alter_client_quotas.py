"""Quotas are checked and changed as in Apache Kafka: 4.3 in a standalone broker, 3.9 in a cluster; they survive.

Method: run the steps of `quota_cases.py` on a broker without sockets, and expect a real Kafka's answers; then check
what a failed disk, a crash, and the registry's rules change.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from kafkawire.reference_broker.metadata.entity_configs import DEFAULT, ConfigEntity, EntityConfigStore
from kafkawire.reference_broker.storage.checkpoints import ENTITY_CONFIGS
from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk
from kafkawire.sdk.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.quota_cases import IN_CLUSTER, STEPS, Entity, comparable, quota_request
from tests.reference_broker.broker_bench import BrokerBench, versions_of
from tests.reference_broker.security.kept_entity_configs import KeptEntityConfigs

NONE = ErrorCode.NONE
USER: Entity = {"user": "alice"}
BOTH: Entity = {"user": "alice", "client-id": None}


def alter(bench, entity, ops, **options):
    (result,) = bench.ask(quota_request(entity, ops, **options)).entries
    assert {each.entity_type: each.entity_name for each in result.entity} == entity
    return result.error_code, result.error_message


@pytest.mark.parametrize("last", [True, False], ids=["newest versions", "oldest versions"])
def test_the_answers_of_the_table(tmp_path: Path, last: bool) -> None:
    bench = BrokerBench(tmp_path / "data")
    for step in STEPS:
        api = APIS[ApiKey(step.request.SCHEMA.key or 0)]
        response = bench.ask(step.request, api.stable_versions.last if last else api.stable_versions.first)
        assert comparable(response) == step.answer, step.name
        bench.crash()
    assert (tmp_path / "data" / ENTITY_CONFIGS).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("version", versions_of(ApiKey.ALTER_CLIENT_QUOTAS))
def test_every_version(version: int) -> None:
    bench = BrokerBench(MemoryDisk())
    response = bench.ask(quota_request(USER, {"producer_byte_rate": 5.0}), version)
    assert [each.error_code for each in response.entries] == [NONE]


def test_a_disk_that_fails() -> None:
    disk = MemoryDisk()
    bench = BrokerBench(disk)

    def plan(call: DiskCall) -> None:
        if call.path.startswith(ENTITY_CONFIGS):
            raise OSError(errno.EIO, "planned")

    disk.plan = plan
    code, text = alter(bench, USER, {"producer_byte_rate": 5.0})
    assert code == ErrorCode.KAFKA_STORAGE_ERROR
    assert text
    store = bench.core.parts["entity_configs"]
    assert isinstance(store, EntityConfigStore)
    assert not store.all()


@pytest.mark.parametrize(("entity", "ops", "code", "text", "stored"), IN_CLUSTER)
def test_the_rules_of_a_cluster(entity, ops, code, text, stored) -> None:
    bench, store = BrokerBench(MemoryDisk()), KeptEntityConfigs(is_registry=True)
    bench.use(entity_configs=store)
    assert alter(bench, entity, ops, validate_only=True) == (code, text)
    assert not store.all()
    assert alter(bench, entity, ops) == (code, text)
    assert [*store.all().values()] == ([stored] if stored else [])


def test_an_entity_that_is_named_twice_in_a_cluster() -> None:
    bench, store = BrokerBench(MemoryDisk()), KeptEntityConfigs(is_registry=True)
    bench.use(entity_configs=store)
    first, second = quota_request(BOTH, {"producer_byte_rate": 5.0}), quota_request(BOTH, {"consumer_byte_rate": 6.0})
    (result,) = bench.ask(AlterClientQuotasRequest([*first.entries, *second.entries])).entries
    assert (result.error_code, result.error_message) == (NONE, None)
    entity = ConfigEntity("alice", DEFAULT)
    assert store.all() == {entity: {"producer_byte_rate": "5", "consumer_byte_rate": "6"}}
