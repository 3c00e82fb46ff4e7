"""DescribeAcls finds what its filter selects, and nothing without an authorizer, as in Apache Kafka.

Method: send a table of requests, with Kafka's answers, to a broker without sockets; then requests to one with ACLs.
"""

import pytest

from kafkawire.sdk.protocol.messages.describe_acls import DescribeAclsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType
from tests.reference_broker.apis.asked_bench import check
from tests.reference_broker.apis.asked_cases import cases, name_of
from tests.reference_broker.apis.authorization_bench import ADMIN, ALICE, AuthorizedBench
from tests.reference_broker.apis.authorization_cases import on_group, on_topic


@pytest.mark.parametrize("case", cases(ApiKey.DESCRIBE_ACLS), ids=name_of)
def test_answers(bench, case):
    check(bench, case)


def test_with_an_authorizer():
    bench = AuthorizedBench()
    rights = on_topic(AclOperation.READ, "x"), on_topic(AclOperation.WRITE, "x"), on_group(AclOperation.READ, "x")
    bench.give(*rights)
    bench.peer.principal = ADMIN

    def found(kind, operation):
        asked = DescribeAclsRequest(kind, "x", PatternType.MATCH, None, None, operation, AclPermissionType.ANY)
        return {
            (each.resource_type, each.resource_name, each.pattern_type, acl.principal, acl.operation)
            for each in bench.ask(asked).resources
            for acl in each.acls
        }

    def told(right):
        return (right.resource_type, right.name, PatternType.LITERAL, str(ALICE), right.operation)

    assert found(ResourceType.ANY, AclOperation.ANY) == set(map(told, rights))
    assert found(ResourceType.TOPIC, AclOperation.ANY) == set(map(told, rights[:2]))
    assert found(ResourceType.ANY, AclOperation.READ) == {told(rights[0]), told(rights[2])}
    assert found(ResourceType.TOPIC, AclOperation.ALTER) == set()
