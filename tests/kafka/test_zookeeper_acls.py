"""Our brokers and Kafka's in one cluster enforce the same ACLs, no matter which broker a client asks to change them.

Method: run one broker of each kind on a real ZooKeeper, and ask each of them in turn, with our `Admin` and with Kafka's
tool. Compare the content of the nodes byte by byte, and ask both brokers about topics that ACLs hide. Another node of
Kafka verifies the answers that our broker was tested with.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkawire import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    BrokerError,
    NewTopic,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.sync import Admin
from tests.kafka.cleaning import until
from tests.kafka.mixed_cluster import Kind, MixedCluster
from tests.kafka.produced import TIMEOUT_MS, call
from tests.kafka.zookeeper import ZooKeeper, ZooKeeperKafka
from tests.reference_broker.apis.authorization_bench import prepare
from tests.reference_broker.apis.authorization_cases import answers
from tests.reference_broker.apis.member_authorization_cases import (
    MEMBER_ANSWERS,
    MEMBER_CASES,
    MEMBER_OPTIONS,
    denials,
    without_addresses,
)

OURS, THEIRS = 1, 2

#: The client of every listener; without ACLs, it may do everything.
ANONYMOUS = "User:ANONYMOUS"

TOOL = "kafka.admin.AclCommand"

DENIED, ALLOWED = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NONE

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """A cluster whose tests leave no ACLs."""
    kinds = Kind.OURS, Kind.THEIRS
    folder = tmp_path_factory.mktemp("acls")
    with MixedCluster(kinds, folder, dict.fromkeys(Kind, MEMBER_OPTIONS)) as running:
        yield running


def rule(name: str, kind: PatternType, operation: AclOperation = AclOperation.DESCRIBE) -> AclBinding:
    """Return an ACL that denies something to this test's clients."""
    entry = AccessControlEntry(ANONYMOUS, "*", operation, AclPermissionType.DENY)
    return AclBinding(ResourcePattern(ResourceType.TOPIC, name, kind), entry)


def known_to(cluster: MixedCluster, broker_id: int) -> set[AclBinding]:
    """Return the ACLs that a broker describes."""
    with Admin(cluster.address(broker_id)) as admin:
        return set(admin.describe_acls())


def await_everywhere(cluster: MixedCluster, *acls: AclBinding) -> None:
    """Wait until both brokers describe exactly these ACLs."""

    def known() -> list[set[AclBinding]]:
        return [known_to(cluster, each) for each in cluster.ids]

    cluster.until(lambda: known() == [set(acls)] * 2, lambda: f"the brokers know {known()}")


def code_from(cluster: MixedCluster, broker_id: int, topic: str) -> int:
    """Return the error code with which a broker describes a topic."""
    host, port = cluster.address(broker_id).rsplit(":", 1)
    request = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    with FrameSocket(host, int(port), TIMEOUT_MS / 1000) as socket:
        response = call(socket, request, 9)
    assert isinstance(response, MetadataResponse)
    (found,) = response.topics
    return found.error_code


@pytest.mark.parametrize("asked", [OURS, THEIRS])
def test_both_heed_what_either_has_stored(cluster: MixedCluster, asked: int) -> None:
    literal, prefix = f"literal-{asked}", f"prefix-{asked}-"
    prefixed = f"{prefix}topic"
    acls = (
        rule(literal, PatternType.LITERAL),
        rule(literal, PatternType.LITERAL, AclOperation.DESCRIBE_CONFIGS),
        rule(prefix, PatternType.PREFIXED),
    )
    other = OURS + THEIRS - asked
    with Admin(cluster.address(asked)) as admin:
        admin.create_topics([NewTopic(literal, 1, 2), NewTopic(prefixed, 1, 2)])
        cluster.await_in_sync(literal, prefixed, replicas=2)
        assert not admin.create_acls(acls).errors
    await_everywhere(cluster, *acls)
    for each in cluster.ids:
        assert [code_from(cluster, each, topic) for topic in (literal, prefixed)] == [DENIED, DENIED]
    listed = cluster.run_tool(TOOL, "--list")
    assert (literal in listed, prefix in listed) == (True, True)

    of_configs = AclBindingFilter(entry_filter=AccessControlEntryFilter(operation=AclOperation.DESCRIBE_CONFIGS))
    with Admin(cluster.address(other)) as admin:
        deleted = admin.delete_acls(of_configs).values[of_configs]
        assert (list(deleted.values), deleted.errors) == ([acls[1]], {})
    await_everywhere(cluster, acls[0], acls[2])

    # The brokers read the ACLs when they start.
    cluster.stop(other)
    cluster.start(other)
    await_everywhere(cluster, acls[0], acls[2])

    with Admin(cluster.address(other)) as admin:
        admin.delete_acls(AclBindingFilter())
    await_everywhere(cluster)
    for each in cluster.ids:
        assert [code_from(cluster, each, topic) for topic in (literal, prefixed)] == [ALLOWED, ALLOWED]
    for path in (f"/kafka-acl/Topic/{literal}", f"/kafka-acl-extended/prefixed/Topic/{prefix}"):
        assert cluster.node(path) is None


def test_the_nodes_are_equal(cluster: MixedCluster) -> None:
    written = {}
    acls = []
    for asked in (OURS, THEIRS):
        literal, prefixed = f"node-{asked}", f"node-{asked}-"
        for kind, name in ((PatternType.LITERAL, literal), (PatternType.PREFIXED, prefixed)):
            acls.append(rule(name, kind, AclOperation.DESCRIBE_CONFIGS))
            with Admin(cluster.address(asked)) as admin:
                assert not admin.create_acls(acls[-1]).errors
        written[asked] = [
            cluster.node(f"/kafka-acl/Topic/{literal}"),
            cluster.node(f"/kafka-acl-extended/prefixed/Topic/{prefixed}"),
        ]
    # A broker deletes the ACLs that it has heard about.
    await_everywhere(cluster, *acls)
    with Admin(cluster.address(OURS)) as admin:
        admin.delete_acls(AclBindingFilter())
    await_everywhere(cluster)
    assert written[OURS] == written[THEIRS]
    assert None not in written[OURS]


def test_kafkas_tool(cluster: MixedCluster) -> None:
    order = ("--topic", "told", "--deny-principal", ANONYMOUS, "--operation", "Read", "--deny-host", "127.0.0.1")
    told = AclBinding(
        ResourcePattern(ResourceType.TOPIC, "told"),
        AccessControlEntry(ANONYMOUS, "127.0.0.1", AclOperation.READ, AclPermissionType.DENY),
    )
    for broker_id in cluster.ids:
        cluster.run_tool(TOOL, "--add", *order, asked=broker_id)
        await_everywhere(cluster, told)
        cluster.run_tool(TOOL, "--remove", "--force", *order, asked=broker_id)
        await_everywhere(cluster)


def test_the_answers_to_what_is_denied() -> None:
    found = {}
    with ZooKeeper() as zookeeper, ZooKeeperKafka(1, zookeeper.address, MEMBER_OPTIONS) as node:

        def ask(request: Message, version: int) -> Message:
            host, port = node.bootstrap.rsplit(":", 1)
            with FrameSocket(host, int(port), TIMEOUT_MS / 1000) as socket:
                return call(socket, request, version)

        facts = prepare(ask, lambda is_done: until(is_done, "what the cases need exists"))
        with Admin(node.bootstrap) as admin:
            assert not admin.create_acls(denials(ANONYMOUS)).errors
            # The ACL for the cluster is the last.
            until(lambda: _is_denied(admin), "the ACLs apply")
        for case in MEMBER_CASES:
            found[case.name] = without_addresses(answers(ask(case.request(facts), case.version), case.version))
    assert found == MEMBER_ANSWERS


def _is_denied(admin: Admin) -> bool:
    try:
        admin.describe_acls()
    except BrokerError as error:
        return error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return False
