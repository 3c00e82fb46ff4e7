"""DeleteGroups forgets empty groups and their offsets, for good.

Method: a broker without sockets; the broker is started again to see that the groups stay away.
"""

import pytest

from kafkawire.reference_broker.groups.offsets import Committed
from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.group_of_one import stable
from tests.reference_broker.broker_bench import versions_of


@pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_GROUPS))
def test_every_version(bench, version):
    topic_id = bench.create()
    stable(bench, "busy")
    bench.core.offsets.commit("empty", {("t", 0): Committed(1, -1, "", 0, topic_id)}, 0)
    bench.core.groups.group_for_commit("empty", 0)
    results = bench.ask(DeleteGroupsRequest(["busy", "empty", "none", ""]), version).results
    assert {result.group_id: result.error_code for result in results} == {
        "busy": ErrorCode.NON_EMPTY_GROUP,
        "empty": ErrorCode.NONE,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
        "": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    bench.crash()
    assert set(bench.core.groups.groups) == {"busy"}
    assert not bench.core.offsets.of_group("empty")
