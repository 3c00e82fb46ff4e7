"""A filter in a request is read as it is, and one with an element that no client sends ends the connection.

Method: read filters of both requests that have them.
"""

from typing import Any

import pytest

from kafkawire.reference_broker.requests.acl_filters import read_filter
from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.acls import AccessControlEntryFilter, AclBindingFilter, ResourcePatternFilter
from kafkawire.sdk.protocol.messages.delete_acls import DeleteAclsRequest
from kafkawire.sdk.protocol.messages.describe_acls import DescribeAclsRequest
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType

GIVEN = (
    *(ResourceType.GROUP, "g", PatternType.MATCH),
    *("User:a", "10.0.0.1", AclOperation.READ, AclPermissionType.DENY),
)
ANY = (ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)

#: Where the numbers are in a filter.
NUMBERS = (0, 2, 5, 6)


@pytest.mark.parametrize("kind", [DescribeAclsRequest, DeleteAclsRequest.DeleteAclsFilter])
def test_every_element(kind):
    wanted = AclBindingFilter(ResourcePatternFilter(*GIVEN[:3]), AccessControlEntryFilter(*GIVEN[3:]))
    assert read_filter("DescribeAcls", kind(*GIVEN)) == wanted
    assert read_filter("DescribeAcls", kind(*ANY)) == AclBindingFilter()


@pytest.mark.parametrize("place", NUMBERS)
def test_unknown_elements(place):
    asked: list[Any] = [*ANY]
    asked[place] = 0
    with pytest.raises(RemoteProtocolError, match="DescribeAcls contains an element of type UNKNOWN"):
        read_filter("DescribeAcls", DescribeAclsRequest(*asked))


@pytest.mark.parametrize("place", NUMBERS)
def test_numbers_of_later_releases_match_nothing(place):
    asked: list[Any] = [*ANY]
    asked[place] = 99
    (kind, _, pattern_type), (_, _, operation, permission_type) = read_filter("X", DescribeAclsRequest(*asked))
    assert (kind, pattern_type, operation, permission_type)[NUMBERS.index(place)] == 0
