"""ListGroups lists groups in every version, by state and type where that can be asked for.

Method: a broker without sockets, one stable and one empty group.
"""

import pytest

from kafkawire.sdk.protocol.messages.list_groups import ListGroupsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from tests.reference_broker.apis.group_of_one import commit, stable
from tests.reference_broker.broker_bench import versions_of


@pytest.fixture
def groups(bench):
    stable(bench, "busy")
    bench.create()
    commit(bench, 1, "empty")
    return bench


@pytest.mark.parametrize("version", versions_of(ApiKey.LIST_GROUPS))
def test_every_version(groups, version):
    listed = {group.group_id: group for group in groups.ask(ListGroupsRequest(), version).groups}
    assert set(listed) == {"busy", "empty"}
    assert (listed["busy"].protocol_type, listed["empty"].protocol_type) == ("consumer", "")
    assert listed["busy"].group_state == ("Stable" if version >= 4 else "")
    assert listed["busy"].group_type == ("classic" if version >= 5 else "")


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        (["Stable"], [], {"busy"}),
        (["empty", "dead"], [], {"empty"}),
        ([], ["Classic"], {"busy", "empty"}),
        ([], ["consumer"], set()),
        (["Stable"], ["consumer"], set()),
    ],
)
def test_filters(groups, states, types, expected):
    assert {group.group_id for group in groups.ask(ListGroupsRequest(states, types)).groups} == expected
