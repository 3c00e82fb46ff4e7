"""Apache Kafka and the reference broker answer requests about quotas and SCRAM credentials as specified in one table.

Method: send the steps in `quota_cases.py` in order to both brokers, which have no quotas before and afterwards. In a
cluster of Apache Kafka 3.9.1 and a reference broker, send both the same requests, and compare what they store in
ZooKeeper and what the other one then knows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from kazoo.exceptions import NoNodeError

from kafkawire import (
    ClientQuotaAlteration,
    ClientQuotaEntity,
    DefaultEntity,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialsDescription,
    UserScramCredentialUpsertion,
)
from kafkawire.reference_broker.security.quotas.entities import config_entity
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.sync import Admin
from tests.kafka.mixed_cluster import Kind, MixedCluster
from tests.kafka.produced import TIMEOUT_MS, call
from tests.kafka.servers import Server
from tests.reference_broker.apis.quota_cases import IN_CLUSTER, STEPS, comparable, quota_request

PATIENCE_SECONDS = 10


@pytest.mark.parametrize("newest", [True, False], ids=["newest versions", "oldest versions"])
def test_both_brokers_give_the_answers_of_the_table(either: Server, newest: bool) -> None:
    host, _, port = either.bootstrap.rpartition(":")
    with FrameSocket(host, int(port), TIMEOUT_MS / 1000) as socket:
        for step in STEPS:
            api = APIS[ApiKey(step.request.SCHEMA.key or 0)]
            version = api.stable_versions.last if newest else api.stable_versions.first
            deadline = time.monotonic() + PATIENCE_SECONDS
            # Kafka's broker learns of a change after its controller has answered.
            while (answer := comparable(call(socket, step.request, version))) != step.answer:
                assert time.monotonic() < deadline, (step.name, answer, step.answer)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """A reference broker, which is the controller at first, and Apache Kafka 3.9.1 on one ZooKeeper."""
    with MixedCluster((Kind.OURS, Kind.THEIRS), tmp_path_factory.mktemp("quotas")) as running:
        yield running


def address_of(cluster: MixedCluster, kind: Kind) -> str:
    addresses = dict(zip(map(cluster.kind, cluster.ids), cluster.bootstrap.split(","), strict=True))
    return addresses[kind]


@pytest.mark.parametrize("kind", Kind)
def test_both_brokers_of_a_cluster_have_the_rules_of_the_table(mixed: MixedCluster, kind: Kind) -> None:
    host, _, port = address_of(mixed, kind).rpartition(":")
    with FrameSocket(host, int(port), TIMEOUT_MS / 1000) as socket:
        for entity, ops, code, text, stored in IN_CLUSTER:
            for validate_only in (True, False):
                response = call(socket, quota_request(entity, ops, validate_only=validate_only), 1)
                assert comparable(response) == {frozenset(entity.items()): (code, text)}, (entity, ops)
            node = f"/config/{config_entity(entity).path}" if stored else ""
            assert not stored or json.loads(content(mixed, node) or b"")["config"] == stored
            removal = dict.fromkeys(stored)
            if stored:
                call(socket, quota_request(entity, dict(removal)), 1)
                assert content(mixed, node) is None, "the nodes of entities without quotas are deleted"


def content(cluster: MixedCluster, path: str) -> bytes | None:
    """Return the content of a node; None if the node does not exist."""
    try:
        data: bytes | None = cluster._registry.get(path)[0]
    except NoNodeError:
        return None
    return data or b""


ALICE, EVERYBODY = ClientQuotaEntity("a/b c*"), ClientQuotaEntity(DefaultEntity.DEFAULT)
ALTERATIONS = [
    ClientQuotaAlteration(ALICE, {"producer_byte_rate": 1_000_000, "request_percentage": 12.5}),
    ClientQuotaAlteration(EVERYBODY, {"consumer_byte_rate": 1e9}),
    ClientQuotaAlteration(ClientQuotaEntity("a/b c*", "app"), {"controller_mutation_rate": 1e7}),
    ClientQuotaAlteration(ClientQuotaEntity("bob", DefaultEntity.DEFAULT), {"producer_byte_rate": 5e8}),
    ClientQuotaAlteration(ClientQuotaEntity(client_id="app"), {"producer_byte_rate": 5e8}),
    ClientQuotaAlteration(ClientQuotaEntity(ip=DefaultEntity.DEFAULT), {"connection_creation_rate": 5_000}),
]
QUOTAS = {each.entity: dict(each.ops) for each in ALTERATIONS}
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
INFOS = (ScramCredentialInfo(SHA_256, 4096), ScramCredentialInfo(SHA_512, 8192))
USERS = {"a/b c*": UserScramCredentialsDescription("a/b c*", INFOS)}


def tree(cluster: MixedCluster, *roots: str) -> dict[str, bytes | None]:
    """Return the nodes below some nodes, with their contents."""
    found: dict[str, bytes | None] = {}
    for root in roots:
        for name in cluster._children(root):
            found |= {f"{root}/{name}": content(cluster, f"{root}/{name}")} | tree(cluster, f"{root}/{name}")
    return found


def test_each_broker_sees_what_the_other_one_stores(mixed: MixedCluster) -> None:
    nodes = ("/config/users", "/config/clients", "/config/ips")
    trees = []
    for writer, reader in ((Kind.OURS, Kind.THEIRS), (Kind.THEIRS, Kind.OURS)):
        mixed.elect(writer)
        with Admin(address_of(mixed, writer)) as writing, Admin(address_of(mixed, reader)) as reading:
            writing.alter_client_quotas(ALTERATIONS).all()
            upsertions = [
                UserScramCredentialUpsertion("a/b c*", SHA_256, "secret", 4096, b"salt"),
                UserScramCredentialUpsertion("a/b c*", SHA_512, "secret", 8192, b"salt"),
            ]
            writing.alter_user_scram_credentials(upsertions).all()
            mixed.until(lambda: reading.describe_client_quotas() == QUOTAS, f"{reader} knows the quotas")
            mixed.until(lambda: reading.describe_user_scram_credentials().values == USERS, f"{reader} knows the users")
            assert writing.describe_client_quotas() == QUOTAS
            trees.append(tree(mixed, *nodes))
            writing.alter_client_quotas(each._replace(ops=dict.fromkeys(each.ops)) for each in ALTERATIONS).all()
            writing.alter_user_scram_credentials(
                UserScramCredentialDeletion("a/b c*", each) for each in ScramMechanism
            ).all()
            mixed.until(lambda: not reading.describe_client_quotas(), f"{reader} has forgotten the quotas")
            mixed.until(lambda: not reading.describe_user_scram_credentials().values, f"{reader} has forgotten users")
            assert tree(mixed, *nodes) == {}
    assert trees[0] == trees[1], "both write the same nodes"
