"""Each ACL and each filter gets its own result, whatever a broker answers.

Method: call a scripted in-memory broker with hand-built responses.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.acls import AccessControlEntry, AclBinding, AclBindingFilter, ResourcePattern
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.admin.administering import administering
from tests.sdk.scripted_broker import StoringBroker

Created = messages.CreateAclsResponse
Described = messages.DescribeAclsResponse
Deleted = messages.DeleteAclsResponse

READ = AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW)
LITERAL = AclBinding(ResourcePattern(ResourceType.TOPIC, "t"), READ)
PREFIXED = AclBinding(ResourcePattern(ResourceType.GROUP, "g-", PatternType.PREFIXED), READ._replace(host="10.0.0.1"))


def test_acls_are_created_and_refused_one_by_one() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.CREATE_ACLS] = lambda request: Created(
            results=[Created.AclCreationResult(), Created.AclCreationResult(ErrorCode.INVALID_REQUEST, "no")]
        )
        values, errors = await admin.create_acls(LITERAL, PREFIXED)
        assert values == {LITERAL: None}
        assert str(errors[PREFIXED]) == ("INVALID_REQUEST: ALLOW User:a READ on group g- (prefixed) from 10.0.0.1: no")
        (request,) = broker.asked(ApiKey.CREATE_ACLS)
        assert isinstance(request, messages.CreateAclsRequest)
        Creation = messages.CreateAclsRequest.AclCreation
        assert list(request.creations) == [
            Creation(2, "t", 3, "User:a", "*", 3, 3),
            Creation(3, "g-", 4, "User:a", "10.0.0.1", 3, 3),
        ]
        assert await admin.create_acls([]) == ({}, {})

    administering(test)


def test_a_request_is_sent_again_when_the_controller_moves() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        moved = Created(results=[Created.AclCreationResult(ErrorCode.NOT_CONTROLLER, None)])
        answers = [moved, Created(results=[Created.AclCreationResult()])]
        broker.responders[ApiKey.CREATE_ACLS] = lambda request: answers.pop(0)
        assert (await admin.create_acls([LITERAL])).all() == {LITERAL: None}

    administering(test)


def test_acls_are_described() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        entries = [Described.AclDescription("User:a", "*", 3, 3), Described.AclDescription("User:b", "h", 99, 2)]
        broker.responders[ApiKey.DESCRIBE_ACLS] = lambda request: Described(
            resources=[Described.DescribeAclsResource(2, "t", 3, entries)]
        )
        first, second = await admin.describe_acls()
        assert first == LITERAL
        assert second.entry == ("User:b", "h", AclOperation.UNKNOWN, AclPermissionType.DENY)
        broker.responders[ApiKey.DESCRIBE_ACLS] = lambda request: Described(
            error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer"
        )
        with pytest.raises(BrokerError, match="SECURITY_DISABLED: ACLs: No Authorizer"):
            await admin.describe_acls(AclBindingFilter())

    administering(test)


def test_acls_are_deleted_filter_by_filter() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        Matching = Deleted.DeleteAclsMatchingAcl
        matching = [
            Matching(0, None, *LITERAL.pattern, *READ),
            Matching(ErrorCode.UNKNOWN_SERVER_ERROR, None, *PREFIXED.pattern, *PREFIXED.entry),
        ]
        broker.responders[ApiKey.DELETE_ACLS] = lambda request: Deleted(
            filter_results=[
                Deleted.DeleteAclsFilterResult(0, None, matching),
                Deleted.DeleteAclsFilterResult(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not you"),
            ]
        )
        first = AclBindingFilter()
        second = first._replace(pattern_filter=first.pattern_filter._replace(name="t"))
        values, errors = await admin.delete_acls(first, second)
        assert values[first].values == {LITERAL: None}
        assert [str(error) for error in values[first].errors.values()] == [
            "UNKNOWN_SERVER_ERROR: ALLOW User:a READ on group g- (prefixed) from 10.0.0.1"
        ]
        assert str(errors[second]) == "CLUSTER_AUTHORIZATION_FAILED: ACLs of a filter: not you"
        assert await admin.delete_acls([]) == ({}, {})

    administering(test)


def test_a_response_that_lacks_a_result() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.CREATE_ACLS] = lambda request: Created()
        broker.responders[ApiKey.DELETE_ACLS] = lambda request: Deleted()
        with pytest.raises(RemoteProtocolError, match="the result of an ACL"):
            await admin.create_acls(LITERAL)
        with pytest.raises(RemoteProtocolError, match="the result of a filter"):
            await admin.delete_acls(AclBindingFilter())

    administering(test)
