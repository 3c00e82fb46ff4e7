"""DeleteGroups deletes empty groups and their offsets for good.

Method: send requests to a broker without sockets, and restart it to show that the groups stay deleted.
"""

import pytest

from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.group_of_one import commit, stable
from tests.reference_broker.broker_bench import versions_of


@pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_GROUPS))
def test_every_version(bench, version):
    bench.create()
    stable(bench, "busy")
    commit(bench, 1, "empty")
    results = bench.ask(DeleteGroupsRequest(["busy", "empty", "none", ""]), version).results
    assert {result.group_id: result.error_code for result in results} == {
        "busy": ErrorCode.NON_EMPTY_GROUP,
        "empty": ErrorCode.NONE,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
        "": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    bench.crash()
    assert [group.group_id for group in bench.core.groups.classic_groups()] == ["busy"]
    assert not bench.core.groups.offsets("empty")
