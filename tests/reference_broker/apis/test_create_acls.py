"""CreateAcls creates the ACLs that Apache Kafka creates, and refuses every ACL without an authorizer.

Method: send tables of requests, with Kafka's answers, to a broker without sockets.
"""

import pytest

from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.acl_cases import CREATIONS, results_of
from tests.reference_broker.apis.asked_bench import check
from tests.reference_broker.apis.asked_cases import cases, name_of
from tests.reference_broker.apis.authorization_bench import ADMIN, AuthorizedBench


@pytest.mark.parametrize("case", cases(ApiKey.CREATE_ACLS), ids=name_of)
def test_answers(bench, case):
    check(bench, case)


@pytest.mark.parametrize("case", CREATIONS, ids=lambda case: case.name)
def test_with_an_authorizer(case):
    bench = AuthorizedBench()
    bench.peer.principal = ADMIN
    assert results_of(bench.ask(case.request)) == case.results
    created = {
        (acl.resource_type, acl.resource_name, acl.principal, acl.host, acl.operation)
        for acl, (code, _) in zip(case.creations, case.results, strict=True)
        if code == ErrorCode.NONE
    }
    acls = bench.core.authorizer.acls
    assert acls is not None
    stored = {
        (pattern.resource_type, pattern.name, entry.principal, entry.host, entry.operation)
        for pattern, entry in acls.image
    }
    assert stored == created
