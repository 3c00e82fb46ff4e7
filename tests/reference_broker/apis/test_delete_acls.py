"""DeleteAcls deletes what its filters select, and refuses every filter without an authorizer, as Apache Kafka does.

Method: send a table of requests, with Kafka's answers, to a broker without sockets; then requests to one with ACLs.
"""

import errno

import pytest

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.delete_acls import DeleteAclsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.asked_bench import check
from tests.reference_broker.apis.asked_cases import cases, name_of
from tests.reference_broker.apis.authorization_bench import ADMIN, ALICE, AuthorizedBench
from tests.reference_broker.apis.authorization_cases import on_cluster, on_group, on_topic

ACLS = [
    each.of(str(ALICE))
    for each in (
        on_topic(AclOperation.READ, "x"),
        on_topic(AclOperation.WRITE, "y"),
        on_group(AclOperation.READ, "x"),
        on_cluster(AclOperation.CREATE),
    )
]


def stored(bench):
    acls = bench.core.authorizer.acls
    assert acls is not None
    return set(acls.image)


@pytest.mark.parametrize("case", cases(ApiKey.DELETE_ACLS), ids=name_of)
def test_answers(bench, case):
    check(bench, case)


def test_with_an_authorizer():
    bench = AuthorizedBench()
    bench.give(*ACLS)
    bench.peer.principal = ADMIN
    Filter = DeleteAclsRequest.DeleteAclsFilter
    every = (PatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
    filters = [Filter(ResourceType.GROUP, "x", *every), Filter(ResourceType.TOPIC, None, *every)]
    results = bench.ask(DeleteAclsRequest(filters)).filter_results
    assert [(each.error_code, each.error_message) for each in results] == [(ErrorCode.NONE, None)] * 2
    (group, *others), topics = results[0].matching_acls, results[1].matching_acls
    assert (group.resource_name, group.principal, group.operation, others) == ("x", "User:alice", AclOperation.READ, [])
    assert {each.resource_name for each in topics} == {"x", "y"}
    assert {(each.error_code, each.error_message) for each in topics} == {(ErrorCode.NONE, None)}
    assert stored(bench) == {ACLS[-1]}


def test_a_failing_disk_deletes_nothing():
    bench = AuthorizedBench()
    bench.give(*ACLS)
    bench.peer.principal = ADMIN

    def plan(call):
        if call.path.startswith("acls"):
            raise OSError(errno.EIO, "a planned fault", call.path)

    assert isinstance(bench.disk, MemoryDisk)
    bench.disk.plan = plan
    wanted = ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    (result,) = bench.ask(DeleteAclsRequest([DeleteAclsRequest.DeleteAclsFilter(*wanted)])).filter_results
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert stored(bench) == set(ACLS)
